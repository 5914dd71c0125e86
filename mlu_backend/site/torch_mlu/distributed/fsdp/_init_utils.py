"""
The device FSDP works on.

torch 2.13 hands a device handle through its own helpers and answers ``device_id=1`` with the accelerator it finds,
which is mlu. What is left to replace is the case without any accelerator's parameters: there the handle is mlu's.
"""

from __future__ import annotations

from typing import Any

import torch

from mlu_backend.after_import import after_import
from torch_mlu import _MLUC


def _handle() -> Any:
    from torch.distributed.fsdp._common_utils import _FSDPDeviceHandle

    return _FSDPDeviceHandle.from_device(torch.device("mlu"))


def _init_device_handle(state: Any, module: Any, ignored_params: Any, device_id: Any) -> Any:
    """Set ``state._device_handle``: by ``device_id``, else by the parameters, else mlu."""
    if isinstance(device_id, int):
        device_id = torch.device("mlu", device_id)
    return _MLUC._replaced["fsdp._init_device_handle"](state, module, ignored_params, device_id)


def _get_device_from_device_id(device_id: Any, rank: int, device_handle: Any = None) -> torch.device | None:
    """The device ``device_id`` means: a number is a card, a device without index the current card, None none."""
    if isinstance(device_id, int):
        return torch.device("mlu", device_id)
    return _MLUC._replaced["fsdp._get_device_from_device_id"](device_id, rank, device_handle or _handle())


def _materialize_meta_module(
    root_module: Any, device_from_device_id: Any, ignored_modules: Any, device_handle: Any = None
) -> None:
    """Give a meta module memory on the device and reset its parameters."""
    if isinstance(device_from_device_id, int):
        device_from_device_id = torch.device("mlu", device_from_device_id)
    _MLUC._replaced["fsdp._materialize_meta_module"](
        root_module, device_from_device_id, ignored_modules, device_handle or _handle()
    )


def _get_compute_device(
    module: Any, ignored_params: Any, device_from_device_id: Any, rank: int, device_handle: Any = None
) -> torch.device:
    """Where the parameters are, or the current card when they are on the CPU; ValueError against ``device_id``."""
    return _MLUC._replaced["fsdp._get_compute_device"](
        module, ignored_params, device_from_device_id, rank, device_handle or _handle()
    )


def apply_init_utils_patch() -> None:
    """Replace torch's four helpers when FSDP is imported."""

    def patch(module: Any) -> None:
        for replacement in (
            _init_device_handle,
            _get_device_from_device_id,
            _materialize_meta_module,
            _get_compute_device,
        ):
            key = f"fsdp.{replacement.__name__}"
            if key not in _MLUC._replaced:
                _MLUC._replaced[key] = getattr(module, replacement.__name__)
                setattr(module, replacement.__name__, replacement)

    after_import("torch.distributed.fsdp._init_utils", patch)
