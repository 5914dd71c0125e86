"""``torch.mlu.amp.autocast`` and its helpers: deprecated, forwarding to ``torch.amp`` with device ``mlu``."""

from __future__ import annotations

import collections.abc
import functools
from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import deprecated

try:
    import numpy as np

    HAS_NUMPY = True
except ModuleNotFoundError:
    np = None  # type: ignore[assignment]
    HAS_NUMPY = False

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):
    """See :class:`torch.autocast`. The default dtype is float16 (torch_mlu/mlu/autocast_utils.py:13)."""

    @deprecated(
        "`torch.mlu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('mlu', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        if torch._jit_internal.is_scripting():
            self._enabled = enabled
            self.device = "mlu"
            self.fast_dtype = dtype
            return
        super().__init__("mlu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    def __enter__(self) -> Any:
        return self if torch._jit_internal.is_scripting() else super().__enter__()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
        return None if torch._jit_internal.is_scripting() else super().__exit__(exc_type, exc_val, exc_tb)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func if torch._jit_internal.is_scripting() else super().__call__(func)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """``value`` with every floating mlu tensor in it, float64 excepted, as ``dtype``; containers are rebuilt."""
    if isinstance(value, torch.Tensor):
        wanted = value.is_floating_point() and value.device.type == "mlu" and value.dtype is not torch.float64
        return value.to(dtype) if wanted else value
    if isinstance(value, str) or (HAS_NUMPY and isinstance(value, np.ndarray)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(k, dtype): _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, collections.abc.Iterable):
        items = [_cast(item, dtype) for item in value]
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


@deprecated(
    "`torch.mlu.amp.custom_fwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_fwd(args..., device_type='mlu')` instead.",
    category=FutureWarning,
)
def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """For the forward method of an autograd Function; see :func:`torch.amp.custom_fwd`."""
    return functools.partial(torch.amp.custom_fwd, device_type="mlu")(fwd=fwd, cast_inputs=cast_inputs)


@deprecated(
    "`torch.mlu.amp.custom_bwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_bwd(args..., device_type='mlu')` instead.",
    category=FutureWarning,
)
def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """For the backward method of an autograd Function; see :func:`torch.amp.custom_bwd`."""
    return functools.partial(torch.amp.custom_bwd, device_type="mlu")(bwd)
