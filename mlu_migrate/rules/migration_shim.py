"""MLU006: imports of torch_mlu's run-time migration and of its old modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_SHIMS = ("torch_mlu.utils.gpu_migration", "torch_mlu.utils.model_transfer")


class MigrationShim(Rule):
    """
    Programs that import torch_mlu's run-time patching, or modules of its first releases.

    ## What it changes
    Nothing. `torch_mlu.utils.gpu_migration` replaces `torch.cuda` while the program runs and rewrites "cuda" in every
    text argument; in
    migrated source it is not needed and gets in the way.

    ## Before
        import torch
        import torch_mlu
        from torch_mlu.utils import gpu_migration

    ## Finding
    At the import: remove it, the source has been migrated.

    ## Left alone
    The import itself, since other files may still rely on it.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/utils/gpu_migration/migration.py:328-373 and 627-741.
    """

    code = "MLU006"
    name = "migration-shim"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("set-up",)
    needs = (b"torch_mlu",)

    def visit_Import(self, node: ast.Import, unit: Unit) -> Iterator[Finding]:
        """`import torch_mlu.utils.gpu_migration`."""
        for alias in node.names:
            yield from self._tell(unit, alias, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """`from torch_mlu.utils import gpu_migration`."""
        if not node.level and node.module and node.module.startswith("torch_mlu"):
            for alias in node.names:
                yield from self._tell(unit, alias, f"{node.module}.{alias.name}")

    def _tell(self, unit: Unit, node: ast.AST, name: str) -> Iterator[Finding]:
        if any(name == s or name.startswith(s + ".") for s in _SHIMS):
            yield self.found(unit, node, "shim", name=name)
        elif name.startswith("torch_mlu.core"):
            yield self.found(unit, node, "core", severity=Severity.ERROR, name=name)
