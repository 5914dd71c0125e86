"""Case dumps of the kernel library, switched by hand."""

from __future__ import annotations

from torch_mlu import _MLUC

LEVELS = {"L1": 1, "L2": 2, "L3": 3}


def dump_cnnl_gencase(enable: bool = True, level: str = "L1") -> None:
    """
    Start or stop writing down kernel cases; ``level`` L1, L2 (with data) or L3, ValueError for another.

    The emulated card has no kernel library, so the switch is kept and nothing is written.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, got {level!r}")
    _MLUC._dump_cnnl_gencase(enable, LEVELS[level])
