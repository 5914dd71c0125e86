"""Memory of a card: counted, limited, returned; errors as on hardware."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch


def allocated(card: Any, ordinal: int = 0) -> int:
    return card.memory_stats(ordinal)["allocated_bytes"]["all"]["current"]


def test_a_tensor_is_counted_in_whole_blocks_of_512_bytes(card: Any) -> None:
    before = card.memory_stats(0)
    tensor = torch.empty(100, device="mlu")
    after = card.memory_stats(0)
    assert after["allocated_bytes"]["all"]["current"] - before["allocated_bytes"]["all"]["current"] == 512
    assert after["requested_bytes"]["all"]["current"] - before["requested_bytes"]["all"]["current"] == 400
    assert after["allocation"]["small_pool"]["current"] - before["allocation"]["small_pool"]["current"] == 1
    del tensor
    assert allocated(card) == before["allocated_bytes"]["all"]["current"]


def test_two_thousand_tensors_leave_the_counters_where_they_were(card: Any) -> None:
    before = card.memory_stats(0)
    kept = [torch.empty(1 + (i * 7919) % 300_000, device="mlu") for i in range(2000)]
    during = card.memory_stats(0)
    assert during["allocation"]["all"]["current"] == before["allocation"]["all"]["current"] + 2000
    del kept[::2]
    del kept
    gc.collect()
    after = card.memory_stats(0)
    for group in ("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            assert after[group][pool]["current"] == before[group][pool]["current"], (group, pool)
    card.empty_cache()
    empty = card.memory_stats(0)
    assert empty["reserved_bytes"]["all"]["current"] <= before["reserved_bytes"]["all"]["current"]
    assert empty["inactive_split_bytes"]["all"]["current"] <= empty["reserved_bytes"]["all"]["current"]


def test_results_of_operators_are_memory_of_their_card(card: Any) -> None:
    before = allocated(card, 1), allocated(card, 0)
    a = torch.randn(512, 512, device="mlu:1")
    b = a @ a
    c = torch.nn.functional.conv2d(torch.ones(1, 1, 64, 64, device="mlu:1"), torch.ones(1, 1, 3, 3, device="mlu:1"))
    assert b.device.index == c.device.index == 1
    assert allocated(card, 1) - before[0] == 2 * 512 * 512 * 4 + (62 * 62 * 4 + 511) // 512 * 512
    assert allocated(card, 0) == before[1]
    del a, b, c
    assert allocated(card, 1) == before[0]


def test_peak_and_totals_are_kept_and_reset(card: Any) -> None:
    card.reset_peak_memory_stats(0)
    base = allocated(card)
    torch.empty(1 << 20, device="mlu")
    stats = card.memory_stats(0)["allocated_bytes"]["all"]
    assert stats["peak"] == base + (4 << 20) and stats["current"] == base
    card.reset_peak_memory_stats(0)
    assert card.memory_stats(0)["allocated_bytes"]["all"]["peak"] == base
    card.reset_accumulated_memory_stats(0)
    assert card.memory_stats(0)["allocated_bytes"]["all"]["allocated"] == 0


def test_small_tensors_share_a_segment_of_two_mib_and_large_ones_one_of_twenty(card: Any) -> None:
    card.empty_cache()
    stream = card.new_stream(2, 0)
    card.set_device(2)
    before = card.exchange_stream(2, stream)
    small = [torch.empty(1000, device="mlu:2") for _ in range(10)]
    large = torch.empty(600_000, device="mlu:2")
    segments = [s for s in card.memory_segments() if s["device"] == 2 and s["stream"] == stream]
    card.exchange_stream(2, before)
    assert sorted((s["segment_type"], s["total_size"]) for s in segments) == [("large", 20 << 20), ("small", 2 << 20)]
    assert sum(s["allocated_size"] for s in segments) == 10 * 4096 + 2_400_256
    for segment in segments:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
    del small, large


OOM = """
import torch, mlu_backend, torch_mlu
a = torch.empty(40 << 20, dtype=torch.uint8, device="mlu")
try:
    torch.empty(40 << 20, dtype=torch.uint8, device="mlu")
except torch.OutOfMemoryError as error:
    print(type(error).__name__, error)
try:
    a.float()
except RuntimeError as error:
    print("operator", str(error)[:17])
del a
b = torch.ones(60 << 20, dtype=torch.uint8, device="mlu")
print(int(b.sum()), torch.mlu.memory_stats()["num_ooms"])
try:
    torch.empty(1 << 61, dtype=torch.uint8, device="mlu")
except torch.OutOfMemoryError as error:
    print(error)
