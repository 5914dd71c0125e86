"""
The plan cache of the FFT library: sizes as torch.backends.mlu.cnfft_plan_cache shows them. No plans are ever made here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DEFAULT_MAX_SIZE = 4096

_max_sizes: dict[int, int] = {}


def size(device_index: int) -> int:
    return 0


def max_size(device_index: int) -> int:
    return _max_sizes.get(device_index, DEFAULT_MAX_SIZE)


def set_max_size(device_index: int, max_size: int) -> None:
    """RuntimeError for a negative size."""
    if max_size < 0:
        raise RuntimeError(f"cnFFT plan cache size must be non-negative, but got {max_size}")
    _max_sizes[device_index] = max_size


def clear(device_index: int) -> None:
    """There is nothing cached."""


OPERATORS: dict[str, Callable[..., Any]] = {
    "_cnfft_get_plan_cache_size": size,
    "_cnfft_get_plan_cache_max_size": max_size,
    "_cnfft_set_plan_cache_max_size": set_max_size,
    "_cnfft_clear_plan_cache": clear,
}
