"""Sharded tensors."""

from __future__ import annotations

from torch_mlu.distributed._shard import api, tensor_ops

__all__ = ["api", "tensor_ops"]
