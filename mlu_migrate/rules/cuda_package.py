"""MLU901: packages that exist for NVIDIA GPUs only."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from mlu_migrate import apimap, sieve
from mlu_migrate.fallback import has_fallback, needed_later
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, is_text

_IMPORTERS = ("importlib.import_module", "__import__")
_TORCH = "torch"  # kind of the rows that are no CUDA package but must fit the plugin
# Import names that a CPU build brings too: importing them says nothing about CUDA.
_BOTH = frozenset(("faiss", "tensorflow", "dgl", "onnxruntime", "spconv", "gpustat"))


@functools.cache
def packages() -> dict[str, dict[str, str]]:
    """Import name -> row of tables/packages.toml."""
    out: dict[str, dict[str, str]] = {}
    for row in apimap.read("packages", "package"):
        if row["kind"] != _TORCH:
            for module in row.get("modules", ()):
                if module not in _BOTH:
                    out.setdefault(module, row)
    return out


class CudaPackage(Rule):
    """
    Imports of packages that exist for NVIDIA GPUs only.

    ## What it changes
    Nothing. Each package is told once a file, with what to use instead. An import behind an availability test is an
    error: on an MLU
    the test becomes true and the import runs.

    ## Before
        import torch

        if torch.cuda.is_available():
            import flash_attn

    ## Finding
    At `import flash_attn`: the branch becomes live on an MLU, where the package cannot be installed.

    ## Left alone
    The import, its fallback and everything that uses the package. An import that is caught by `except ImportError` is
    only an info.

    ## Source
    mlu_migrate/tables/packages.toml, one source a row.
    """

    code = "MLU901"
    name = "cuda-package"
    severity = Severity.ERROR
    safety = Safety.MANUAL
    topics = ("advice",)

    def visit_Import(self, node: ast.Import, unit: Unit) -> Iterator[Finding]:
        """`import flash_attn`."""
        for alias in node.names:
            yield from self._tell(unit, alias, alias.name, node)

    @sieve.calls(_IMPORTERS)
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`importlib.import_module("flash_attn")`."""
        if node.args and is_text(node.args[0]):
            text = node.args[0].value  # type: ignore[attr-defined]
            yield from self._tell(unit, node, text, unit.statement(node))

    @sieve.attributes(roots=("faiss.",))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`faiss.StandardGpuResources()`: the GPU side of a package that has a CPU side."""
        if "gpu" in node.attr.lower():
            row = next((r for r in apimap.read("packages", "package") if "faiss" in r.get("modules", ())), None)
            seen: set[str] = unit.memo.setdefault("cuda_package.seen", set())  # type: ignore[assignment]
            if row is not None and "faiss" not in seen:
                seen.add("faiss")
                zh = row.get("instead_zh", row["instead"])
                yield self.found(
                    unit,
                    node,
                    "needed",
                    severity=Severity.WARNING,
                    package=f"faiss.{node.attr}",
                    instead=row["instead"],
                    instead_zh=zh,
                    source=row["source"],
                )

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """`from flash_attn import f`."""
        if node.module and not node.level:
            below = (f"{node.module}.{a.name}" for a in node.names)  # `from numba import cuda`
            yield from self._tell(unit, node, next((b for b in below if b in packages()), node.module), node)

    def _tell(self, unit: Unit, node: ast.AST, module: str, statement: ast.stmt) -> Iterator[Finding]:
        parts = module.split(".")
        root = next((".".join(parts[:n]) for n in (1, 2) if ".".join(parts[:n]) in packages()), parts[0])
        row = packages().get(root)
        if root == "apex" and isinstance(statement, ast.ImportFrom):
            return  # MLU404 tells each name
        if row is None or root in unit.facts.exports:  # a package of the project with the same name
            return
        seen: set[str] = unit.memo.setdefault("cuda_package.seen", set())  # type: ignore[assignment]
        if root in seen:
            return
        seen.add(root)
        line = None
        if has_fallback(unit, statement):
            line = needed_later(unit, statement)
            kind, severity = ("unasked", Severity.WARNING) if line else ("caught", Severity.INFO)
        elif _gated(unit, statement):
            kind, severity = "live", Severity.ERROR
        else:
            kind, severity = "needed", Severity.ERROR
        if row["kind"] in ("monitor", "engine") and severity is Severity.ERROR and kind != "live":
            severity = Severity.WARNING
        zh = row.get("instead_zh", row["instead"])
        yield self.found(
            unit,
            node,
            kind,
            severity=severity,
            needs=str(line or ""),
            package=root,
            instead=row["instead"],
            instead_zh=zh,
            source=row["source"],
        )


def _gated(unit: Unit, node: ast.AST) -> bool:
    """Whether an import runs only where there is a card: below a test, or behind `if not available: return`."""
    child: ast.AST = node
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.If) and child in outer.body and unit.flow.asks_availability(outer.test):
            return True
        body = getattr(outer, "body", None)
        if isinstance(body, list) and child in body:
            for before in body[: body.index(child)]:
                leaves = isinstance(before, ast.If) and isinstance(before.body[-1], (ast.Return, ast.Raise))
                if leaves and unit.flow.asks_availability(before.test):
                    return True
        child = outer
    return False
