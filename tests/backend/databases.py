"""The three databases behind one door: operators, modules, optimizers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from opdb import Outcome


def start() -> None:
    """Bring the device up in this process."""
    import mlu_backend

    mlu_backend.offer_torch_mlu()
    import torch_mlu  # noqa: F401


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def entries(what: str, dtypes: Sequence[str] | None, backward: bool) -> list[tuple[str, str]]:
    """(name, dtype) of every check of a database."""
    if what == "ops":
        import opdb

        found = []
        for name, op in opdb.by_name().items():
            supported = op.supported_backward_dtypes("cpu") if backward else op.supported_dtypes("cpu")
            if backward and not op.supports_autograd:
                continue
            for dtype in sorted(supported, key=str):
                if dtypes is None or _dtype_name(dtype) in dtypes:
                    found.append((name, _dtype_name(dtype)))
        return found
    if what == "modules":
        import moduledb

        return moduledb.entries(dtypes)
    import optimdb

    return optimdb.entries(dtypes)


_operators: dict[str, Any] = {}


def check(what: str, name: str, dtype: str, backward: bool) -> Outcome:
    """Run one check in this process."""
    if what == "ops":
        import opdb

        if not _operators:
            _operators.update(opdb.by_name())
        return opdb.check(_operators[name], getattr(torch, dtype), backward)
    if what == "crash":  # for the test of the sweep itself
        os.abort()
    if what == "modules":
        import moduledb

        return moduledb.check(name, getattr(torch, dtype))
    import optimdb

    return optimdb.check(name, getattr(torch, dtype))
