"""
Memory of the cards: statistics, limits, snapshots.

The keys of ``memory_stats`` and of the snapshot are those of torch_mlu (torch_mlu/csrc/python/Module.cpp:382-622),
which are torch.cuda's with ``num_device_alloc`` and its like added.
"""

from __future__ import annotations

import collections
import pickle
import sys
import warnings
from collections.abc import Iterator
from inspect import signature
from typing import Any

import torch
import torch_mlu

from . import _get_device_index, _lazy_init, _summary
from . import is_initialized as _is_initialized

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "set_per_process_memory_fraction",
    "empty_cache",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "memory_snapshot",
    "memory_summary",
    "mem_get_info",
    "MLUPluggableAllocator",
    "change_current_allocator",
]

_MLUC = torch_mlu._MLUC


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocate ``size`` bytes on a card for another library; returns the address."""
    index = _get_device_index(device, optional=True)
    if stream is None:
        stream = torch.mlu.current_stream(index)
    if isinstance(stream, torch.mlu.streams.Stream):
        stream = stream.mlu_stream
    if not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.mlu.Stream` or `int` representing a pointer "
            "to a existing stream"
        )
    with torch.mlu.device(index):
        return _MLUC._mlu_mluCachingAllocator_raw_alloc(size, stream)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what :func:`caching_allocator_alloc` gave."""
    _MLUC._mlu_mluCachingAllocator_raw_delete(mem_ptr)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """
    Let this process use at most ``fraction`` (0 to 1) of a card's memory.

    TypeError when it is no float, ValueError when out of range (torch_mlu/mlu/memory.py:108-110).
    """
    _lazy_init()
    index = _get_device_index(device, optional=True)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _MLUC._mlu_setMemoryFraction(fraction, index)


def empty_cache() -> None:
    """Give back what is cached and unused."""
    if _is_initialized():
        _MLUC._mlu_emptyCache()


def _leaves(prefix: str, node: Any) -> Iterator[tuple[str, int]]:
    if not isinstance(node, dict):
        yield prefix, node
        return
    for key, child in node.items():
        yield from _leaves(f"{prefix}.{key}" if prefix else key, child)


def memory_stats(device: Any = None) -> dict[str, int]:
    """
    Statistics of a card, keys flattened (``"allocated_bytes.all.current"``) and sorted; empty before initialisation.
    """
    return collections.OrderedDict(sorted(_leaves("", memory_stats_as_nested_dict(device))))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The statistics of :func:`memory_stats` as nested dictionaries."""
    if not _is_initialized():
        return {}
    return _MLUC._mlu_memoryStats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Set the totals (``allocated``, ``freed``, and the event counters) back to 0."""
    _MLUC._mlu_resetAccumulatedMemoryStats(_get_device_index(device, optional=True))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Set the peaks back to what is in use now."""
    _MLUC._mlu_resetPeakMemoryStats(_get_device_index(device, optional=True))


def reset_max_memory_allocated(device: Any = None) -> None:
    """Deprecated: does :func:`reset_peak_memory_stats`."""
    warnings.warn(
        "torch.mlu.reset_max_memory_allocated now calls torch.mlu.reset_peak_memory_stats, "
        "which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Deprecated: does :func:`reset_peak_memory_stats`."""
    warnings.warn(
        "torch.mlu.reset_max_memory_cached now calls torch.mlu.reset_peak_memory_stats, "
        "which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def memory_allocated(device: Any = None) -> int:
    """Bytes tensors occupy now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes tensors occupied at once."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes the allocator holds, in use or cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes the allocator held at once."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_cached(device: Any = None) -> int:
    """Deprecated name of :func:`memory_reserved`."""
    warnings.warn("torch.mlu.memory_cached has been renamed to torch.mlu.memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Deprecated name of :func:`max_memory_reserved`."""
    warnings.warn(
        "torch.mlu.max_memory_cached has been renamed to torch.mlu.max_memory_reserved", FutureWarning, stacklevel=2
    )
    return max_memory_reserved(device)


def memory_snapshot() -> list[dict[str, Any]]:
    """The segments of all cards, each with its blocks."""
    return _MLUC._mlu_memorySnapshot()["segments"]


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics of a card as a table for people."""
    index = _get_device_index(device, optional=True)
    return _summary.summary(memory_stats(index), index, abbreviated)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes free and bytes in all on a card."""
    index = _get_device_index(torch.mlu.current_device() if device is None else device, optional=True)
    return _MLUC._mlu_mem_get_info(index)


def _record_memory_history_legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    device: Any = None,
    record_context_cpp: bool = False,
) -> None:
    _MLUC._mlu_record_memory_history_legacy(
        enabled, record_context, trace_alloc_max_entries, trace_alloc_record_context, record_context_cpp
    )


def _record_memory_history(enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
    """Start (``"state"``, ``"all"``) or stop (None) keeping who allocated what; see :func:`_snapshot`."""
    if isinstance(enabled, bool):
        return _record_memory_history_legacy(enabled, *args, **kwargs)
    return _record_memory_history_impl(enabled, *args, **kwargs)


def _record_memory_history_impl(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
) -> None:
    _MLUC._mlu_record_memory_history(enabled, context, stacks, max_entries)


_record_memory_history.__signature__ = signature(_record_memory_history_impl)  # type: ignore[attr-defined]


def _is_history_enabled() -> bool:
    return _MLUC._mlu_isHistoryEnabled()


def _snapshot(device: Any = None) -> dict[str, Any]:
    """``{"segments", "device_traces", "allocator_settings"}`` of all cards now."""
    return _MLUC._mlu_memorySnapshot()


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write :func:`_snapshot` to a file that torch's memory viewer opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    _save_drawing("segments", filename, snapshot)


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    _save_drawing("memory", filename, snapshot)


def _save_drawing(kind: str, filename: str, snapshot: dict[str, Any] | None) -> None:
    from torch.cuda import _memory_viz

    from ._flame import flame_graph

    drawing = getattr(_memory_viz, kind)(_snapshot() if snapshot is None else snapshot, format_flamegraph=flame_graph)
    with open(filename, "w", encoding="utf-8") as file:
        file.write(drawing)


def _set_allocator_settings(env: str) -> None:
    """Settings as in ``PYTORCH_MLU_ALLOC_CONF``; RuntimeError for a key the allocator does not know."""
    _MLUC._mlu_mluCachingAllocator_set_allocator_settings(env)


class _MLUAllocator:
    """Wraps an allocator of the C++ side."""

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator

    def allocator(self) -> Any:
        return self._allocator


class MLUPluggableAllocator(_MLUAllocator):
    """An allocator from a shared library: two C functions, ``ptr alloc(size, device, stream)`` and ``free(...)``."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        import ctypes

        library = ctypes.CDLL(path_to_so_file)
        addresses = []
        for name in (alloc_fn_name, free_fn_name):
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            assert address is not None, f"no function {name} in {path_to_so_file}"
            addresses.append(address)
        super().__init__(_MLUC._mlu_customAllocator(*addresses))


def change_current_allocator(allocator: _MLUAllocator) -> None:
    """Allocate through ``allocator``, whose functions answer host memory; RuntimeError once cards are in use."""
    _MLUC._mlu_changeCurrentAllocator(allocator.allocator())


def _get_current_allocator() -> _MLUAllocator:
    return _MLUAllocator(_MLUC._mlu_getAllocator())
