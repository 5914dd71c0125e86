"""
``torch.ops.torch_mlu``: operators of the real extension.

Schemas come from the surface table; each operator has an implementation in a module of this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_mlu._ops import boxes, ctc, debug, fft, fused, gradients, partition, softmax

IMPLEMENTED: dict[str, Callable[..., Any]] = {
    **boxes.OPERATORS,
    **ctc.OPERATORS,
    **debug.OPERATORS,
    **fft.OPERATORS,
    **fused.OPERATORS,
    **gradients.OPERATORS,
    **partition.OPERATORS,
    **softmax.OPERATORS,
}
# Operators that autograd looks into; it knows nothing of what is inside the others.
DIFFERENTIABLE: dict[str, Callable[..., Any]] = {**ctc.DIFFERENTIABLE, **gradients.DIFFERENTIABLE}


def define() -> torch.library.Library:
    """Register all operators; the library object has to be kept."""
    from mlu_backend.surface import schemas

    library = torch.library.Library("torch_mlu", "DEF")
    for name, schema in schemas().items():
        library.define(name + schema.replace("DeviceIndex", "int"))
        if name in DIFFERENTIABLE:
            library.impl(name, DIFFERENTIABLE[name], "CompositeImplicitAutograd")
        else:
            # By key rather than for all of them, so that tracing with fake tensors does not run an implementation.
            takes_tensors = "Tensor" in schema.partition("->")[0]
            for key in ("PrivateUse1", "CPU") if takes_tensors else ("CompositeExplicitAutograd",):
                library.impl(name, IMPLEMENTED[name], key)
    return library


library = define()
