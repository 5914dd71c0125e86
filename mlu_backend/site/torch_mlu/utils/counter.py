"""
A window of iterations in which the kernel library writes down its cases.

``TORCH_MLU_COUNTER_START`` and ``TORCH_MLU_COUNTER_END`` are iterations of a DataLoader, ``TORCH_MLU_COUNTER_LEVEL`` is
L1, L2 or L3. The emulated card has no such library: the window opens and closes, and nothing is written.
"""

from __future__ import annotations

import os

from torch_mlu._MLUC import _dump_cnnl_gencase as dump_cnnl_gencase

_ENV_TO_GENCASE_LEVEL = {"L1": 1, "L2": 2, "L3": 3}
_GENCASE_ENABLED = False
_GENCASE_STATUS_DICT = {"start": -1, "end": -1, "level": 1, "iteration": 0}


def _check_gencase() -> None:
    """Read the three variables; a window needs a start, and ends with the program when it has no end."""
    global _GENCASE_ENABLED
    start = os.environ.get("TORCH_MLU_COUNTER_START")
    if start is None:
        return
    level = os.environ.get("TORCH_MLU_COUNTER_LEVEL", "L1")
    if level not in _ENV_TO_GENCASE_LEVEL:
        raise ValueError(f"TORCH_MLU_COUNTER_LEVEL must be one of L1, L2, L3, got {level!r}")
    _GENCASE_STATUS_DICT.update(
        start=int(start),
        end=int(os.environ.get("TORCH_MLU_COUNTER_END", "-1")),
        level=_ENV_TO_GENCASE_LEVEL[level],
    )
    _GENCASE_ENABLED = True


def _update_and_check_for_gencase() -> None:
    """Count an iteration; open or close the window when it is time."""
    if not _GENCASE_ENABLED:
        return
    iteration = _GENCASE_STATUS_DICT["iteration"]
    if iteration == _GENCASE_STATUS_DICT["start"]:
        dump_cnnl_gencase(True, _GENCASE_STATUS_DICT["level"])
    if iteration == _GENCASE_STATUS_DICT["end"]:
        dump_cnnl_gencase(False, _GENCASE_STATUS_DICT["level"])
    _GENCASE_STATUS_DICT["iteration"] = iteration + 1
