"""Bias, scale and split of a packed query-key-value projection."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_mlu.triton_kernel.utils import get_total_core_num

__all__ = [
    "config_prune",
    "get_autotune_config",
    "get_total_core_num",
    "transform_bias_rescale_qkv_no_split_lowest_dim_impl",
]


def get_autotune_config() -> list[dict[str, int]]:
    """Block sizes worth trying, as ``{"YBLOCK", "XBLOCK"}``."""
    return [{"YBLOCK": rows, "XBLOCK": columns} for rows in (1, 4, 16) for columns in (256, 1024)]


def config_prune(configs: list[dict[str, int]], named_args: dict[str, Any], **kwargs: Any) -> list[dict[str, int]]:
    """The block sizes that are not larger than the work; at least one is left."""
    rows = named_args.get("B", 1) * named_args.get("T", 1)
    return [config for config in configs if config["YBLOCK"] <= rows] or configs[:1]


def transform_bias_rescale_qkv_no_split_lowest_dim_impl(
    qkv_ptr: torch.Tensor,
    qkv_bias_ptr: torch.Tensor,
    out_q_ptr: torch.Tensor,
    out_k_ptr: torch.Tensor,
    out_v_ptr: torch.Tensor,
    inv_sqrt_dim_per_head: float,
    B: int,
    T: int,
    D: int,
    num_heads: int,
    dim_per_head: int,
    YBLOCK: int,
    XBLOCK: int,
    IS_DIVISIBLE: bool,
) -> None:
    """
    Fill three outputs (B, heads, T, head size) from ``qkv`` (B, T, 3 * D) plus its bias (3 * D).

    The arguments are tensors where the Triton kernel takes addresses; block sizes make no difference here.
    """
    parts = (qkv_ptr + qkv_bias_ptr).view(B, T, 3, num_heads, dim_per_head).permute(2, 0, 3, 1, 4)
    out_q_ptr.copy_(parts[0] * inv_sqrt_dim_per_head)
    out_k_ptr.copy_(parts[1])
    out_v_ptr.copy_(parts[2])


def _transform_bias_rescale_qkv_mlu(
    qkv: torch.Tensor, qkv_bias: torch.Tensor, num_heads: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query (scaled by 1 / sqrt(head size)), key and value, each (B, heads, T, head size)."""
    if qkv.is_nested:
        qkv = torch.nested.to_padded_tensor(qkv, 0.0)
    batch, length, packed = qkv.shape
    width = packed // 3
    size = width // num_heads
    outputs = [qkv.new_empty((batch, num_heads, length, size)) for _ in range(3)]
    transform_bias_rescale_qkv_no_split_lowest_dim_impl(
        qkv, qkv_bias, *outputs, 1.0 / math.sqrt(size), batch, length, width, num_heads, size, 1, 256, True
    )
    return outputs[0], outputs[1], outputs[2]
