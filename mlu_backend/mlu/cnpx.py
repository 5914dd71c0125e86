"""
Named ranges for a profiler, the counterpart of ``torch.cuda.nvtx``. Ranges also show up as torch profiler records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch_mlu._MLUC import _cnpx

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def range_push(msg: str) -> int:
    """Open a nested range; returns its depth, starting at 0."""
    return _cnpx.rangePush(msg)


def range_pop() -> int:
    """Close the innermost range of this thread; returns its depth, or -1 when none is open."""
    return _cnpx.rangePop()


def range_start(msg: str) -> int:
    """Open a range that may end in another thread; returns a handle for :func:`range_end`."""
    return _cnpx.rangeStart(msg)


def range_end(range_id: int) -> None:
    _cnpx.rangeEnd(range_id)


def mark(msg: str) -> None:
    """Note that something happened now."""
    _cnpx.mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A nested range around a block; further arguments are handed to ``msg.format``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
