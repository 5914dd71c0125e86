"""Adam and AdamW with one operator a step, after apex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import torch_mlu._ops  # noqa: F401
from torch_mlu.optimizers._groups import by_kind, drop_gradients, flag


class FusedAdam(torch.optim.Optimizer):
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

    def zero_grad(self) -> None:
        if self.set_grad_none:
            drop_gradients(self)
        else:
            super().zero_grad(set_to_none=False)

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
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            kinds = by_kind(group["params"])
            if not kinds:
                continue
            group["step"] = group.get("step", 0) + 1
            beta1, beta2 = group["betas"]
            for params in kinds.values():
                for param in params:
                    if not self.state[param]:
                        self.state[param]["exp_avg"] = torch.zeros_like(param)
                        self.state[param]["exp_avg_sq"] = torch.zeros_like(param)
                torch.ops.torch_mlu.fused_adam(
                    flag(params),
                    [param.grad for param in params],
                    params,
                    [self.state[param]["exp_avg"] for param in params],
                    [self.state[param]["exp_avg_sq"] for param in params],
                    group["lr"],
                    beta1,
                    beta2,
                    group["eps"],
                    group["step"],
                    self.adam_w_mode,
                    1 if group["bias_correction"] else 0,
                    group["weight_decay"],
                )
        return loss
