"""The device of a sharded tensor."""

from __future__ import annotations

from typing import Any

import torch

from mlu_backend.after_import import after_import


def tensor_device(types: Any, args: Any = (), kwargs: Any = None, pg: Any = None) -> torch.device:
    """That of the local shard; without one the CPU under gloo, else the current card. TypeError for other tensors."""
    from torch.distributed._shard.sharded_tensor import ShardedTensor

    sharded = args[0]
    if not isinstance(sharded, ShardedTensor):
        raise TypeError("input needs to be a ShardedTensor")
    if sharded._local_shards:
        return sharded._local_shards[0].tensor.device
    if pg and pg._get_backend_name() == "gloo":
        return torch.device("cpu")
    return torch.device("mlu", torch.mlu.current_device())


def apply_tensor_ops_patch() -> None:
    def patch(module: Any) -> None:
        from torch.distributed._shard.sharded_tensor import _sharded_op_impl

        module.tensor_device = _sharded_op_impl(torch.Tensor.device.__get__)(tensor_device)  # type: ignore[attr-defined]

    after_import("torch.distributed._shard.sharded_tensor._ops.tensor_ops", patch)
