"""An allocator the program brings: every function of it is called when torch_mlu calls it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from _programs import lines

from mlu_backend import build

SOURCE = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
using Queue = void*;
using Pool = std::pair<unsigned long long, unsigned long long>;
extern "C" {
long taken = 0, given = 0, bytes = 0, cards = 0, emptied = 0, percent = 0, recorded = 0, based = 0, pools = 0;
void* take(size_t size, int card, Queue) { ++taken; bytes += size; cards = card; return malloc(size); }
void give(void* memory, size_t size, int, Queue) { ++given; bytes -= size; free(memory); }
void* nothing(size_t, int, Queue) { return nullptr; }
long init_cards = 0;
void init(int count) { init_cards = count; }
void reset() { ++emptied; }
void fraction(double part, int) { percent = static_cast<long>(part * 100); }
void* base(void* memory, size_t*) { ++based; return memory; }
void record(void*, Queue queue) { recorded = queue != nullptr; }
void begin(int, Pool pool, std::function<bool(Queue)> mine) { pools += pool.second + (mine(nullptr) ? 0 : 100); }
void end(int, Pool) { pools += 1000; }
void release(int, Pool) { pools += 10000; }
}
"""

START = """
import ctypes, gc, sys
import torch, torch_mlu
library = ctypes.CDLL({library!r})
def count(name):
    return ctypes.c_long.in_dll(library, name).value
def address(name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
mine = torch.mlu.memory.MLUPluggableAllocator({library!r}, "take", "give")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("allocator")
    (folder / "allocator.cpp").write_text(SOURCE)
    made: Path = folder / "allocator.so"
    command = [build.compiler(), "-std=c++17", "-shared", "-fPIC", str(folder / "allocator.cpp"), "-o", str(made)]
    subprocess.run(command, check=True)
    return str(made)


def ran(library: str, code: str) -> list[str]:
    return lines(START.format(library=library) + code)


def test_tensors_results_and_gradients_come_from_the_allocator_and_go_back(library: str) -> None:
    code = """
torch.mlu.memory.change_current_allocator(mine)
current = torch.mlu.memory._get_current_allocator().allocator()
print(torch_mlu._MLUC._mlu_getAllocatorBackend(), current is mine.allocator())
x = torch.randn(4, 4, device="mlu:1", requires_grad=True)
print(count("taken") > 0, count("cards"), count("init_cards"))
before = count("taken")
(x @ x).sum().backward()
host = x.detach().cpu()
print(count("taken") > before, torch.allclose(x.grad.cpu(), host.sum(1)[None] + host.sum(0)[:, None]))
y = torch.zeros(2, device="mlu").resize_(1000).fill_(1)
print(y.sum().item())
del x, y
gc.collect()
print(count("taken") == count("given"), count("bytes"))
"""
    assert ran(library, code) == ["pluggable True", "True 1 0", "True True", "1000.0", "True 0"]


def test_the_other_functions_are_called_where_the_card_would_call_them(library: str) -> None:
    code = """
own = mine.allocator()
for setter, name in [("set_init_fn", "init"), ("set_reset_fn", "reset"), ("set_memory_fraction_fn", "fraction"),
                     ("set_base_alloc_fn", "base"), ("set_record_stream_fn", "record"),
                     ("set_begin_allocate_to_pool", "begin"), ("set_end_allocate_to_pool_fn", "end"),
                     ("set_release_pool", "release")]:
    getattr(own, setter)(address(name))
torch.mlu.memory.change_current_allocator(mine)
x = torch.ones(8, device="mlu")
print(count("init_cards") == torch.mlu.device_count())
torch.mlu.set_per_process_memory_fraction(0.25)
torch.mlu.empty_cache()
print(count("percent"), count("emptied"))
side = torch.mlu.Stream()
x.record_stream(side)
print(count("recorded"))
with torch.mlu.stream(side):
    torch_mlu._MLUC._mlu_beginAllocateCurrentStreamToPool(0, (0, 7))
torch_mlu._MLUC._mlu_endAllocateCurrentStreamToPool(0, (0, 7))
torch_mlu._MLUC._mlu_releasePool(0, (0, 7))
print(count("pools"))
x.untyped_storage()._share_mlu_()
print(count("based"), x.tolist() == [1.0] * 8)
"""
    assert ran(library, code) == ["True", "25 1", "1", "11107", "1 True"]


def test_an_allocator_without_accounts_says_so(library: str) -> None:
    code = """
torch.mlu.memory.change_current_allocator(mine)
x = torch.ones(1, device="mlu")
for ask in (torch.mlu.memory_stats, torch.mlu.reset_peak_memory_stats, torch.mlu.memory_snapshot):
    try:
        ask()
        print("answered")
    except RuntimeError as error:
        print(str(error).split(".")[0])
"""
    assert ran(library, code) == [
        f"MLUPluggableAllocator does not yet support {name}"
        for name in ("getDeviceStats", "resetPeakStats", "snapshot")
    ]


def test_an_allocator_is_changed_once_and_before_the_first_use(library: str) -> None:
    code = """
def change(allocator):
    try:
        torch.mlu.memory.change_current_allocator(allocator)
        return "changed"
    except RuntimeError as error:
        return str(error)
print(change(mine))
print(change(mine))
"""
    assert ran(library, code) == ["changed", "Can't swap an already initialized allocator"]
    late = 'torch.ones(1, device="mlu")\n' + code
    assert ran(library, late)[0] == "Can't swap an already initialized allocator"


def test_an_allocator_that_gives_nothing_is_an_error_and_not_a_crash(library: str) -> None:
    code = f"""
torch.mlu.memory.change_current_allocator(torch.mlu.memory.MLUPluggableAllocator({library!r}, "nothing", "give"))
try:
    torch.ones(1, device="mlu")
except RuntimeError as error:
    print(str(error).split(chr(10))[0])
"""
    assert ran(library, code) == ["the pluggable allocator gave no memory for 4 bytes on mlu:0"]
