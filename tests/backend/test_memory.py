"""Memory: statistics, limits, snapshots, and running out."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch_mlu
from _programs import lines, run

COUNTERS = {
    "num_alloc_retries",
    "num_ooms",
    "max_split_size",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
}
GROUPS = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
LEAVES = ("current", "peak", "allocated", "freed")


@pytest.fixture
def empty() -> Iterator[None]:
    gc.collect()
    torch.mlu.empty_cache()
    torch.mlu.reset_peak_memory_stats()
    yield
    gc.collect()
    torch.mlu.empty_cache()


def test_statistics_have_exactly_the_keys_of_the_real_ones() -> None:
    torch.mlu.init()
    expected = set(COUNTERS)
    expected |= {
        f"{group}.{pool}.{leaf}" for group in GROUPS for pool in ("all", "small_pool", "large_pool") for leaf in LEAVES
    }
    expected |= {f"oversize_{kind}.{leaf}" for kind in ("allocations", "segments") for leaf in LEAVES}
    stats = torch.mlu.memory_stats()
    assert set(stats) == expected
    assert list(stats) == sorted(stats)
    assert torch.mlu.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == torch.mlu.memory_allocated()


def test_statistics_are_empty_before_first_use() -> None:
    assert lines("import torch, torch_mlu; print(dict(torch.mlu.memory_stats()), torch.mlu.memory_allocated())") == [
        "{} 0"
    ]


def test_what_a_tensor_takes_is_counted_and_given_back(empty: None) -> None:
    before = torch.mlu.memory_allocated()
    x = torch.empty(1024, 1024, device="mlu")
    assert torch.mlu.memory_allocated() - before == 4 * 1024 * 1024
    assert torch.mlu.memory_reserved() >= torch.mlu.memory_allocated()
    del x
    assert torch.mlu.memory_allocated() == before
    assert torch.mlu.max_memory_allocated() >= before + 4 * 1024 * 1024
    torch.mlu.reset_peak_memory_stats()
    assert torch.mlu.max_memory_allocated() == before


def test_each_card_counts_for_itself(empty: None) -> None:
    before = torch.mlu.memory_allocated(1)
    x = torch.empty(1 << 20, dtype=torch.uint8, device="mlu:1")
    assert torch.mlu.memory_allocated("mlu:1") - before == x.nbytes
    with torch.mlu.device(1):
        assert torch.mlu.memory_allocated() - before == x.nbytes


def test_old_names_warn_and_answer() -> None:
    with pytest.warns(FutureWarning, match="memory_reserved"):
        assert torch.mlu.memory_cached() == torch.mlu.memory_reserved()
    with pytest.warns(FutureWarning, match="max_memory_reserved"):
        torch.mlu.max_memory_cached()
    with pytest.warns(FutureWarning, match="resets /all/ peak memory stats"):
        torch.mlu.reset_max_memory_allocated()


def test_the_fraction_is_checked_and_kept() -> None:
    with pytest.raises(TypeError, match="^Invalid type for fraction argument, must be `float`$"):
        torch.mlu.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="^Invalid fraction value: 1.5. Allowed range: 0~1$"):
        torch.mlu.set_per_process_memory_fraction(1.5)


def test_running_out_raises_the_real_text_and_can_be_survived() -> None:
    code = """
    import torch, torch_mlu
    x = torch.empty(40, 1024, 1024, dtype=torch.uint8, device="mlu")
    try:
        torch.empty(60, 1024, 1024, dtype=torch.uint8, device="mlu")
    except torch.OutOfMemoryError as error:
        print(isinstance(error, torch.mlu.OutOfMemoryError), error)
    del x
    torch.empty(60, 1024, 1024, dtype=torch.uint8, device="mlu")
    print(torch.mlu.memory_stats()["num_ooms"], torch.mlu.mem_get_info()[1] >> 20)
    """
    first, last = lines(code, MLU_EMULATOR_MEMORY="64M")
    assert first.startswith(
        "True MLU out of memory. Tried to allocate 60.00 MiB. MLU 0 has a total capacity of 64.00 MiB of which"
    )
    assert "PYTORCH_MLU_ALLOC_CONF=expandable_segments:True" in first
    assert last == "1 64"


def test_a_process_can_be_held_to_a_part_of_the_card() -> None:
    code = """
    import torch, torch_mlu
    torch.mlu.set_per_process_memory_fraction(0.5)
    try:
        torch.empty(40, 1024, 1024, dtype=torch.uint8, device="mlu")
    except torch.OutOfMemoryError:
        print("refused")
    """
    assert lines(code, MLU_EMULATOR_MEMORY="64M") == ["refused"]


@pytest.mark.parametrize("text", ["lots", "-1", "0"])
def test_a_memory_size_that_makes_no_sense_is_refused(text: str) -> None:
    done = run("import torch, torch_mlu; torch.mlu.init()", MLU_EMULATOR_MEMORY=text)
    assert done.returncode == 1 and "MLU_EMULATOR_MEMORY must be" in done.stderr


def test_a_snapshot_has_the_keys_of_the_real_one(empty: None) -> None:
    x = torch.empty(3 << 20, dtype=torch.uint8, device="mlu")
    snapshot = torch.mlu.memory._snapshot()
    assert set(snapshot) == {"segments", "device_traces", "allocator_settings"}
    assert set(snapshot["allocator_settings"]) == {
        "PYTORCH_MLU_ALLOC_CONF",
        "max_split_size",
        "garbage_collection_threshold",
        "expandable_segments",
        "release_lock_on_cnrtmalloc",
        "roundup_power2_divisions",
    }
    segment = next(s for s in snapshot["segments"] if any(b["address"] == x.data_ptr() for b in s["blocks"]))
    assert set(segment) == {
        "device",
        "address",
        "total_size",
        "allocated_size",
        "active_size",
        "requested_size",
        "stream",
        "segment_type",
        "segment_pool_id",
        "is_expandable",
        "frames",
        "blocks",
    }
    block = next(b for b in segment["blocks"] if b["address"] == x.data_ptr())
    assert set(block) == {"address", "size", "requested_size", "state", "frames"}
    assert (block["state"], block["requested_size"], segment["segment_type"]) == ("active_allocated", x.nbytes, "large")
    assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
    assert torch.mlu.memory_snapshot() == snapshot["segments"]


def test_the_history_tells_allocations_and_frees(empty: None) -> None:
    torch.mlu.memory._record_memory_history()
    try:
        assert torch.mlu.memory._is_history_enabled()
        x = torch.empty(7 << 20, dtype=torch.uint8, device="mlu")
        address = x.data_ptr()
        del x
        actions = [e["action"] for e in torch.mlu.memory._snapshot()["device_traces"][0] if e.get("addr") == address]
    finally:
        torch.mlu.memory._record_memory_history(None)
    assert actions[-3:] == ["alloc", "free_requested", "free_completed"]
    with pytest.raises(RuntimeError, match="'state', 'all', or None"):
        torch.mlu.memory._record_memory_history("everything")


def test_a_snapshot_can_be_written_and_drawn(tmp_path: Path, empty: None) -> None:
    x = torch.empty(3 << 20, dtype=torch.uint8, device="mlu")
    torch.mlu.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    assert pickle.loads((tmp_path / "snapshot.pickle").read_bytes())["segments"]
    torch.mlu.memory._save_segment_usage(str(tmp_path / "segments.svg"))
    torch.mlu.memory._save_memory_usage(str(tmp_path / "memory.svg"))
    for name in ("segments.svg", "memory.svg"):
        drawing = (tmp_path / name).read_text()
        assert drawing.startswith("<svg") and "bytes)" in drawing
    assert x.is_mlu


def test_the_summary_is_a_table(empty: None) -> None:
    x = torch.empty(5 << 20, dtype=torch.uint8, device="mlu")
    text = torch.mlu.memory_summary()
    assert "PyTorch MLU memory summary, device ID 0" in text and "from large pool" in text
    assert {len(line) for line in text.splitlines()} == {77}
    assert "from large pool" not in torch.mlu.memory_summary(abbreviated=True)
    assert x.is_mlu


def test_settings_with_cuda_only_keys_are_refused() -> None:
    done = run("import torch, torch_mlu; torch.mlu.init()", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    assert "RuntimeError: Unrecognized CachingAllocator option: backend" in done.stderr
    assert lines("import torch, torch_mlu; torch.mlu.init()", PYTORCH_MLU_ALLOC_CONF="expandable_segments:True") == []
    with pytest.raises(RuntimeError, match="Unrecognized CachingAllocator option: pinned_use_background_threads"):
        torch.mlu.memory._set_allocator_settings("pinned_use_background_threads:True")


def test_settings_are_read_and_shown() -> None:
    code = """
    import torch, torch_mlu
    torch.mlu.init()
    settings = torch.mlu.memory._snapshot()["allocator_settings"]
    divisions = settings["roundup_power2_divisions"]
    print(settings["PYTORCH_MLU_ALLOC_CONF"], settings["max_split_size"] >> 20, divisions["256"])
    """
    text = "max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,>:8]"
    assert lines(code, PYTORCH_MLU_ALLOC_CONF=text) == [f"{text} 64 1"]


def test_memory_for_other_libraries_is_counted(empty: None) -> None:
    before = torch.mlu.memory_allocated()
    pointer = torch.mlu.caching_allocator_alloc(4096)
    assert torch.mlu.memory_allocated() - before == 4096
    torch.mlu.caching_allocator_delete(pointer)
    assert torch.mlu.memory_allocated() == before
    with pytest.raises(TypeError, match="torch.mlu.Stream"):
        torch.mlu.caching_allocator_alloc(16, stream="none")


def test_another_allocator_cannot_take_over_once_the_cards_are_in_use() -> None:
    torch.mlu.init()
    other = torch.mlu.memory._MLUAllocator(torch_mlu._MLUC._mlu_customAllocator(1, 2))
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        torch.mlu.change_current_allocator(other)


def test_two_thousand_tensors_come_and_go(empty: None) -> None:
    before = torch.mlu.memory_allocated()
    kept = [torch.empty(index + 1, device="mlu") for index in range(2000)]
    assert torch.mlu.memory_allocated() > before
    kept.clear()
    assert torch.mlu.memory_allocated() == before


def test_pinning_means_mlu_when_no_device_is_named() -> None:
    x = torch.ones(3).pin_memory()
    assert x.is_pinned() and not torch.ones(3).is_pinned()
    assert x.untyped_storage().is_pinned()
    assert torch.ones(3).untyped_storage().pin_memory().is_pinned()
