"""Optimizers whose step is one operator over all parameters, and the capture check of torch's own."""

from __future__ import annotations

from torch_mlu.optimizers import fused_adam, fused_lamb, fused_sgd, optimizer
from torch_mlu.optimizers.fused_adam import FusedAdam
from torch_mlu.optimizers.fused_lamb import FusedLAMB, FusedLAMBAMP
from torch_mlu.optimizers.fused_sgd import FusedSGD
from torch_mlu.optimizers.optimizer import apply_optimizer_patch

__all__ = [
    "FusedAdam",
    "FusedLAMB",
    "FusedLAMBAMP",
    "FusedSGD",
    "apply_optim_patch",
    "apply_optimizer_patch",
    "fused_adam",
    "fused_lamb",
    "fused_sgd",
    "optimizer",
]


def apply_optim_patch() -> None:
    apply_optimizer_patch()
