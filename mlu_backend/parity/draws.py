"""Random numbers that the two runs cannot have in common: a difference that they made is no fault of the migration."""

from __future__ import annotations

from collections.abc import Mapping

from mlu_backend.parity import align
from mlu_backend.parity.control import Where
from mlu_backend.parity.findings import Category, Difference


def unrepeatable(first: Difference | None, reference: str, apart: Mapping[Where, int | None]) -> str | None:
    """
    Why the first divergence cannot be judged; None if it can. ``apart``: for processes of a candidate that compiles,
    the step in which the generators of the device parted.
    """
    if first is None or first.category is not Category.NUMBERS:
        return None
    if reference == "emulated-cuda":
        return _compiled(first, apart)
    if first.random:
        what = f"{first.path or first.what} draws random numbers on the device"
        instead = "switch dropout off for the comparison"
    elif first.kind == align.INPUT:
        what = f"{first.what} is other data from the start, and may have been drawn on the device"
        instead = "draw it on the CPU"
    else:
        return None
    return f"{what}, which a reference on another device cannot repeat; use --reference emulated-cuda, or {instead}"


def _compiled(first: Difference, apart: Mapping[Where, int | None]) -> str | None:
    """The emulated GPU runs compiled code eagerly, and compiled code draws other numbers."""
    parted = [step for (rank, _), step in apart.items() if rank == first.rank and step is not None]
    if not parted or min(parted) != first.step:
        return None
    return (
        f"{first.what}: compiled code draws other random numbers than the reference, which runs it eagerly, and the "
        "generators of the device parted in this step; set TORCH_COMPILE_DISABLE=1 for the comparison, or switch "
        "dropout off"
    )
