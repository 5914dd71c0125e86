"""MLU611: visible devices chosen after torch was imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mlu_migrate import environ
from mlu_migrate.model import Confidence, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_NAMES = ("CUDA_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "CN_VISIBLE_DEVICES")


class VisibleDevicesLate(Rule):
    """
    Visible devices that are chosen after torch is imported.

    ## What it changes
    Nothing: moving a statement over an import changes the program. It is told once a file.

    ## Before
        import os
        import torch

        os.environ["CUDA_VISIBLE_DEVICES"] = "1"

    ## Finding
    At the assignment: torch is imported already, so the value counts only if nothing has asked for a device yet.

    ## Left alone
    Assignments before the import, and environments of other processes.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/__init__.py:332-376 (read when devices are first counted).
    """

    code = "MLU611"
    name = "visible-devices-late"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("environment",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """The first late assignment."""
        if b"VISIBLE_DEVICES" not in unit.data or not unit.uses_torch:
            return
        imports = [n for n in (*unit.index.nodes[ast.Import], *unit.index.nodes[ast.ImportFrom]) if _is_torch(n)]
        top = [n.lineno for n in imports if not _function(unit, n)]
        for node in sorted((n for n in unit.index.nodes[ast.Constant] if n.value in _NAMES), key=unit.start):
            target = unit.parent(node)
            if environ.use_of(unit, node) != "set" or not _own_environment(unit, node):
                continue
            function = _function(unit, node)
            inside = [n.lineno for n in imports if function is not None and _function(unit, n) is function]
            # A function may be called above a later import, but a module's imports stand at its head.
            before = [line for line in (*inside, *top) if line < node.lineno]
            if before:
                sure = function is None or bool(inside)
                yield self.found(
                    unit,
                    target or node,
                    "imported" if sure else "imported_function",
                    severity=Severity.WARNING if sure else Severity.INFO,
                    confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
                    line=str(min(before)),
                    variable=str(node.value),
                )
                return


def _is_torch(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(a.name == "torch" or a.name.startswith(("torch.", "torchvision")) for a in node.names)
    return not node.level and bool(node.module) and (node.module or "").split(".")[0] in ("torch", "torchvision")


def _function(unit: Unit, node: ast.AST) -> ast.AST | None:
    return next((a for a in unit.ancestors(node) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), None)


def _own_environment(unit: Unit, node: ast.AST) -> bool:
    """`os.environ` of this process, not a copy made for another one."""
    parent = unit.parent(node)
    if isinstance(parent, ast.Subscript):
        return unit.name(parent.value) == "os.environ" and isinstance(parent.ctx, ast.Store)
    if isinstance(parent, ast.Call):
        return unit.name(parent.func) in ("os.putenv", "os.environ.setdefault")
    if isinstance(parent, ast.Dict):
        call = unit.parent(parent)
        return isinstance(call, ast.Call) and unit.name(call.func) == "os.environ.update"
    return False
