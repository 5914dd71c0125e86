"""
``torch.backends.mlu``: TF32 switches, the FFT plan cache, and which attention kernels may be used.

Defaults: ``matmul.allow_tf32`` False, ``custom.allow_tf32`` False. Any other attribute of the two raises
AssertionError, so ``hasattr`` raises too (torch_mlu/backends/mlu/__init__.py:104-125). There are no cudnn attention
switches.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import _SDPBackend as SDPBackend
from typing_extensions import deprecated

from torch_mlu import _MLUC

__all__ = [
    "cnFFTPlanCache",
    "cnFFTPlanCacheAttrContextProp",
    "cnFFTPlanCacheManager",
    "cnfft_plan_cache",
    "matmul",
    "custom",
    "SDPAParams",
    "enable_flash_sdp",
    "flash_sdp_enabled",
    "enable_mem_efficient_sdp",
    "mem_efficient_sdp_enabled",
    "math_sdp_enabled",
    "enable_math_sdp",
    "can_use_flash_attention",
    "can_use_efficient_attention",
    "sdp_kernel",
]


class cnFFTPlanCacheAttrContextProp:
    """A property of one card's plan cache; a setter that is a text is the error of a read-only one."""

    def __init__(self, getter: Callable[[int], int], setter: Callable[[int, int], None] | str) -> None:
        self.getter = getter
        self.setter = setter

    def __get__(self, obj: Any, objtype: Any) -> Any:
        return self if obj is None else self.getter(obj.device_index)

    def __set__(self, obj: Any, val: int) -> None:
        if isinstance(self.setter, str):
            raise RuntimeError(self.setter)
        self.setter(obj.device_index, val)


class cnFFTPlanCache:
    """The plan cache of one card: ``size`` (read only), ``max_size``, ``clear()``."""

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    size = cnFFTPlanCacheAttrContextProp(
        torch.ops.torch_mlu._cnfft_get_plan_cache_size,
        ".size is a read-only property showing the number of plans currently in the "
        "cache. To change the cache capacity, set cnfft_plan_cache.max_size.",
    )
    max_size = cnFFTPlanCacheAttrContextProp(
        torch.ops.torch_mlu._cnfft_get_plan_cache_max_size, torch.ops.torch_mlu._cnfft_set_plan_cache_max_size
    )

    def clear(self) -> None:
        torch.ops.torch_mlu._cnfft_clear_plan_cache(self.device_index)


class cnFFTPlanCacheManager:
    """The plan caches of all cards; attributes are those of the current card's."""

    def __init__(self) -> None:
        self.__dict__["caches"] = {}

    def __getitem__(self, device: Any) -> cnFFTPlanCache:
        index = torch.mlu._utils._get_device_index(device)
        count = torch.mlu.device_count()
        if index < 0 or index >= count:
            raise RuntimeError(
                f"cnfft_plan_cache: expected 0 <= device index < {count}, but got device with index {index}"
            )
        return self.caches.setdefault(index, cnFFTPlanCache(index))

    def __getattr__(self, name: str) -> Any:
        return getattr(self[torch.mlu.current_device()], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self[torch.mlu.current_device()], name, value)


cnfft_plan_cache = cnFFTPlanCacheManager()


class CnnlMatmulTF32Controller:
    """``torch.backends.mlu.matmul``: True also while ``torch.get_float32_matmul_precision()`` is not "highest"."""

    def __getattr__(self, name: str) -> bool:
        assert name == "allow_tf32", "Unknown attribute " + name
        return _MLUC._get_cnmatmul_allow_tf32()

    def __setattr__(self, name: str, value: bool) -> None:
        assert name == "allow_tf32", "Unknown attribute " + name
        _MLUC._set_cnmatmul_allow_tf32(value)


class MLUCustomTF32Controller:
    """``torch.backends.mlu.custom``: TF32 in other operators; takes nothing but a bool."""

    def __getattr__(self, name: str) -> bool:
        assert name == "allow_tf32", "Unknown attribute " + name
        return _MLUC._get_mlu_custom_allow_tf32()

    def __setattr__(self, name: str, value: bool) -> None:
        assert name == "allow_tf32", "Unknown attribute " + name
        _MLUC._set_mlu_custom_allow_tf32(value)


matmul = CnnlMatmulTF32Controller()
custom = MLUCustomTF32Controller()


def fake_set_cublas_allow_tf32(value: bool) -> None:
    """What ``torch.backends.cuda.matmul.allow_tf32 = X`` calls after import: it warns."""
    warnings.warn(
        "torch.backends.cuda.matmul.allow_tf32 has no effect on MLU. Use torch.backends.mlu.matmul.allow_tf32.",
        stacklevel=2,
    )


def fake_set_cublas_allow_fp16_reduced_precision_reduction(value: bool) -> None:
    """What ``torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = X`` calls after import: it warns."""
    warnings.warn(
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction has no effect on MLU.", stacklevel=2
    )


SDPAParams = _MLUC._SDPAParams


def flash_sdp_enabled() -> bool:
    return torch._C._get_flash_sdp_enabled()


def enable_flash_sdp(enabled: bool) -> None:
    torch._C._set_sdp_use_flash(enabled)


def mem_efficient_sdp_enabled() -> bool:
    return torch._C._get_mem_efficient_sdp_enabled()


def enable_mem_efficient_sdp(enabled: bool) -> None:
    torch._C._set_sdp_use_mem_efficient(enabled)


def math_sdp_enabled() -> bool:
    return torch._C._get_math_sdp_enabled()


def enable_math_sdp(enabled: bool) -> None:
    torch._C._set_sdp_use_math(enabled)


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Whether the flash kernel takes these arguments; ``debug`` warns why not."""
    return _MLUC._can_use_flash_attention(params, debug)


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """Whether the memory-efficient kernel takes these arguments; ``debug`` warns why not."""
    return _MLUC._can_use_mem_efficient_attention(params, debug)


@contextlib.contextmanager
@deprecated(
    "`torch.backends.mlu.sdp_kernel()` is deprecated. "
    "Please see `torch.nn.attention.sdpa_kernel()` and update your code accordingly.",
    category=FutureWarning,
)
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = False
) -> Iterator[None]:
    """Attention switches for a block. There is no cudnn kernel: asking for it warns."""
    if enable_cudnn:
        warnings.warn("enable_cudnn is not supported on MLU and is ignored.", stacklevel=3)
    before = flash_sdp_enabled(), mem_efficient_sdp_enabled(), math_sdp_enabled()
    try:
        enable_flash_sdp(enable_flash)
        enable_mem_efficient_sdp(enable_mem_efficient)
        enable_math_sdp(enable_math)
        yield
    finally:
        enable_flash_sdp(before[0])
        enable_mem_efficient_sdp(before[1])
        enable_math_sdp(before[2])
