"""
``torch.backends.cnnl``: one live switch, ``allow_tf32`` (default True, convolutions only).

``benchmark``, ``deterministic`` and ``enabled`` are not there: assigning one makes a dead attribute, reading one that
was never assigned raises AttributeError (torch_mlu/backends/cnnl/__init__.py:33-39).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.backends import ContextProp, PropModule, __allow_nonbracketed_mutation

from torch_mlu import _MLUC


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int, bool, bool]:
    """Set ``allow_tf32``, warn about every other switch that is asked for; returns the flags as they were."""
    before = (False, False, 0, False, _MLUC._get_cnnl_allow_tf32())
    wanted = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
    }
    for name, value in wanted.items():
        if value:
            warnings.warn(f"torch.backends.cnnl.flags: {name} is not supported on MLU and is ignored.", stacklevel=3)
    if _allow_tf32 is not None:
        _MLUC._set_cnnl_allow_tf32(_allow_tf32)
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 0,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Switches for a block. The defaults differ from those of ``torch.backends.cudnn.flags``."""
    with __allow_nonbracketed_mutation():
        before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        with __allow_nonbracketed_mutation():
            set_flags(*before)


class CnnlModule(PropModule):
    def __init__(self, m: Any, name: str) -> None:
        super().__init__(m, name)

    allow_tf32 = ContextProp(_MLUC._get_cnnl_allow_tf32, _MLUC._set_cnnl_allow_tf32)
