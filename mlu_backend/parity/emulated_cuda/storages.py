"""
Storages go to the emulated device by ``cuda()`` and ``to``, and files are written with ``cuda:N`` tags and read back
onto it, as on a GPU machine.
"""

from __future__ import annotations

from typing import Any

import torch

from mlu_backend.parity.emulated_cuda.devices import mapping


def install() -> None:
    """Methods of storages, and our tags before torch's own."""
    _methods()
    _tags()


def _methods() -> None:
    """``cuda()`` of either class ends in ``to`` of the untyped one."""
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        kind.to = mapping(kind.to)  # type: ignore[method-assign]
        kind.is_cuda = property(lambda self: self.device.type in ("mlu", "cuda"))  # type: ignore[assignment]


def _tags() -> None:

    def tag(storage: Any) -> str | None:
        device = storage.device
        return f"cuda:{device.index or 0}" if device.type in ("mlu", "cuda") else None

    def restore(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        with torch._C.DisableTorchFunction():
            return torch.serialization.default_restore_location(storage, "mlu" + location[4:])

    torch.serialization.register_package(1, tag, restore)
