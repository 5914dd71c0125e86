"""Functions of torch.nn that the card does its own way."""

from __future__ import annotations

from torch_mlu.nn import functional
from torch_mlu.nn.functional import apply_functional_patch

__all__ = ["apply_functional_patch", "functional"]
