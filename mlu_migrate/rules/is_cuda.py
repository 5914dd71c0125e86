"""MLU202: the flag `.is_cuda`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import methodtexts, receivers, sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept


class IsCuda(Rule):
    """
    Reads of `.is_cuda`.

    ## What it changes
    `x.is_cuda` becomes `x.is_mlu`; on an MLU tensor `is_cuda` stays False.

    ## Before
        import torch

        def check(t: torch.Tensor):
            assert t.is_cuda

    ## After
        import torch
        import torch_mlu  # noqa: F401

        def check(t: torch.Tensor):
            assert t.is_mlu

    ## Left alone
    A property or attribute of that name that the project defines itself, and reads proven to be on such a class.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:69 (generates `is_mlu` on Tensor, Module, storage and PackedSequence).
    """

    code = "MLU202"
    name = "is-cuda"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("devices",)
    needs = (b"is_cuda",)

    @sieve.attributes(("is_cuda",))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Reads only; a store is the project's own attribute."""
        if is_kept(unit, node):
            return
        span = unit.attr_span(node)
        if not isinstance(node.ctx, ast.Load):
            return
        receiver = receivers.of(unit, node)
        if receiver.kind == "own" or _stored(unit, node):
            yield self.found(unit, span, "own", safety=Safety.MANUAL, owner=receiver.owner or "this project")
        elif receiver.kind == "foreign":
            yield self.found(unit, span, "foreign", safety=Safety.MANUAL, owner=receiver.owner)
        elif receiver.kind in ("library", "function"):
            severity = Severity.WARNING
            yield self.found(unit, span, "library", safety=Safety.MANUAL, severity=severity, owner=receiver.owner)
        elif receiver.kind == "value":
            yield self.found(unit, span, "renamed", unit.rename_attr(node, "is_mlu"))

    @sieve.texts("is_cuda".__eq__)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`getattr(x, "is_cuda", False)`."""
        if node in methodtexts.texts(unit) and not is_kept(unit, node):
            edits = unit.replace_in_string(node, "is_cuda", "is_mlu")
            if edits is not None:
                yield self.found(unit, node, "renamed", edits)


def _stored(unit: Unit, node: ast.Attribute) -> bool:
    """
    `self.is_cuda = flag` somewhere in the file makes it the object's own attribute, for the same kind of
    receiver.
    """
    spelled = ast.unparse(node.value)
    return any(
        isinstance(a.ctx, ast.Store)
        and ast.unparse(a.value) in (spelled, "self")
        and (spelled == "self" or ast.unparse(a.value) == spelled)
        for a in unit.index.attributes["is_cuda"]
    )
