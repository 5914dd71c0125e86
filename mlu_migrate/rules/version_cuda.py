"""MLU904: torch.version.cuda, and the CUDA build in torch.__version__."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mlu_migrate import sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, is_text

_VERSIONS = ("torch.__version__", "torch.version.__version__")
_TAG = re.compile(r"\+cu(?:[\d(\[\\]|$)|^cu\d{2,3}$")


class VersionCuda(Rule):
    """
    Reads of torch.version.cuda, and questions for a CUDA build to torch.__version__.

    ## What it changes
    Nothing. `torch.version.mlu` exists and is always None, so a rename would make guards fire and parsing fail. The
    torch below torch_mlu is a CPU build, whose version has no `+cu121` behind it.

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

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """`from torch.version import cuda as cuda_version`."""
        known = _imported(unit)
        for node in unit.index.nodes[ast.Name] if known else ():
            if node.id in known and isinstance(node.ctx, ast.Load) and unit.name(node) == "torch.version.cuda":
                yield self.found(unit, node, "read")

    @sieve.texts(lambda text: _TAG.search(text) is not None)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`"+cu" in torch.__version__`, `torch.__version__.endswith("+cu121")`."""
        if _asks_version(unit, node):
            yield self.found(unit, node, "build", tag=str(node.value))

    @sieve.attributes(("cuda", "mlu"))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Whole chains, and `cuda` imported from torch.version."""
        if node.attr == "cuda" and unit.name(node) == "torch.version.cuda":
            kind = "parsed" if isinstance(unit.parent(node), (ast.Attribute, ast.Call, ast.Subscript)) else "read"
            yield self.found(unit, node, kind)
        elif node.attr == "mlu" and unit.name(node) == "torch.version.mlu":
            yield self.found(unit, node, "mlu")

    @sieve.calls(("getattr",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`getattr(torch.version, "cuda", None)`."""
        if len(node.args) > 1 and is_text(node.args[1], "cuda"):
            if unit.name(node.args[0]) == "torch.version":
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


def _asks_version(unit: Unit, node: ast.expr) -> bool:
    """Whether a text is compared with torch's version, or looked for in it."""
    outer = unit.parent(node)
    if isinstance(outer, (ast.Tuple, ast.List, ast.Set)):
        node, outer = outer, unit.parent(outer)
    if isinstance(outer, ast.Compare):
        return any(_is_version(unit, side) for side in (outer.left, *outer.comparators) if side is not node)
    if isinstance(outer, ast.Call) and node in outer.args:
        if (unit.name(outer.func) or "").startswith("re."):
            return any(_is_version(unit, part) for part in outer.args if part is not node)
        return isinstance(outer.func, ast.Attribute) and _is_version(unit, outer.func.value)
    return False


def _is_version(unit: Unit, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is torch's version, or made of it by methods, `str` and variables."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif unit.name(node.func) in ("importlib.metadata.version", "importlib_metadata.version"):
            return bool(node.args) and is_text(node.args[0], "torch")
        elif isinstance(node.func, ast.Attribute) and unit.name(node.func) is None or not node.args:
            node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        else:
            node = node.args[0]
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    if unit.name(node) in _VERSIONS:
        return True
    if not isinstance(node, ast.Name) or depth > 3:
        return False
    owner = unit.index.owner(unit.scope(node), node.id)
    values = [b.value for b in (owner.bindings.get(node.id, ()) if owner else ()) if b.kind == "assign"]
    return any(value is not None and _is_version(unit, value, depth + 1) for value in values)
