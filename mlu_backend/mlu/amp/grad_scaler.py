"""``torch.mlu.amp.GradScaler``, a deprecated spelling of ``torch.amp.GradScaler("mlu")``."""

from __future__ import annotations

import torch
from torch.amp.grad_scaler import OptState
from typing_extensions import deprecated

__all__ = ["GradScaler", "OptState"]


class GradScaler(torch.amp.GradScaler):
    """See :class:`torch.amp.GradScaler`."""

    @deprecated(
        "`torch.mlu.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('mlu', args...)` instead.",
        category=FutureWarning,
    )
    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "mlu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
