"""
``torch.ops.torch_mlu``: operators of the real extension.

Schemas come from the surface table. Each has an implementation in a module of this folder, or raises
NotImplementedError when called, for a few whose meaning the reference does not give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_mlu._ops import ctc, fft, fused, gradients, partition

IMPLEMENTED: dict[str, Callable[..., Any]] = {
    **fused.OPERATORS,
    **gradients.OPERATORS,
    **partition.OPERATORS,
    **ctc.OPERATORS,
    **fft.OPERATORS,
}


def _unknown(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch_mlu::{name} is not emulated: its schema is known, what it computes is not")

    return refuse


def define() -> torch.library.Library:
    """Register all operators; the library object has to be kept."""
    from mlu_backend.surface import schemas

    library = torch.library.Library("torch_mlu", "DEF")
    for name, schema in schemas().items():
        library.define(name + schema.replace("DeviceIndex", "int"))
        library.impl(name, IMPLEMENTED.get(name, _unknown(name)), "CompositeExplicitAutograd")
    return library


library = define()
