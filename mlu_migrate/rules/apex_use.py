"""MLU404: NVIDIA apex."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import apimap
from mlu_migrate.fallback import has_fallback
from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_ADVICE = {
    "apex.amp": 'torch.autocast("mlu") and torch.amp.GradScaler("mlu"); `amp.initialize` and `amp.scale_loss` go away',
    "apex.parallel": "torch.nn.parallel.DistributedDataParallel and torch.nn.SyncBatchNorm",
    "apex.normalization": "torch.nn.LayerNorm",
    "apex.multi_tensor_apply": "torch._foreach functions, or the optimizers in torch_mlu.optimizers",
    "apex.fp16_utils": "torch.amp",
    "apex.transformer": "plain torch modules",
}


class ApexUse(Rule):
    """
    Names of NVIDIA's apex.

    ## What it changes
    With `--unsafe`, imports of the fused optimizers that torch_mlu has under the same argument names come from
    `torch_mlu.optimizers`.
    Everything else is told with its torch equivalent; `amp` here is apex's, not torch's.

    ## Before
        from apex import amp

        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")

    ## Finding
    At `amp`: use torch.autocast and torch.amp.GradScaler.

    ## Left alone
    Calls on what was imported.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/optimizers/__init__.py:1.
    """

    code = "MLU404"
    name = "apex-use"
    severity = Severity.ERROR
    safety = Safety.UNSAFE
    topics = ("precision", "advice")
    needs = (b"apex",)

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """`from apex.optimizers import FusedAdam`, `from apex import amp`."""
        if node.level or not node.module or node.module.partition(".")[0] != "apex" or "apex" in unit.facts.exports:
            return
        rows = [apimap.lookup(f"{node.module}.{a.name}") for a in node.names]
        release = unit.settings.torch_mlu
        mapped = [r for r in rows if r is not None and r.exists_in(release)]
        if mapped and len(mapped) == len(rows):
            edits = self._edits(node, unit, [r.mlu for r in mapped])
            note = "; ".join(r.note for r in mapped if r.note)
            which = "optimizer" if note else "optimizer_plain"
            yield self.found(unit, node, which, edits, severity=Severity.WARNING, note=note)
            return
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            yield self._told(unit, alias, name)

    def visit_Import(self, node: ast.Import, unit: Unit) -> Iterator[Finding]:
        """`import apex` and what is read from it."""
        for alias in node.names:
            if has_fallback(unit, node):
                continue  # MLU901 tells of the package
            if alias.name.startswith("apex.") and "apex" not in unit.facts.exports:
                yield self._told(unit, alias, alias.name)

    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`apex.amp.initialize` after `import apex`."""
        name = unit.name(node)
        parent = unit.parent(node)
        if name is None or not name.startswith("apex.") or (isinstance(parent, ast.Attribute) and unit.name(parent)):
            return
        if has_fallback(unit, node):
            return
        root = node
        while isinstance(root.value, ast.Attribute):
            root = root.value
        if isinstance(root.value, ast.Name) and root.value.id == "apex" and "apex" not in unit.facts.exports:
            seen: set[str] = unit.memo.setdefault("apex.seen", set())  # type: ignore[assignment]
            head = ".".join(name.split(".")[:3])
            if head not in seen:
                seen.add(head)
                yield self._told(unit, node, name)

    def _told(self, unit: Unit, node: ast.AST, name: str) -> Finding:
        row = apimap.lookup(name)
        head = next((h for h in _ADVICE if name == h or name.startswith(h + ".")), "")
        instead = (
            row.mlu or row.note
            if row is not None and (row.mlu or row.note)
            else _ADVICE.get(head, "the torch module that does the same")
        )
        if has_fallback(unit, node):
            return self.found(
                unit, node, "caught", safety=Safety.MANUAL, severity=Severity.INFO, name=name, instead=instead
            )
        return self.found(unit, node, "told", safety=Safety.MANUAL, name=name, instead=instead)

    def _edits(self, node: ast.ImportFrom, unit: Unit, targets: list[str]) -> tuple[Edit, ...]:
        assert node.module is not None
        start = unit.data.index(node.module.encode(), unit.start(node) + 4)
        edits = [Edit(start, start + len(node.module.encode()), b"torch_mlu.optimizers")]
        for alias, target in zip(node.names, targets):
            leaf = target.rpartition(".")[2]
            if leaf != alias.name:
                at = unit.start(alias)
                text = leaf if alias.asname else f"{leaf} as {alias.name}"
                edits.append(Edit(at, at + len(alias.name.encode()), text.encode()))
        return tuple(edits)
