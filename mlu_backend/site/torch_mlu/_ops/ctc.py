"""CTC loss as one operator: the loss and, with it, the gradient (torch_mlu r2.4, .../operators/cnnl/ctc_loss.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

REDUCTIONS = ("none", "mean", "sum")
NOT_NORMALISED, SOFTMAX, LOG_SOFTMAX = range(3)  # what `probs` has gone through


def _log_probabilities(probs: Tensor, normalization: int) -> Tensor:
    if normalization == NOT_NORMALISED:
        return probs.log_softmax(-1)
    if normalization == SOFTMAX:
        # A probability that came out as 0 counts as the smallest there is, and gets no gradient.
        return probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
    return probs


class _Loss(torch.autograd.Function):
    """The loss, and its gradient beside it, which is all that backward needs."""

    @staticmethod
    def forward(
        ctx: Any,
        probs: Tensor,
        targets: Tensor,
        lengths: Tensor,
        wanted: Tensor,
        blank: int,
        reduction: int,
        zero_infinity: bool,
        normalization: int,
    ) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = probs.detach().requires_grad_()
            given = _log_probabilities(leaf, normalization)
            loss = torch.nn.functional.ctc_loss(
                given, targets, lengths, wanted, blank, REDUCTIONS[reduction], zero_infinity
            )
            (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(gradient)
        return loss.detach(), gradient

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (ctc_loss_backward(grad_outputs[0], *ctx.saved_tensors), *[None] * 7)


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
    The loss of ``probs`` (time, batch, classes) and its gradient with respect to them.

    Lengths come as tensors or, where these are None, as lists. ``reduction`` 0 none, 1 mean, 2 sum. ``normalization``
    0: ``probs`` are scores and log softmax is part of the loss, 1: they are probabilities, 2: log probabilities.
    """
    lengths = torch.as_tensor(il) if input_lengths is None else input_lengths
    wanted = torch.as_tensor(tl) if target_lengths is None else target_lengths
    loss, gradient = _Loss.apply(probs, targets, lengths, wanted, blank, reduction, zero_infinity, normalization)
    return loss, gradient


def ctc_loss_backward(grad_out: Tensor, raw_grad: Tensor) -> Tensor:
    """The stored gradient times that of the loss, one number or one for each sample of the batch."""
    return raw_grad * (grad_out.reshape(1, -1, 1) if grad_out.dim() else grad_out)


def warp_ctc_loss(
    probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    reduction: int,
    zero_infinity: bool,
    normalization: int,
) -> Tensor:
    """The summed loss of scores, shape (1); ``reduction`` has to be 1 and ``normalization`` 0, as warp-ctc had them."""
    if reduction != 1:
        raise RuntimeError("warp_ctc_loss only support sum mode.")
    if normalization != NOT_NORMALISED:
        raise RuntimeError("warp_ctc_loss's input doesn't go through log_softmax.")
    loss, _ = ctc_loss_forward(
        probs, targets, input_lengths, target_lengths, [], [], blank, 2, zero_infinity, normalization
    )
    return loss.unsqueeze(0)


OPERATORS: dict[str, Callable[..., Any]] = {"ctc_loss_backward": ctc_loss_backward}
# These hold their own derivative, so autograd looks inside (custom_autograd in codegen/mlu_functions.yaml).
DIFFERENTIABLE: dict[str, Callable[..., Any]] = {"ctc_loss_forward": ctc_loss_forward, "warp_ctc_loss": warp_ctc_loss}
