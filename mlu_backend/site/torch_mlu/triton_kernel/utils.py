"""Sizes of the card a kernel is tuned to."""

from __future__ import annotations

import torch


def get_total_core_num() -> int:
    """Cores of the current card."""
    return torch.mlu.get_device_properties(torch.mlu.current_device()).multi_processor_count
