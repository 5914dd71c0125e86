"""MLU910: the device is asked before worker processes fork."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument, is_text

_STARTERS = (
    "torch.multiprocessing.set_start_method",
    "multiprocessing.set_start_method",
    "torch.multiprocessing.get_context",
    "multiprocessing.get_context",
)


class EarlyProbe(Rule):
    """
    Processes started by fork in a program that uses the device.

    ## What it changes
    Nothing. After the device was used, a forked child cannot use it: "Cannot re-initialize MLU in forked subprocess".

    ## Before
        import torch
        import torch.multiprocessing as mp

        if torch.cuda.is_available():
            mp.set_start_method("fork")

    ## Finding
    At `"fork"`: start workers with "spawn", or set `PYTORCH_CNDEV_BASED_MLU_CHECK=1` so that asking does not
    initialise the device.

    ## Left alone
    "spawn" and "forkserver", and programs that never mention the device.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/__init__.py:135 and 515-533.
    """

    code = "MLU910"
    name = "early-probe"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (b"fork",)

    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """A start method "fork" in a file that uses the device."""
        name = unit.callee(node)
        method = argument(node, "method", 0)
        if name in _STARTERS and is_text(method, "fork") and _uses_device(unit):
            assert method is not None
            yield self.found(unit, method, "fork")
        elif name == "os.fork" and _uses_device(unit):
            yield self.found(unit, node, "fork")


def _uses_device(unit: Unit) -> bool:
    return b"torch.cuda" in unit.data or b".cuda(" in unit.data or b"torch.mlu" in unit.data or b".mlu(" in unit.data
