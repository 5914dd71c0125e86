"""The caching allocator: statistics, settings, snapshot, pools."""

from __future__ import annotations

import os
from typing import Any

import torch

from torch_mlu import _MLUC

_core = _MLUC._core
KEYS = (
    "max_split_size_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "expandable_segments",
    "release_lock_on_cnrtmalloc",
    "use_linear_memory",
)
VARIABLES = ("PYTORCH_MLU_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
MIB = 1024 * 1024

_settings: dict[str, Any] = {}
_text = ""
_raw: dict[int, torch.Tensor] = {}
_history: dict[str, Any] = {"on": False}


def _split(text: str) -> list[tuple[str, str]]:
    """``key:value`` pairs; a value in brackets may hold commas and colons."""
    pairs: list[tuple[str, str]] = []
    part, depth = "", 0
    for character in text + ",":
        depth += (character == "[") - (character == "]")
        if character != "," or depth:
            part += character
            continue
        if part.strip():
            key, _, value = part.strip().partition(":")
            pairs.append((key.strip(), value.strip()))
        part = ""
    return pairs


def _switch(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise RuntimeError(f"Expected a single True/False argument for {key}")
    return value == "True"


def parse_settings(text: str) -> dict[str, Any]:
    """
    A configuration string as values by key.

    RuntimeError "Unrecognized CachingAllocator option: K" for any other key, so also for CUDA's own (backend, pinned_*)
    (torch_mlu/csrc/framework/core/caching_allocator_config.cpp:190-262).
    """
    found: dict[str, Any] = {}
    for key, value in _split(text):
        if key not in KEYS:
            raise RuntimeError(f"Unrecognized CachingAllocator option: {key}")
        try:
            if key == "max_split_size_mb":
                found[key] = int(value)
            elif key == "garbage_collection_threshold":
                found[key] = float(value)
                if not 0 < found[key] < 1:
                    raise RuntimeError("garbage_collect_threshold too big or too small, set it between 0.0 and 1.0")
            elif key == "roundup_power2_divisions":
                found[key] = _divisions(value)
            else:
                found[key] = _switch(key, value)
        except ValueError:
            raise RuntimeError(f"Error, expecting a value for {key}, got {value!r}") from None
    return found


def _divisions(value: str) -> list[int]:
    """Sixteen numbers, for 1, 2, 4, ... MiB; ``[256:1,512:2,>:8]`` or one number for all."""
    if not value.startswith("["):
        return [int(value)] * 16
    numbers = [0] * 16
    last = 0
    for item in value.strip("[]").split(","):
        size, _, count = item.partition(":")
        index = last if size == ">" else int(size).bit_length() - 1
        for position in range(index, 16):
            numbers[position] = int(count)
        last = min(index + 1, 15)
    return numbers


def _mlu_mluCachingAllocator_set_allocator_settings(env: str) -> None:
    global _text
    parsed = parse_settings(env)
    _settings.update(parsed)
    _text = env
    split = _settings.get("max_split_size_mb")
    _core.set_allocator_settings(
        -1 if split is None else split * MIB,
        _settings.get("garbage_collection_threshold", 0.0),
        _settings.get("expandable_segments", False),
        _settings.get("roundup_power2_divisions", []),
    )


def read_environment() -> None:
    """Called at first use, when the real allocator is made."""
    text = next((os.environ[name] for name in VARIABLES if name in os.environ), "")
    if text and not _settings:
        _mlu_mluCachingAllocator_set_allocator_settings(text)


def _mlu_memoryStats(device: int) -> dict[str, Any]:
    return _core.memory_stats(device)


def _mlu_resetAccumulatedMemoryStats(device: int) -> None:
    _core.reset_accumulated_memory_stats(device)


def _mlu_resetPeakMemoryStats(device: int) -> None:
    _core.reset_peak_memory_stats(device)


def _mlu_setMemoryFraction(fraction: float, device: int) -> None:
    _core.set_memory_fraction(device, fraction)


def _mlu_mem_get_info(device: int) -> tuple[int, int]:
    torch.mlu._lazy_init()
    return _core.memory_info(device)


def _mlu_emptyCache() -> None:
    _core.empty_cache()


def _mlu_ipc_collect() -> None:
    """Let go of shared memory whose storages are gone."""
    from torch_mlu._MLUC import _sharing

    _sharing.forget_dead()


def _mlu_memorySnapshot() -> dict[str, Any]:
    segments = _core.memory_segments()
    for segment in segments:
        segment["frames"] = []
        for block in segment["blocks"]:
            block["frames"] = []
    traces = _core.memory_traces()
    for trace in traces:
        for entry in trace:
            entry["frames"] = []
    divisions = _settings.get("roundup_power2_divisions", [0] * 16)
    split = _settings.get("max_split_size_mb")
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {
            "PYTORCH_MLU_ALLOC_CONF": _text,
            "max_split_size": -1 if split is None else split * MIB,
            "garbage_collection_threshold": _settings.get("garbage_collection_threshold", 0.0),
            "expandable_segments": _settings.get("expandable_segments", False),
            "release_lock_on_cnrtmalloc": _settings.get("release_lock_on_cnrtmalloc", False),
            "roundup_power2_divisions": {str(2**power): count for power, count in enumerate(divisions)},
        },
    }


def _mlu_record_memory_history(enabled: str | None, context: str | None, stacks: str, max_entries: int) -> None:
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in (None, "state", "alloc", "all"):
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    torch.mlu._lazy_init()
    _history["on"] = enabled is not None
    _core.set_memory_trace(enabled == "all", min(max_entries, 2**31 - 1))


def _mlu_record_memory_history_legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    record_context_cpp: bool = False,
) -> None:
    torch.mlu._lazy_init()
    _history["on"] = enabled
    _core.set_memory_trace(enabled and trace_alloc_max_entries > 1, trace_alloc_max_entries)


