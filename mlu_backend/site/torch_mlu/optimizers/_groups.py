"""What the fused optimizers share: sorting the parameters of a group into lists one operator can take."""

from __future__ import annotations

from collections import defaultdict
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
