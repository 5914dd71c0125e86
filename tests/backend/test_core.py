"""Starting the device, and statistics of tensors."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mlu_backend import core

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


def test_loading_again_gives_the_same_module(extension: Any) -> None:
    assert core.load() is extension and core.loaded()


def test_the_device_works_without_torch_mlu(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend.core as core\ncore.load()\n"
        "x = torch.ones(2, device='mlu')\n"
        "assert x.is_mlu and x.device == torch.device('mlu:0') and x.mlu() is x\n"
        "assert torch.nn.Linear(2, 2).mlu()(x).shape == (2,)\n"
        "print((x + x).tolist(), hasattr(torch, 'mlu'))"
    )
    assert done.stdout.strip() == "[2.0, 2.0] False", done.stderr


def test_a_process_whose_private_device_is_taken_is_told_by_whom(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend.core as core\ntorch.utils.rename_privateuse1_backend('other')\ncore.load()"
    )
    assert done.returncode and "PrivateUse1 device as 'other'" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [("MLU_EMULATOR_CARDS", "17"), ("MLU_EMULATOR_MEMORY", "much"), ("MLU_EMULATOR_PROFILE", "mlu100")],
)
def test_a_wrong_setting_is_named(run_python: Callable[..., Any], name: str, value: str) -> None:
    done = run_python("import mlu_backend.core as core\ncore.load()", **{name: value})
    assert done.returncode and name in done.stderr and value in done.stderr


def test_settling_waits_for_the_backward_pass_a_card_is_busy_with(extension: Any) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(gradient: torch.Tensor) -> torch.Tensor:
        begun.set()
        time.sleep(0.3)
        ended.set()
        return gradient

    leaf = torch.ones(2, device="mlu", requires_grad=True)
    leaf.register_hook(slow)
    other = threading.Thread(target=(leaf * 2).sum().backward)
    other.start()
    assert begun.wait(30) and not ended.is_set()
    extension.settle_autograd(0)
    assert ended.is_set()
    other.join()


@pytest.mark.parametrize("run", range(4))
def test_a_program_whose_last_line_is_a_backward_pass_ends_well(run_python: Callable[..., Any], run: int) -> None:
    # One processor, and the card's thread slow on it: it lets go of the pass (and of what the pass holds, slowly) while
    # the interpreter is ending already. Two of three such runs ended with 134 before there was something to settle.
    done = run_python(
        "import contextvars, os, time, torch\n"
        "from pathlib import Path\n"
        "from mlu_backend import core\n"
        "core.load()\n"
        "class Slow:\n"
        "    def __del__(self): time.sleep(0.2)\n"
        "torch.ones(2, device='mlu', requires_grad=True).sum().backward()\n"
        "for task in Path('/proc/self/task').iterdir():\n"
        "    os.sched_setaffinity(int(task.name), {min(os.sched_getaffinity(0))})\n"
        "    if (task / 'comm').read_text().startswith('pt_autograd'):\n"
        "        os.setpriority(os.PRIO_PROCESS, int(task.name), 19)\n"
        "def last():\n"
        "    contextvars.ContextVar('held').set(Slow())\n"
        "    torch.ones(2, device='mlu', requires_grad=True).sum().backward()\n"
        "contextvars.copy_context().run(last)\n"
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_glue_does_not_import_torch(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import sys\nimport mlu_backend.core, mlu_backend.build, mlu_backend.profiles, mlu_backend.refused\n"
        "print('torch' in sys.modules)"
    )
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_statistics_are_those_of_plain_torch_and_equal_on_both_devices(extension: Any, dtype: torch.dtype) -> None:
    from mlu_backend.parity.statistics import measure_in_torch, sample

    torch.manual_seed(0)
    tensor = (torch.randn(257, 301) * 50).to(dtype)
    if dtype.is_floating_point:
        tensor[3, 3], tensor[4, 4] = float("nan"), float("-inf")
    found, there, plain = core.stats(tensor), core.stats(tensor.mlu()), measure_in_torch(tensor)
    assert found == there and list(found) == ["norm", "min", "max", "mean", "nonfinite", "checksum", "sample"]
    assert found["sample"] == sample(tensor)
    assert found["checksum"] == plain["checksum"] and found["nonfinite"] == plain["nonfinite"]
    for key in ("norm", "min", "max", "mean"):
        assert found[key] == pytest.approx(plain[key], rel=1e-9)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_statistics_of_any_length_and_start_are_those_of_plain_torch(extension: Any, dtype: torch.dtype) -> None:
    from mlu_backend.parity.statistics import measure_in_torch

    torch.manual_seed(1)
    memory = (torch.randn(33_000) * 50).to(dtype)
    for start in (0, 1, 3):
        for length in (*range(1, 40), 4095, 4096, 4097, 8191, 32_767, 32_768, 32_769):
            part = memory[start : start + length]
            found, plain = core.stats(part), measure_in_torch(part)
            assert [found[k] for k in ("min", "max", "nonfinite", "checksum")] == [
                plain[k] for k in ("min", "max", "nonfinite", "checksum")
            ]
            assert found["norm"] == pytest.approx(plain["norm"], rel=1e-9)
            assert found["mean"] == pytest.approx(plain["mean"], rel=1e-9, abs=1e-9)


def test_statistics_do_not_depend_on_the_number_of_threads(extension: Any) -> None:
    tensor = torch.randn(2_000_001)  # more than one thread's part five times
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(core.stats(tensor))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_large_tensors_are_measured_by_more_than_one_thread(extension: Any) -> None:
    tensor = torch.randn(1 << 23)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        core.stats(tensor)
        own, everyone = time.thread_time(), time.process_time()
        for _ in range(5):
            core.stats(tensor)
        own, everyone = time.thread_time() - own, time.process_time() - everyone
    finally:
        torch.set_num_threads(before)
    assert everyone > 1.3 * own  # the half of another thread is not in the time of this one


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_measures_what_its_parent_measured(extension: Any) -> None:
    tensor = torch.randn(1 << 20)
    expected = core.stats(tensor)  # its threads are not in the child
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.write(writer, b"1" if core.stats(tensor) == expected else b"0")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"1"
    os.waitpid(child, 0)


def test_the_checksum_sees_order_and_a_single_bit(extension: Any) -> None:
    tensor = torch.arange(1000.0)
    other = tensor.clone()
    other[500] = torch.nextafter(other[500], torch.tensor(1e9))
    sums = {core.stats(t)["checksum"] for t in (tensor, tensor.flip(0), other)}
    assert len(sums) == 3


def test_statistics_of_a_view_are_those_of_its_values(extension: Any) -> None:
    tensor = torch.randn(6, 8)
    assert core.stats(tensor.t()[::2]) == core.stats(tensor.mlu().t()[::2]) == core.stats(tensor.t()[::2].contiguous())


def test_statistics_of_nothing_are_zero(extension: Any) -> None:
    assert core.stats(torch.empty(0)) == {
        "norm": 0.0,
        "min": 0.0,
        "max": 0.0,
        "mean": 0.0,
        "nonfinite": 0,
        "checksum": 0,
        "sample": (),
    }


def test_statistics_refuse_what_has_no_plain_numbers(extension: Any) -> None:
    for wrong in (torch.ones(2, dtype=torch.complex64), torch.eye(2).to_sparse(), torch.ones(2, device="meta")):
        with pytest.raises(RuntimeError, match="dense real tensors"):
            core.stats(wrong)