"""


def test_a_full_card_says_so_as_hardware_does_and_works_on(run_python: Callable[..., Any]) -> None:
    done = run_python(OOM, MLU_EMULATOR_MEMORY="64M")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith(
        "OutOfMemoryError MLU out of memory. Tried to allocate 40.00 MiB. MLU 0 has a total capacity of 64.00 MiB "
        "of which 24.00 MiB is free."
    )
    assert "PYTORCH_MLU_ALLOC_CONF=expandable_segments:True" in lines[0]
    assert lines[1:3] == ["operator MLU out of memory", f"{60 << 20} 2"]
    assert lines[3] == "MLU out of memory. Tried to allocate more than 1EB memory."


def test_cached_memory_is_given_up_before_an_allocation_fails(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend, torch_mlu\n"
        "for size in (30, 50, 60):\n    torch.empty(size << 20, dtype=torch.uint8, device='mlu')\n"
        "stats = torch.mlu.memory_stats()\nprint(stats['num_ooms'], stats['num_alloc_retries'])",
        MLU_EMULATOR_MEMORY="64M",
    )
    assert done.stdout.split() == ["0", "2"], done.stderr


def test_a_fraction_of_the_memory_is_the_limit_of_the_process(card: Any) -> None:
    reserved = card.memory_stats(3)["reserved_bytes"]["all"]["current"]
    card.set_memory_fraction(3, (reserved + (32 << 20)) / card.memory())
    try:
        with pytest.raises(torch.OutOfMemoryError, match="MLU 3 has a total capacity"):
            torch.empty(64 << 20, dtype=torch.uint8, device="mlu:3")
    finally:
        card.set_memory_fraction(3, 1.0)
    torch.empty(64 << 20, dtype=torch.uint8, device="mlu:3")


def test_resizing_a_storage_keeps_its_bytes_and_is_counted(card: Any) -> None:
    before = allocated(card)
    tensor = torch.arange(256, dtype=torch.uint8, device="mlu")
    tensor.untyped_storage().resize_(4096)
    assert tensor.untyped_storage().nbytes() == 4096 and tensor.tolist() == list(range(256))
    assert allocated(card) - before == 4096
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().nbytes() == 0 and allocated(card) == before


def test_threads_allocate_and_free_at_once_without_losing_count(card: Any) -> None:
    before = allocated(card)
    wrong: list[str] = []

    def work(seed: int) -> None:
        kept: list[torch.Tensor] = []
        for i in range(300):
            value = seed * 1000 + i
            kept.append(torch.full((1 + (value * 31) % 5000,), value, device="mlu", dtype=torch.int64))
            if len(kept) > 20:
                taken = kept.pop((value * 17) % len(kept))
                if int(taken.min()) != int(taken.max()):
                    wrong.append(f"{seed}/{i}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong and allocated(card) == before


def test_the_history_records_allocations_and_frees_with_their_addresses(card: Any) -> None:
    card.set_memory_trace(True, 100)
    tensor = torch.empty(1234, device="mlu")
    address = tensor.data_ptr()
    del tensor
    trace = card.memory_traces()[0]
    card.set_memory_trace(False)
    actions = [entry["action"] for entry in trace if entry.get("addr") == address]
    assert actions[-3:] == ["alloc", "free_requested", "free_completed"] and card.memory_traces()[0] == []


def test_a_pool_keeps_its_memory_apart(card: Any) -> None:
    card.begin_pool(0, 7, 0)
    inside = torch.empty(1000, device="mlu")
    card.end_pool(0, 7, 0)
    outside = torch.empty(1000, device="mlu")
    pools = {
        s["segment_pool_id"]
        for s in card.memory_segments()
        for b in s["blocks"]
        if b["address"] in (inside.data_ptr(), outside.data_ptr())
    }
    assert pools == {(7, 0), (0, 0)}
    del inside
    card.release_pool(0, 7, 0)
    assert all(s["segment_pool_id"] == (0, 0) for s in card.memory_segments())


def test_pinned_memory_is_known_by_any_pointer_into_it_and_returned(card: Any) -> None:
    before = card.pinned_bytes()
    pinned = torch.arange(100.0).pin_memory("mlu")
    assert pinned.is_pinned("mlu") and pinned[50:].is_pinned("mlu") and not torch.ones(2).is_pinned("mlu")
    assert card.pinned_bytes() == before + 400 and pinned.mlu().tolist() == pinned.tolist()
    del pinned
    assert card.pinned_bytes() == before


def test_memory_outlives_the_tensor_as_long_as_a_view_does(card: Any) -> None:
    before = allocated(card)
    tensor = torch.arange(1000, device="mlu")
    view = tensor[10:12]
    del tensor
    assert view.tolist() == [10, 11] and allocated(card) > before
    del view
    assert allocated(card) == before
