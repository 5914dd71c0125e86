"""
Softmax of attention scores over sequences of different lengths, and dropout.

Batches are packed without padding: a sample has heads x length x length scores, one after the other, and ``mask`` has
length numbers a sample, added to every row of it (torch_mlu r2.4, csrc/aten/operators/cnnl/masked_softmax_dropout.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def _check(condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(text)


def _check_lengths(seq_len: Tensor, enable_stream: bool) -> None:
    _check(seq_len.dtype in (torch.int32, torch.int64), "dtype of seq_len must be Int or Long!")
    _check(not enable_stream, "currently do not support multiple streams acceleration")


def _samples(batch: int, seq_len: Tensor, heads: int) -> Iterator[tuple[slice, slice, int]]:
    """For each sample: where its scores are, where its mask is, its length."""
    score, position = 0, 0
    for length in seq_len[:batch].tolist():
        yield slice(score, score + heads * length * length), slice(position, position + length), length
        score += heads * length * length
        position += length


def mask_softmax_dropout_fprop(
    input: Tensor,
    mask: Tensor,
    batch: int,
    seq_len: Tensor,
    heads: int,
    dropout_prob: float,
    enable_stream: bool,
    sync: bool,
    is_training: bool,
) -> tuple[Tensor, Tensor | None]:
    """
    ``input``, which becomes its own softmax, after dropout, and what dropout kept (uint8; None in evaluation).

    ``seq_len`` lies on the CPU.
    """
    _check(
        input.device.type == mask.device.type == "mlu" and seq_len.device.type == "cpu",
        "input and mask must be on MLU, seq_len must be on CPU!",
    )
    _check(input.is_floating_point(), "only support real floating point input!")
    _check(input.dtype == mask.dtype, "the dtype of input and mask must be the same")
    _check_lengths(seq_len, enable_stream)
    _check(
        input.dim() == mask.dim() == seq_len.dim() == 1,
        f"only support 1-D Tensors for input, mask and seq_len, but got {input.dim()}-D, {mask.dim()}-D and "
        f"{seq_len.dim()}-D!",
    )
    for scores, positions, length in _samples(batch, seq_len, heads):
        if length:
            rows = input[scores].view(heads, length, length)
            rows.copy_((rows.float() + mask[positions].float()).softmax(-1))
    if not is_training:
        return input, None
    output, kept = torch.ops.aten.native_dropout(input, dropout_prob, True)
    return output, kept.to(torch.uint8)


def mask_softmax_dropout_bprop_(
    input: Tensor,
    self: Tensor,
    dropout_mask: Tensor,
    batch: int,
    seq_len: Tensor,
    heads: int,
    dropout_prob: float,
    enable_stream: bool,
    sync: bool,
) -> Tensor:
    """Turn ``self``, the gradient of the output, into that of the scores; ``input`` is the softmax."""
    _check(input.is_floating_point(), "only support real floating point input!")
    _check(input.dtype == self.dtype, "the dtype of input and grad_output must be the same")
    _check(dropout_mask.dtype == torch.uint8, "dropout_mask should be torch.uint8 dtype.")
    _check_lengths(seq_len, enable_stream)
    _check(
        input.dim() == self.dim() == dropout_mask.dim() == seq_len.dim() == 1,
        f"only support 1-D Tensors for input, grad_output, dropout_mask and seq_len, but got {input.dim()}-D, "
        f"{self.dim()}-D, {dropout_mask.dim()}-D and {seq_len.dim()}-D!",
    )
    scale = 0.0 if dropout_prob >= 1 else 1 / (1 - dropout_prob)
    for scores, _, length in _samples(batch, seq_len, heads):
        if length:
            shape = (heads, length, length)
            weights = input[scores].view(shape).float()
            incoming = (self[scores] * dropout_mask[scores] * scale).view(shape).float()
            gradient = (incoming - (incoming * weights).sum(-1, keepdim=True)) * weights
            self[scores].copy_(gradient.view(-1))
    return self


OPERATORS: dict[str, Callable[..., Any]] = {
    "mask_softmax_dropout_bprop_": mask_softmax_dropout_bprop_,
    "mask_softmax_dropout_fprop": mask_softmax_dropout_fprop,
}
