"""Mixed precision as ``torch.mlu.amp``: deprecated spellings of ``torch.amp`` with device ``mlu``."""

from __future__ import annotations

from . import autocast_mode, common, grad_scaler
from .autocast_mode import autocast, custom_bwd, custom_fwd
from .common import amp_definitely_not_available
from .grad_scaler import GradScaler

__all__ = [
    "amp_definitely_not_available",
    "autocast",
    "autocast_mode",
    "common",
    "custom_bwd",
    "custom_fwd",
    "grad_scaler",
    "GradScaler",
]
