"""
Profiling: ``ProfilerActivity.MLU``, device times, and the word ``mlu`` in sort keys.

As in torch_mlu for torch 2.4, events have no ``mlu_*`` attributes: it is ``device_time_total`` and its like. A sort key
or metric with ``mlu`` in it is understood when given by keyword (torch_mlu/profiler/__init__.py:20-44).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.profiler

from mlu_backend.after_import import after_import
from torch_mlu import _MLUC
from torch_mlu.profiler import profiler
from torch_mlu.profiler.profiler import emit_cnpx

_LAZY = ("ExtraMLUCopyPattern", "FP32MatMulPattern", "MatMulDimInFP16Pattern", "report_all_anti_patterns")


def replace_mlu_to_privateuse1(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` with ``mlu`` in the keywords ``sort_by`` and ``metric`` read as torch's name ``privateuse1``."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name in ("sort_by", "metric"):
            if isinstance(kwargs.get(name), str):
                kwargs[name] = kwargs[name].replace("mlu", "privateuse1")
        return fn(*args, **kwargs)

    return wrapper


_build_table_fn = _MLUC._replaced.setdefault("profiler._build_table", torch.autograd.profiler_util._build_table)
_export_stacks = _MLUC._replaced.setdefault(
    "profiler.export_stacks", torch.autograd.profiler_util.EventList.export_stacks
)
_new_build_table = replace_mlu_to_privateuse1(_build_table_fn)
_new_export_stacks = replace_mlu_to_privateuse1(_export_stacks)


def _apply() -> None:
    torch.autograd.profiler.emit_cnpx = emit_cnpx  # type: ignore[attr-defined]
    torch.profiler.ProfilerActivity.MLU = torch.profiler.ProfilerActivity.PrivateUse1
    torch.autograd.profiler_util._build_table = _new_build_table
    torch.autograd.profiler_util.EventList.export_stacks = _new_export_stacks
    profiler.measure_mlu()

    def patch(module: Any) -> None:
        # It puts its classes into torch's module once it is complete.
        importlib.import_module("torch_mlu.profiler._pattern_matcher")

    after_import("torch.profiler._pattern_matcher", patch)


_apply()


def __getattr__(name: str) -> Any:
    """The patterns need torch.utils.benchmark, which start-up does not pay for."""
    if name in (*_LAZY, "_pattern_matcher"):
        module = importlib.import_module("torch_mlu.profiler._pattern_matcher")
        return module if name == "_pattern_matcher" else getattr(module, name)
    if name == "_utils":
        return importlib.import_module("torch_mlu.profiler._utils")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
