"""Collectives that autograd understands."""

from __future__ import annotations

from torch_mlu.distributed.nn import functional

__all__ = ["functional"]
