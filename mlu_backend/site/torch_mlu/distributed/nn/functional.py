"""Gathering with a gradient: torch's own backward knows NCCL's name only."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Function

from mlu_backend.after_import import after_import


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx: Any, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        dist.all_gather_into_tensor(output_tensor, input_tensor.contiguous(), group=group)
        return output_tensor

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        if "cncl" not in dist.get_backend(group=ctx.group):
            raise RuntimeError("Backend not supported!")
        world = dist.get_world_size(group=ctx.group)
        rows = grad_output.size(0)
        if rows % world != 0:
            raise RuntimeError(
                f"Tensor with dimensions: {list(grad_output.size())} does not have first dimension divisible by "
                f"world_size: {world}"
            )
        grad_input = grad_output.new_empty((rows // world, *grad_output.shape[1:]))
        dist.reduce_scatter_tensor(grad_input, grad_output.contiguous(), dist.ReduceOp.SUM, group=ctx.group)
        return None, grad_input, None


def apply_functional_patch() -> None:
    def patch(module: Any) -> None:
        module._AllGatherBase = _AllGatherBase

    after_import("torch.distributed.nn.functional", patch)
