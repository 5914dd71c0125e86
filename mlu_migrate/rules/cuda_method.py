"""MLU201: `.cuda()` on tensors, modules and storages."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import methodtexts, receivers, sieve
from mlu_migrate.model import Confidence, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

_METHODS = frozenset(
    f"torch.{owner}.cuda"
    for owner in (
        "Tensor",
        "nn.Module",
        "UntypedStorage",
        "TypedStorage",
        "nn.utils.rnn.PackedSequence",
        "jit.ScriptModule",
    )
)


class CudaMethod(Rule):
    """
    Calls of `.cuda()`.

    ## What it changes
    `.cuda(...)` becomes `.mlu(...)`, arguments as they are. Objects of libraries that only have `.to` become
    `.to("mlu")`.

    ## Before
        import torch

        x = torch.ones(2).cuda(non_blocking=True)

    ## After
        import torch
        import torch_mlu  # noqa: F401

        x = torch.ones(2).mlu(non_blocking=True)

    ## Left alone
    `args.cuda` and other attributes that are data, functions and modules called cuda, other libraries, and calls
    proven to be
    on a class of the project that has its own `cuda` method.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:69 (`torch.utils.generate_methods_for_privateuse1_backend`).
    """

    code = "MLU201"
    name = "cuda-method"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("devices",)
    needs = (b"cuda",)

    @sieve.calls(words=("cuda",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Only calls: an attribute called cuda that is not called is data."""
        func = node.func
        if not isinstance(func, ast.Attribute) or is_kept(unit, node):
            return
        span = (unit.attr_span(func)[0], unit.end(node))
        receiver = receivers.of(unit, func)
        if receiver.kind == "torch":
            return
        if receiver.kind == "foreign":
            yield self.found(unit, span, "foreign", safety=Safety.MANUAL, owner=receiver.owner)
        elif receiver.kind == "function":
            yield self.found(unit, span, "function", safety=Safety.MANUAL, owner=receiver.owner)
        elif receiver.kind == "own":
            yield self.found(unit, span, "own", safety=Safety.MANUAL, owner=receiver.owner)
        elif receiver.kind == "library":
            yield from self._library(node, func, unit, span, receiver.owner)
        else:
            yield self.found(unit, span, "renamed", unit.rename_attr(func, "mlu"))

    @sieve.attributes(("cuda",))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`map(torch.Tensor.cuda, xs)`: the method as a value."""
        if isinstance(node.ctx, ast.Del) or is_kept(unit, node):
            return
        parent = unit.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        if not called and unit.name(node) in _METHODS:
            message = "renamed" if isinstance(node.ctx, ast.Load) else "patched"
            yield self.found(unit, node, message, unit.rename_attr(node, "mlu"))
        elif not called and isinstance(node.ctx, ast.Load) and methodtexts.is_method(unit, node):
            yield self.found(unit, unit.attr_span(node), "value", unit.rename_attr(node, "mlu"))

    @sieve.texts("cuda".__eq__)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`getattr(x, "cuda")()`, `methodcaller("cuda")`."""
        if methodtexts.texts(unit).get(node) == "cuda" and not is_kept(unit, node):
            edits = unit.replace_in_string(node, "cuda", "mlu")
            if edits is not None:
                yield self.found(unit, node, "text", edits)

    def _library(
        self, node: ast.Call, func: ast.Attribute, unit: Unit, span: tuple[int, int], owner: str
    ) -> Iterator[Finding]:
        if node.args or node.keywords:
            yield self.found(
                unit,
                span,
                "library_args",
                unit.rename_attr(func, "mlu"),
                safety=Safety.UNSAFE,
                confidence=Confidence.LOW,
                severity=Severity.WARNING,
                owner=owner,
            )
            return
        start, end = unit.attr_span(func)
        opening = unit.data.index(b"(", end)
        edits = (unit.rename_attr(func, "to"), receivers.insertion(opening + 1, '"mlu"'))
        yield self.found(unit, span, "library", edits, owner=owner)
