"""Device arguments of ``torch.mlu`` functions."""

from __future__ import annotations

from typing import Any

import torch


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """
    The index meant by ``device``: a number, a string, a torch.device, a ``torch.mlu.device`` or, with ``optional``,
    None.

    ``allow_cpu`` lets the CPU through as -1. ValueError for another device type (torch_mlu/mlu/_utils.py:31-33).
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type not in ("mlu", "cpu"):
            raise ValueError(f"Expected a mlu or cpu device, but got: {device}")
        if not allow_cpu and device.type != "mlu":
            raise ValueError(f"Expected a mlu device, but got: {device}")
    if isinstance(device, torch.mlu.device):
        return device.idx
    return torch._utils._get_device_index(device, optional, allow_cpu)
