"""Adam and AdamW with one operator a step, after apex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import torch_mlu._ops  # noqa: F401
from torch_mlu.optimizers._groups import WithMoments, loss_of


class FusedAdam(WithMoments):
    """
    Adam; with ``adam_w_mode`` (the default) weight decay is decoupled.

    ``set_grad_none``: :meth:`zero_grad` drops gradients instead of filling them with zeros. RuntimeError with
    ``amsgrad``.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none

    def step(
        self,
        closure: Callable[[], Any] | None = None,
        grads: Any = None,
        output_params: Any = None,
        scale: Any = None,
        grad_norms: Any = None,
    ) -> Any:
        """One step; the last four arguments are of an older form and raise RuntimeError when given."""
        if any(given is not None for given in (grads, output_params, scale, grad_norms)):
            raise RuntimeError(
                "FusedAdam has been updated: initialise it as torch.optim.Adam and call step() without these arguments."
            )
        loss = loss_of(closure)
        for group, common in self._lists_to_step():
            correction = 1 if group["bias_correction"] else 0
            torch.ops.torch_mlu.fused_adam(*common, self.adam_w_mode, correction, group["weight_decay"])
        return loss
