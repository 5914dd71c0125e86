"""
Answers of ``torch._utils`` about the accelerator at hand: mlu.

torch 2.4 asks for CUDA first and an own device last; with CUDA absent torch 2.13 arrives at mlu by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _get_available_device_type() -> str | None:
    """ "mlu" when there is a card, else None."""
    return "mlu" if torch.mlu.is_available() else None


def _get_device_attr(get_member: Callable[[Any], Any]) -> Any:
    """``get_member(torch.mlu)``, or None without a card."""
    return get_member(torch.mlu) if _get_available_device_type() == "mlu" else None


def get_current_device_index() -> int:
    """The number of the current card, -1 without one."""
    return torch.mlu.current_device() if torch.mlu.device_count() > 0 else -1


torch._utils._get_available_device_type = _get_available_device_type
torch._utils._get_device_attr = _get_device_attr
torch._utils.get_current_device_index = get_current_device_index
