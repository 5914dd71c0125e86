"""
Precision switches and what they are before anyone sets them (torch_mlu/csrc/utils/common.h:106-108, common.cpp:71-81).
"""

from __future__ import annotations

import os
from typing import Any

import torch

OVERRIDES = ("TORCH_ALLOW_TF32_CNMATMUL_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
TRUE = ("y", "yes", "1", "t", "true")
FALSE = ("n", "no", "0", "f", "false")

_values = {"cnnl": True, "custom": False, "fusion": True}


def _changed() -> None:
    """Tell the kernels, which round their inputs on the profiles that model TF32."""
    from mlu_backend import core

    tell = getattr(core.extension(), "set_tf32", None)
    if tell is not None:
        tell(_values["cnnl"], _get_cnmatmul_allow_tf32(), _values["custom"])


def _override() -> bool:
    """Leftmost set name wins; RuntimeError for a value that is no boolean (framework/distributed/Utils.h:65-106)."""
    for name in OVERRIDES:
        text = os.environ.get(name)
        if text is None:
            continue
        if text.lower() in TRUE:
            return True
        if text.lower() in FALSE:
            return False
        raise RuntimeError(f"Invalid value for environment variable: {name}")
    return False


def _get_cnnl_allow_tf32() -> bool:
    return _values["cnnl"]


def _set_cnnl_allow_tf32(value: Any) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"set_allow_tf32_cnnl expects a bool, but got {type(value).__name__}")
    _values["cnnl"] = value
    _changed()


def _get_cnmatmul_allow_tf32() -> bool:
    return torch.get_float32_matmul_precision() != "highest" or _override()


def _set_cnmatmul_allow_tf32(value: Any) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"set_allow_tf32_cnmatmul expects a bool, but got {type(value).__name__}")
    torch.set_float32_matmul_precision("high" if value else "highest")
    _changed()


def _get_mlu_custom_allow_tf32() -> bool:
    return _values["custom"]


def _set_mlu_custom_allow_tf32(value: Any) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"set_mlu_custom_allow_tf32 expects a bool, but got {type(value).__name__}")
    _values["custom"] = value
    _changed()


def _get_mlufusion_enabled() -> bool:
    return _values["fusion"]


def _set_mlufusion_enabled(value: Any) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"set_enabled_mlufusion expects a bool, but got {type(value).__name__}")
    _values["fusion"] = value
