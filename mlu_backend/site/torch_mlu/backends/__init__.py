"""``torch.backends.mlu``, ``torch.backends.cnnl`` and ``torch.backends.mlufusion``."""

from __future__ import annotations

from torch_mlu.backends import cnnl, mlu, mlufusion

__all__ = ["cnnl", "mlu", "mlufusion"]
