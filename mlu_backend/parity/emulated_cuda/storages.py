"""Files are written with ``cuda:N`` tags and read back onto the emulated device, as on a GPU machine."""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Register our tags before torch's own."""

    def tag(storage: Any) -> str | None:
        device = storage.device
        return f"cuda:{device.index or 0}" if device.type in ("mlu", "cuda") else None

    def restore(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        with torch._C.DisableTorchFunction():
            return torch.serialization.default_restore_location(storage, "mlu" + location[4:])

    torch.serialization.register_package(1, tag, restore)
