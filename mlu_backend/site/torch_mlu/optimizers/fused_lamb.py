"""LAMB with one operator a step, after apex; and its mixed-precision form with float32 master weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import Any

import torch

import torch_mlu._ops  # noqa: F401
from torch_mlu.optimizers._groups import WithMoments, drop_gradients, flag, loss_of


def _global_norm(groups: list[dict[str, Any]]) -> torch.Tensor:
    """The 2-norm of all gradients, one float32 number."""
    params = [param for group in groups for param in group["params"] if param.grad is not None]
    if not params:
        return torch.zeros(1)
    norm, _ = torch.ops.torch_mlu.fused_l2_norm(flag(params), [param.grad for param in params], False)
    return norm


class FusedLAMB(WithMoments):
    """
    LAMB. Gradients are scaled down when their common norm is above ``max_grad_norm``; RuntimeError with ``amsgrad``.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLAMB does not support the AMSGrad variant.")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none
        self.use_nvlamb = use_nvlamb

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        loss = loss_of(closure)
        norm = _global_norm(self.param_groups)
        for group, common in self._lists_to_step():
            torch.ops.torch_mlu.fused_lamb(
                *common,
                1 if group["bias_correction"] else 0,
                group["weight_decay"],
                1 if group["grad_averaging"] else 0,
                self.adam_w_mode,
                norm,
                group["max_grad_norm"],
                self.use_nvlamb,
            )
        return loss


class FusedLAMBAMP(torch.optim.Optimizer):
    """
    LAMB for mixed precision: parameters that are not float32 get float32 masters, and learning rate, step and norms are
    tensors on the card. ``step`` takes the GradScaler, so that unscaling and the check for overflow are part of the
    step.
    """

    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        step: int = 0,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLAMB does not support the AMSGrad variant.")
        defaults = {
            "lr": torch.tensor(lr, dtype=torch.float32),
            "step": torch.tensor([step], dtype=torch.int),
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults)
        device = self.param_groups[0]["params"][0].device
        for group in self.param_groups:
            for key in ("lr", "step"):
                group[key] = group[key].to(device)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none
        self.use_nvlamb = use_nvlamb
        self.found_inf = torch.zeros(1, dtype=torch.float32, device=device)
        self.param_groups_fp32: list[dict[str, Any]] = []

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        # Masters are made anew at the next step.
        self.param_groups_fp32 = []

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load; moments keep float32 whatever the parameters are, and rate and step stay tensors."""
        super().load_state_dict(state_dict)
        device = self.param_groups[0]["params"][0].device
        saved = deepcopy(state_dict)
        numbers = chain.from_iterable(group["params"] for group in saved["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for number, param in zip(numbers, params, strict=True):
            for key, value in saved["state"].get(number, {}).items():
                if torch.is_tensor(value):
                    self.state[param][key] = value.to(device=param.device, dtype=torch.float32)
        for group in self.param_groups:
            for key, dtype in (("lr", torch.float32), ("step", torch.int)):
                group[key] = torch.as_tensor(group[key], dtype=dtype, device=device)
        self.param_groups_fp32 = []

    def _setup_fp32_params(self) -> None:
        """Give every parameter that is not float32 a float32 master."""
        for group in self.param_groups:
            masters = [None if param.dtype is torch.float32 else param.detach().float() for param in group["params"]]
            self.param_groups_fp32.append({"params": masters})

    def zero_grad(self, set_to_none: bool = False) -> None:
        if self.set_grad_none or set_to_none:
            drop_gradients(self)
        else:
            super().zero_grad(set_to_none=False)

    def step(self, closure: Callable[[], Any] | None = None, grad_scaler: Any = None) -> Any:
        """One step; with ``grad_scaler`` gradients are unscaled, and after an overflow nothing changes."""
        loss = loss_of(closure)
        if not self.param_groups_fp32:
            self._setup_fp32_params()
        device = self.found_inf.device
        scale, flagged = self._scaling(grad_scaler, device)
        norm = _global_norm(self.param_groups).to(device) * scale
        for group, masters in zip(self.param_groups, self.param_groups_fp32, strict=True):
            group["step"] += (flagged == 0).to(group["step"].dtype)
            lists = self._lists(group, masters["params"])
            for kind, entries in lists.items():
                self._apply(group, kind, entries, norm, scale, flagged)
        return loss

    def _scaling(self, grad_scaler: Any, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """What gradients are to be multiplied by, and whether one of them overflowed."""
        if grad_scaler is None or not grad_scaler.is_enabled():
            return torch.ones(1, device=device), torch.zeros(1, device=device)
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        finite = [torch.isfinite(grad).all() for grad in grads]
        flagged = (~torch.stack(finite).all()).float().reshape(1) if finite else torch.zeros(1, device=device)
        state = grad_scaler._per_optimizer_states[id(self)]
        state["found_inf_per_device"] = {device: flagged.reshape(())}
        return grad_scaler._get_scale_async().to(device).reciprocal().reshape(1), flagged

    def _lists(self, group: dict[str, Any], masters: list[torch.Tensor | None]) -> dict[bool, list[Any]]:
        """(gradient, master, mean, square, parameter) of each parameter, those without a master of their own apart."""
        lists: dict[bool, list[Any]] = defaultdict(list)
        for param, master in zip(group["params"], masters, strict=True):
            if param.grad is None:
                continue
            state = self.state[param]
            if not state:
                state["exp_avg"] = torch.zeros_like(param, dtype=torch.float32)
                state["exp_avg_sq"] = torch.zeros_like(param, dtype=torch.float32)
            target = param if master is None else master
            lists[master is not None].append((param.grad, target, state["exp_avg"], state["exp_avg_sq"], param))
        return lists

    def _apply(
        self,
        group: dict[str, Any],
        has_master: bool,
        entries: list[Any],
        norm: torch.Tensor,
        scale: torch.Tensor,
        flagged: torch.Tensor,
    ) -> None:
        grads, targets, means, squares, params = (list(column) for column in zip(*entries, strict=True))
        beta1, beta2 = group["betas"]
        rest = (
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["step"],
            1 if group["bias_correction"] else 0,
            group["weight_decay"],
            1 if group["grad_averaging"] else 0,
            self.adam_w_mode,
            norm,
            torch.tensor(group["max_grad_norm"]),
            self.use_nvlamb,
            scale,
        )
        if has_master:
            torch.ops.torch_mlu.fused_lamb_amp.dst_param(flagged, grads, targets, means, squares, params, *rest)
        else:
            torch.ops.torch_mlu.fused_lamb_amp(flagged, grads, targets, means, squares, *rest)
