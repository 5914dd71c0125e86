"""Thin calls to torch's own autocast switches with device type ``mlu`` (torch_mlu/mlu/autocast_utils.py:4-30)."""

from __future__ import annotations

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_autocast_enabled() -> bool:
    return torch.is_autocast_enabled("mlu")


def get_autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("mlu")


def set_autocast_enabled(enable: bool) -> None:
    torch.set_autocast_enabled("mlu", enable)


def set_autocast_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("mlu", dtype)
