"""MLU101: names below torch that have an MLU counterpart."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rename import chain, spell, target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

# Private methods of storages, whatever they are called on.
_STORAGE = {
    "_share_cuda_": "_share_mlu_",
    "_new_shared_cuda": "_new_shared_mlu",
    "_release_ipc_counter_cuda": "_release_ipc_counter_mlu",
}


class TorchName(Rule):
    """
    CUDA names of torch that exist for the MLU.

    ## What it changes
    The words of a dotted name that differ: `torch.cuda.synchronize` becomes `torch.mlu.synchronize`,
    `torch.cuda.nvtx` becomes
    `torch.mlu.cnpx`, through every alias of torch. Tables decide; the release is chosen with `--torch-mlu`.

    ## Before
        import torch as th

        th.cuda.synchronize()
        th.cuda.nvtx.range_push("step")

    ## After
        import torch as th
        import torch_mlu  # noqa: F401

        th.mlu.synchronize()
        th.mlu.cnpx.range_push("step")

    ## Left alone
    Names that only look alike (`numba.cuda`, an attribute called `cuda` of anything else), names without a counterpart
    (MLU102), names whose meaning differs (MLU103).

    ## Source
    mlu_migrate/tables/torch.toml, one source a row.
    """

    code = "MLU101"
    name = "torch-name"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("names",)
    needs = (b"torch", b"cuda")

    @sieve.attributes(_STORAGE, roots=("torch.",), several=True)
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Whole chains only: the inner links of a longer torch name are part of it."""
        parent = unit.parent(node)
        name = unit.name(node)
        if node.attr in _STORAGE and isinstance(node.ctx, ast.Load) and not is_kept(unit, node):
            new = _STORAGE[node.attr]
            given = {"cuda": node.attr, "mlu": new, "note": "", "source": ""}
            yield self.found(unit, unit.attr_span(node), "renamed", unit.rename_attr(node, new), **given)  # type: ignore[arg-type]
            return
        if name is None:
            yield from self._either(node, unit)
            return
        if not name.startswith("torch.") or (isinstance(parent, ast.Attribute) and unit.name(parent)):
            return
        release = unit.settings.torch_mlu
        found = target(name, release)
        if found is None or found.mlu is None or is_kept(unit, node):
            return
        root = chain(node)[0]
        if name.startswith("torch.mlu") or not (isinstance(root, ast.Name) or unit.name(root) == "torch"):
            return
        edits = spell(unit, node, name, found.mlu)
        if edits is None:
            yield self.found(
                unit, node, "by_hand", safety=Safety.MANUAL, severity=Severity.WARNING, cuda=name, mlu=found.mlu
            )
        elif edits:
            row = found.row
            differs = row is not None and row.status == "semantic-difference" and _worth_telling(unit, node, row.name)
            yield self.found(
                unit,
                node,
                "differs" if differs else "renamed",
                edits,
                severity=Severity.WARNING if differs else Severity.INFO,
                cuda=found.known,
                mlu=row.mlu if row else found.mlu,
                note=row.note if row else "",
                source=row.source if row else "",
            )

    def _either(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`mod = torch if plain else torch_xla`, then `mod.cuda.is_available()`: torch's name is one of several."""
        names = [n for n in unit.names.all_of(node) if n.startswith("torch.cuda.")]
        links = chain(node)
        if len(names) != 1 or is_kept(unit, node) or not any(getattr(link, "attr", "") == "cuda" for link in links):
            return
        found = target(names[0], unit.settings.torch_mlu)
        edits = spell(unit, node, names[0], found.mlu) if found is not None and found.mlu is not None else None
        if edits and found is not None and found.mlu is not None:
            yield self.found(
                unit,
                node,
                "either",
                edits,
                safety=Safety.UNSAFE,
                severity=Severity.WARNING,
                cuda=names[0],
                mlu=found.mlu,
            )


def _worth_telling(unit: Unit, node: ast.Attribute, name: str) -> bool:
    """A difference is told once a file, and for an Event only where the arguments that differ are given."""
    if name.endswith(".Event"):
        call = unit.parent(node)
        words = {k.arg for k in call.keywords} if isinstance(call, ast.Call) and call.func is node else set()
        return bool(words & {"blocking", "external"})
    told: set[str] = unit.memo.setdefault("torch_name.told", set())  # type: ignore[assignment]
    if name in told:
        return False
    told.add(name)
    return True