def _mlu_isHistoryEnabled() -> bool:
    return bool(_history["on"])


def _mlu_mluCachingAllocator_raw_alloc(size: int, stream: int) -> int:
    torch.mlu._lazy_init()
    block = torch.empty(max(size, 1), dtype=torch.uint8, device="mlu")
    _raw[block.data_ptr()] = block
    return block.data_ptr()


def _mlu_mluCachingAllocator_raw_delete(pointer: int) -> None:
    if _raw.pop(pointer, None) is None:
        raise RuntimeError(f"invalid device pointer: {pointer:#x}")


def _mlu_canDeviceAccessPeer(device: int, peer_device: int) -> bool:
    """Cards of one machine reach each other; none reaches itself, as with CUDA."""
    return device != peer_device


class _mlu_MLUAllocator:
    """The allocator of this process."""


class _MLUPluggableAllocator(_mlu_MLUAllocator):
    """
    An allocator made of C functions, given by their addresses; they have to answer memory of the host.

    Source of the setters and of their functions' types: torch_mlu r2.4, csrc/python/MLUPluggableAllocator.h.
    """

    def __init__(self, alloc: int, free: int) -> None:
        self._plugged = _core.PluggableAllocator(alloc, free)

    def set_init_fn(self, function: int) -> None:
        """``void (int card_count)``, called before the first allocation."""
        self._plugged.set_init_fn(function)

    def set_reset_fn(self, function: int) -> None:
        """``void ()``, called by ``empty_cache``."""
        self._plugged.set_reset_fn(function)

    def set_memory_fraction_fn(self, function: int) -> None:
        """``void (double fraction, int card)``."""
        self._plugged.set_memory_fraction_fn(function)

    def set_base_alloc_fn(self, function: int) -> None:
        """``void* (void* address, size_t* size)``: the allocation an address is in, for sharing between processes."""
        self._plugged.set_base_alloc_fn(function)

    def set_record_stream_fn(self, function: int) -> None:
        """``void (void* address, queue)``."""
        self._plugged.set_record_stream_fn(function)

    def set_begin_allocate_to_pool(self, function: int) -> None:
        """``void (int card, pool, std::function<bool(queue)>)``."""
        self._plugged.set_begin_allocate_to_pool(function)

    def set_end_allocate_to_pool_fn(self, function: int) -> None:
        """``void (int card, pool)``."""
        self._plugged.set_end_allocate_to_pool_fn(function)

    def set_release_pool(self, function: int) -> None:
        """``void (int card, pool)``."""
        self._plugged.set_release_pool(function)


_current = _mlu_MLUAllocator()


def _mlu_customAllocator(alloc: int, free: int) -> _MLUPluggableAllocator:
    return _MLUPluggableAllocator(alloc, free)


def _mlu_getAllocator() -> _mlu_MLUAllocator:
    return _current


def _mlu_getAllocatorBackend() -> str:
    return "pluggable" if _core.allocator_plugged() else "native"


def _mlu_changeCurrentAllocator(allocator: _mlu_MLUAllocator) -> None:
    """RuntimeError once the cards are in use, and after another change."""
    global _current
    if torch.mlu.is_initialized() or not isinstance(allocator, _MLUPluggableAllocator):
        raise RuntimeError("Can't swap an already initialized allocator")
    _core.plug_allocator(allocator._plugged)
    _current = allocator


def _mluHostAllocator() -> Any:
    """The allocator of pinned memory; its statistics are in ``mlu_backend.core``."""
    return _current


class _mlu_MLUAllocator_AllocatorState:
    """The blocks of a pool at one moment."""

    def __init__(self, device: int, pool: tuple[int, int]) -> None:
        self.device, self.pool = device, pool
        self.blocks = _live(device, pool)


def _live(device: int, pool: tuple[int, int]) -> dict[int, int]:
    return {
        block["address"]: block["size"]
        for segment in _core.memory_segments()
        if segment["device"] == device and tuple(segment["segment_pool_id"]) == tuple(pool)
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }


def _mlu_getCheckpointState(device: int, pool: tuple[int, int]) -> _mlu_MLUAllocator_AllocatorState:
    return _mlu_MLUAllocator_AllocatorState(device, pool)


def _mlu_setCheckpointPoolState(
    device: int, state: _mlu_MLUAllocator_AllocatorState, stale: list[int], storages: list[Any]
) -> None:
    """
    Go back to a checkpoint of a pool.

    Memory of ``stale`` storages (addresses of StorageImpl) is let go; live blocks stay where they are, since recordings
    here own the tensors they write to and never reuse an address behind their back.
    """
    for pointer in stale:
        torch.UntypedStorage._new_with_weak_ptr(pointer)


def _mlu_checkPoolLiveAllocations(device: int, pool: tuple[int, int], expected: set[int]) -> bool:
    return set(_live(device, pool)) == set(expected)


def _mlu_beginAllocateCurrentStreamToPool(device: int, pool: tuple[int, int]) -> None:
    _core.begin_pool(device, *pool)


def _mlu_endAllocateCurrentStreamToPool(device: int, pool: tuple[int, int]) -> None:
    _core.end_pool(device, *pool)


def _mlu_releasePool(device: int, pool: tuple[int, int]) -> None:
    _core.release_pool(device, *pool)
