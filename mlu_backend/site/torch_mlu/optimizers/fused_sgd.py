"""SGD with one operator a step, after apex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, required

import torch_mlu._ops  # noqa: F401
from torch_mlu.optimizers._groups import by_kind, drop_gradients, flag


class FusedSGD(Optimizer):
    """
    SGD with momentum.

    ``wd_after_momentum``: add weight decay after momentum rather than before. ``materialize_master_grads`` is for mixed
    precision drivers that keep master weights; ``set_grad_none`` as in :class:`FusedAdam`.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = required,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        if lr is not required and lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)
        self.wd_after_momentum = wd_after_momentum
        self.materialize_master_grads = materialize_master_grads
        self.most_recent_scale = 1.0
        self.scale_set_by_backward = False
        self.set_grad_none = set_grad_none

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    def zero_grad(self) -> None:
        if self.set_grad_none:
            drop_gradients(self)
        else:
            super().zero_grad(set_to_none=False)

    def get_momentums(self, params: list[torch.Tensor]) -> tuple[list[torch.Tensor], bool]:
        """The momentum buffer of each parameter, made when missing, and whether this is the first step with them."""
        momentums = []
        first_run = True
        for param in params:
            state = self.state[param]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(param)
            else:
                first_run = False
            momentums.append(state["momentum_buffer"])
        return momentums, first_run

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for params in by_kind(group["params"]).values():
                momentums, first_run = self.get_momentums(params)
                torch.ops.torch_mlu.fused_sgd(
                    flag(params),
                    [param.grad for param in params],
                    params,
                    momentums,
                    [],
                    group["weight_decay"],
                    group["momentum"],
                    group["dampening"],
                    group["lr"],
                    group["nesterov"],
                    first_run,
                    self.wd_after_momentum,
                    1.0 / self.most_recent_scale,
                )
        self.most_recent_scale = 1.0
        self.scale_set_by_backward = False
        return loss
