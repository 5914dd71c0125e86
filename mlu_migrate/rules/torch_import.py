"""MLU104: imports of CUDA modules and names of torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rename import mapped, target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept


class TorchImport(Rule):
    """
    Imports below torch.cuda.

    ## What it changes
    The module path and the imported names. A name that is called otherwise on an MLU keeps its local name with `as`,
    so that its
    uses need no edit. Names without a counterpart stay in an import of their own.

    ## Before
        from torch.cuda import is_available, nvtx
        from torch.cuda.amp import GradScaler

    ## After
        import torch_mlu  # noqa: F401
        from torch.mlu import is_available, cnpx as nvtx
        from torch.mlu.amp import GradScaler

    ## Left alone
    `import torch.backends.cudnn as cudnn`, and modules of the project or of other packages, whatever their name.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:61 (`torch.mlu` is in `sys.modules`).
    """

    code = "MLU104"
    name = "torch-import"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("names",)

    def visit_Import(self, node: ast.Import, unit: Unit) -> Iterator[Finding]:
        """`import torch.cuda.nvtx as nvtx`."""
        for alias in node.names:
            if not alias.name.startswith(("torch.cuda", "torch.backends.cuda")) or is_kept(unit, node):
                continue
            new = mapped(alias.name, unit.settings.torch_mlu)
            if new == alias.name:
                yield self.found(unit, alias, "missing", safety=Safety.MANUAL, severity=Severity.ERROR, cuda=alias.name)
                continue
            start = unit.start(alias)
            edit = Edit(start, start + len(alias.name.encode()), new.encode())
            yield self.found(unit, alias, "module", edit, cuda=alias.name, mlu=new)

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """`from torch.cuda.amp import autocast`."""
        if node.level or not node.module or not (node.module == "torch" or node.module.startswith("torch.")):
            return
        if is_kept(unit, node):
            return
        release = unit.settings.torch_mlu
        if node.names[0].name == "*":
            new = mapped(node.module, release)
            if new != node.module and node.module.startswith(("torch.cuda", "torch.backends.cuda")):
                yield self.found(
                    unit,
                    node,
                    "star",
                    self._module(node, unit, new),
                    severity=Severity.WARNING,
                    cuda=node.module,
                    mlu=new,
                )
            return
        moves: dict[str, list[tuple[ast.alias, str]]] = {}
        stay: list[ast.alias] = []
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            found = target(full, release)
            if found is None or found.mlu is None:
                stay.append(alias)
                continue
            module, _, leaf = found.mlu.rpartition(".")
            moves.setdefault(module, []).append((alias, leaf))
        if not moves:
            return
        if len(moves) == 1 and not stay:
            ((module, names),) = moves.items()
            edits = [self._module(node, unit, module)] if module != node.module else []
            for alias, leaf in names:
                edits += self._leaf(alias, leaf, unit)
            yield self.found(unit, node, "from", edits, cuda=node.module, mlu=module)
        elif list(moves) == [node.module]:
            edits = [e for alias, leaf in moves[node.module] for e in self._leaf(alias, leaf, unit)]
            yield self.found(unit, node, "from", edits, cuda=node.module, mlu=node.module)
        else:
            yield self._split(node, unit, moves, stay)

    def _module(self, node: ast.ImportFrom, unit: Unit, new: str) -> Edit:
        assert node.module is not None
        start = unit.data.index(node.module.encode(), unit.start(node) + 4)
        return Edit(start, start + len(node.module.encode()), new.encode())

    def _leaf(self, alias: ast.alias, leaf: str, unit: Unit) -> list[Edit]:
        if leaf == alias.name:
            return []
        start = unit.start(alias)
        text = leaf if alias.asname else f"{leaf} as {alias.name}"
        return [Edit(start, start + len(alias.name.encode()), text.encode())]

    def _split(
        self, node: ast.ImportFrom, unit: Unit, moves: dict[str, list[tuple[ast.alias, str]]], stay: list[ast.alias]
    ) -> Finding:
        """Names go to several modules: one import each, where the statement has no comments to lose."""
        start, end = unit.span(node)
        source = unit.data[start:end]
        line = unit.source.line_of(start)
        indent = unit.data[unit.source.starts[line - 1] : start]
        rows: dict[str, list[str]] = {}
        if stay:
            rows[node.module or ""] = [unit.text(a) for a in stay]
        for module, names in moves.items():
            for alias, leaf in names:
                local = alias.asname or alias.name
                rows.setdefault(module, []).append(leaf if leaf == local else f"{leaf} as {local}")
        if b"#" in source:
            return self.found(
                unit,
                node,
                "by_hand",
                safety=Safety.MANUAL,
                severity=Severity.WARNING,
                cuda=node.module or "",
                mlu=", ".join(moves),
            )
        joint = "; " if indent.strip() else (unit.source.newline + indent).decode()
        text = joint.join(f"from {module} import {', '.join(names)}" for module, names in rows.items())
        return self.found(
            unit, node, "split", Edit(start, end, text.encode()), cuda=node.module or "", mlu=", ".join(moves)
        )
