"""Gradients torch_mlu computes with operators of its own, by their mathematical definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def linalg_det_backward(grad: Tensor, self: Tensor, det: Tensor) -> Tensor:
    """Gradient of the determinant: grad * det * inverse transpose; shapes (..., n, n) and (...)."""
    inverse = torch.linalg.inv(self).mH
    return (grad * det.conj())[..., None, None] * inverse


def linalg_slogdet_backward(grad_logabsdet: Tensor, self: Tensor, signdet: Tensor, logabsdet: Tensor) -> Tensor:
    """Gradient of log |det|: grad * inverse transpose."""
    return grad_logabsdet[..., None, None] * torch.linalg.inv(self).mH


def repeat_backward(self: Tensor, grad: Tensor, repeats: list[int]) -> Tensor:
    """Gradient of ``self.repeat(repeats)``: sums over the copies; shape of ``self``."""
    sizes = [1] * (len(repeats) - self.dim()) + list(self.shape)
    folded = grad.reshape([number for pair in zip(repeats, sizes, strict=True) for number in pair])
    return folded.sum(dim=list(range(0, 2 * len(repeats), 2))).reshape(self.shape)


def max_unpool2d(
    self: Tensor, indices: Tensor, kernel_size: list[int], stride: list[int], padding: list[int], output_size: list[int]
) -> Tensor:
    """Put the maxima back in a plane of ``output_size``; indices are positions in it."""
    return torch.ops.aten.max_unpool2d(self, indices, output_size[-2:])


def max_unpool2d_backward(
    grad_output: Tensor,
    self: Tensor,
    indices: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    output_size: list[int],
) -> Tensor:
    """The gradient at the positions the maxima were put back to."""
    return grad_output.flatten(-2).gather(-1, indices.flatten(-2)).view_as(self)


OPERATORS: dict[str, Callable[..., Any]] = {
    "linalg_det_backward": linalg_det_backward,
    "linalg_slogdet_backward": linalg_slogdet_backward,
    "max_unpool2d_backward": max_unpool2d_backward,
    "repeat_backward": repeat_backward,
}
# Its derivative is that of the operator inside (custom_autograd in codegen/mlu_functions.yaml).
DIFFERENTIABLE: dict[str, Callable[..., Any]] = {"max_unpool2d": max_unpool2d}
