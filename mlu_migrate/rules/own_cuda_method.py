"""MLU204: classes of the project that define `cuda` themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import receivers
from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_FLAGS = {"cuda": "mlu", "is_cuda": "is_mlu"}


class OwnCudaMethod(Rule):
    """
    Classes that define a method `cuda` or a property `is_cuda` of their own.

    ## What it changes
    An override in a Module is renamed together with its `super()` call, since `.mlu()` at the call sites would pass
    it by. A plain
    class keeps its method; where calls on unknown receivers become `.mlu()` and could reach it, the class gains `mlu
    = cuda`.

    ## Before
        import torch
        from torch import nn

        class Net(nn.Module):
            def cuda(self, device=None):
                self.table = self.table.cuda(device)
                return super().cuda(device)

    ## After
        import torch
        import torch_mlu  # noqa: F401
        from torch import nn

        class Net(nn.Module):
            def mlu(self, device=None):
                self.table = self.table.mlu(device)
                return super().mlu(device)

    ## Left alone
    Classes that have an `mlu` already, and functions called cuda outside classes.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:69: only Tensor, Module, storage and PackedSequence get the method.
    """

    code = "MLU204"
    name = "own-cuda-method"
    severity = Severity.WARNING
    safety = Safety.SAFE
    topics = ("devices",)
    needs = (b"cuda",)

    def visit_ClassDef(self, node: ast.ClassDef, unit: Unit) -> Iterator[Finding]:
        """Methods and properties in the class body."""
        own = {n.name: n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
        present = set(own) | {
            t.id for n in node.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
        }
        for old, new in _FLAGS.items():
            method = own.get(old)
            if method is None or new in present:
                continue
            span = _name_span(unit, method)
            if span is None:
                continue
            if receivers.is_module_class(unit, node) and old == "cuda":
                yield self.found(unit, span, "override", Edit(*span, new.encode()), owner=node.name)
            elif unit.facts.unknown_cuda_calls or old == "is_cuda":
                yield self.found(unit, span, "alias", _alias(unit, method, old, new), owner=node.name, old=old, new=new)
            else:
                yield self.found(unit, span, "own", safety=Safety.MANUAL, owner=node.name, old=old)


def _name_span(unit: Unit, method: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int] | None:
    """Span of the name in `def name(`."""
    start = unit.start(method)
    at = unit.data.find(method.name.encode(), start + 3)
    return (at, at + len(method.name)) if at >= 0 else None


def _alias(unit: Unit, method: ast.FunctionDef | ast.AsyncFunctionDef, old: str, new: str) -> Edit:
    """`mlu = cuda` on a line of its own behind the method."""
    source = unit.source
    last = method.end_lineno or method.lineno
    indent = source.data[source.starts[method.lineno - 1] : unit.start(method)]
    tail = source.data[unit.end(method) : source.starts[last] if last < len(source.starts) else len(source.data)]
    text = indent + f"{new} = {old}".encode()
    if last < len(source.starts) and not tail.lstrip().startswith(b";"):
        at = source.starts[last]
        return Edit(at, at, source.newline + text + source.newline)
    at = len(source.data)
    return Edit(at, at, source.newline + source.newline + text)
