"""DataLoader on this device."""

from __future__ import annotations

from torch_mlu.data import dataloader
from torch_mlu.data.dataloader import apply_dataloader_patch

__all__ = ["apply_dataloader_patch", "dataloader"]
