"""Ranges around operators for an external profiler, and device times in torch's own."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.autograd.profiler
from torch._C._profiler import ProfilerActivity
from torch.autograd import ProfilerState

from torch_mlu import _MLUC

_is_profiler_enabled = False


def _set_is_profiler_enabled(enable: bool) -> None:
    global _is_profiler_enabled
    _is_profiler_enabled = enable


def _run_on_profiler_start() -> None:
    _set_is_profiler_enabled(True)


def _run_on_profiler_stop() -> None:
    _set_is_profiler_enabled(False)


class emit_cnpx:
    """
    A range around every operator of a block, for an external profiler; the counterpart of ``emit_nvtx``.

    Not reentrant. Nothing collects such ranges on the emulated card, so a block runs as it would without.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def __enter__(self) -> emit_cnpx | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("CNPX annotation context manager is not reentrant")
        self.entered = True
        torch.mlu.synchronize()
        _run_on_profiler_start()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> bool:
        if self.enabled:
            torch.mlu.synchronize()
            _run_on_profiler_stop()
        return False


def measure_mlu() -> None:
    """
    Let ``torch.autograd.profiler.profile(use_device="mlu")`` time operators with notifiers, once a process.

    The card has no tracer that torch's collector could ask, so each operator's time is taken as its device time.
    """
    key = "profiler.profile.__init__"
    if key in _MLUC._replaced:
        return
    original = torch.autograd.profiler.profile.__init__
    _MLUC._replaced[key] = original

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        alone = kwargs.get("use_device") == "mlu" and kwargs.get("use_cpu") is False
        if alone:
            # Device times hang on operators, so the operators have to be recorded as well.
            kwargs["use_cpu"] = True
        original(self, *args, **kwargs)
        if self.enabled and self.use_device == "mlu":  # a disabled one has no device
            self.profiler_kind = ProfilerState.KINETO_PRIVATEUSE1_FALLBACK
            self.kineto_activities = {ProfilerActivity.CPU}

    torch.autograd.profiler.profile.__init__ = __init__
