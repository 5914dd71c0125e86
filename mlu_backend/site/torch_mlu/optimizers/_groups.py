"""What the fused optimizers share: sorting the parameters of a group into lists one operator can take, and moments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch


def by_kind(params: list[torch.Tensor]) -> dict[tuple[torch.device, torch.dtype], list[torch.Tensor]]:
    """Parameters that have a gradient, by device and dtype; RuntimeError for a sparse gradient."""
    lists: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = defaultdict(list)
    for param in params:
        if param.grad is None:
            continue
        if param.grad.is_sparse:
            raise RuntimeError("fused optimizers do not support sparse gradients")
        lists[param.device, param.dtype].append(param)
    return lists


def flag(params: list[torch.Tensor]) -> torch.Tensor:
    """The overflow buffer the operators take, on the device of the parameters."""
    return torch.zeros(1, dtype=torch.int32, device=params[0].device)


def drop_gradients(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = None


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """What the closure answers, with gradients on; None without one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class WithMoments(torch.optim.Optimizer):
    """Adam and LAMB: two running means a parameter, and a step that each group counts."""

    set_grad_none: bool

    def zero_grad(self) -> None:
        if self.set_grad_none:
            drop_gradients(self)
        else:
            super().zero_grad(set_to_none=False)

    def _lists_to_step(self) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
        """
        Begin a step: for every group and kind of parameter (group, arguments).

        The arguments are those the operators have in common, from the overflow buffer to the step.
        """
        for group in self.param_groups:
            kinds = by_kind(group["params"])
            if not kinds:
                continue
            group["step"] = group.get("step", 0) + 1
            for params in kinds.values():
                states = [self.state[param] for param in params]
                for param, state in zip(params, states, strict=True):
                    if not state:
                        state["exp_avg"] = torch.zeros_like(param)
                        state["exp_avg_sq"] = torch.zeros_like(param)
                yield (
                    group,
                    (
                        flag(params),
                        [param.grad for param in params],
                        params,
                        [state["exp_avg"] for state in states],
                        [state["exp_avg_sq"] for state in states],
                        group["lr"],
                        *group["betas"],
                        group["eps"],
                        group["step"],
                    ),
                )
