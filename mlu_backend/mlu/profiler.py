"""Switches an external profiler on and off, the counterpart of ``torch.cuda.profiler``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from . import check_error, cnrt

__all__ = ["init", "start", "stop", "profile"]


def init() -> None:
    """There is nothing to prepare: kept for programs that call it."""


def start() -> None:
    check_error(cnrt().mluProfilerStart())


def stop() -> None:
    check_error(cnrt().mluProfilerStop())


@contextmanager
def profile() -> Iterator[None]:
    """Profile a block."""
    try:
        start()
        yield
    finally:
        stop()
