"""CTC loss as one operator: the loss and, with it, the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

REDUCTIONS = ("none", "mean", "sum")


def ctc_loss_forward(
    probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | None,
    target_lengths: Tensor | None,
    il: list[int],
    tl: list[int],
    blank: int,
    reduction: int,
    zero_infinity: bool,
    normalization: int,
) -> tuple[Tensor, Tensor]:
    """
    The loss of log probabilities ``probs`` (time, batch, classes) and its gradient with respect to them.

    Lengths come as tensors or, where these are None, as lists. ``reduction`` 0 none, 1 mean, 2 sum.
    """
    lengths = torch.as_tensor(il) if input_lengths is None else input_lengths
    wanted = torch.as_tensor(tl) if target_lengths is None else target_lengths
    with torch.enable_grad():
        leaf = probs.detach().requires_grad_()
        loss = torch.nn.functional.ctc_loss(leaf, targets, lengths, wanted, blank, REDUCTIONS[reduction], zero_infinity)
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), gradient


def ctc_loss_backward(grad_out: Tensor, raw_grad: Tensor) -> Tensor:
    """The stored gradient times that of the loss, one number or one for each sample of the batch."""
    return raw_grad * (grad_out.reshape(1, -1, 1) if grad_out.dim() else grad_out)


OPERATORS: dict[str, Callable[..., Any]] = {
    "ctc_loss_backward": ctc_loss_backward,
    "ctc_loss_forward": ctc_loss_forward,
}
