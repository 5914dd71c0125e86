"""Deprecated name of ``torch_mlu.utils.gpu_migration``."""

from __future__ import annotations

import warnings

from torch_mlu.utils.gpu_migration import migration as transfer

__all__ = ["transfer"]

warnings.warn(
    "torch_mlu.utils.model_transfer is deprecated. Please use torch_mlu.utils.gpu_migration instead.",
    FutureWarning,
    stacklevel=2,
)
