"""MLU904: torch.version.cuda."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, is_text

_NAMES = ("torch.version.cuda", "torch.backends.cudnn.version", "torch.cuda.nccl.version")


class VersionCuda(Rule):
    """
    Reads of torch.version.cuda.

    ## What it changes
    Nothing. `torch.version.mlu` exists and is always None, so a rename would make guards fire and parsing fail.

    ## Before
        import torch

        if torch.version.cuda is None:
            raise RuntimeError("no GPU build")

    ## Finding
    At `torch.version.cuda`: it is None on an MLU; ask `torch_mlu.__version__` or `torch.mlu.is_available()` instead.

    ## Left alone
    `torch.version.__version__` and the other names of torch.version.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:34 and 90.
    """

    code = "MLU904"
    name = "version-cuda"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (b"version",)

    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Whole chains, and `cuda` imported from torch.version."""
        if node.attr == "cuda" and unit.name(node) == "torch.version.cuda":
            kind = "parsed" if isinstance(unit.parent(node), (ast.Attribute, ast.Call, ast.Subscript)) else "read"
            yield self.found(unit, node, kind)
        elif node.attr == "mlu" and unit.name(node) == "torch.version.mlu":
            yield self.found(unit, node, "mlu")

    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`getattr(torch.version, "cuda", None)`."""
        if unit.callee(node) == "getattr" and len(node.args) > 1 and is_text(node.args[1], "cuda"):
            if unit.name(node.args[0]) == "torch.version":
                yield self.found(unit, node, "read")

    def visit_Name(self, node: ast.Name, unit: Unit) -> Iterator[Finding]:
        """`from torch.version import cuda as cuda_version`."""
        if node.id in _imported(unit) and isinstance(node.ctx, ast.Load) and unit.name(node) == "torch.version.cuda":
            yield self.found(unit, node, "read")


def _imported(unit: Unit) -> frozenset[str]:
    """Local names of `from torch.version import cuda`; worked out once a file."""
    known = unit.memo.get("version_cuda.names")
    if known is None:
        known = frozenset(
            alias.asname or alias.name
            for node in unit.index.nodes[ast.ImportFrom]
            if node.module == "torch.version"
            for alias in node.names
        )
        unit.memo["version_cuda.names"] = known
    return known  # type: ignore[return-value]
