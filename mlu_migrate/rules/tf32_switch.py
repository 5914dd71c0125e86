"""MLU402: the switches of cuDNN and of TF32."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlu_migrate import sieve
from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rename import chain
from mlu_migrate.rule import Rule
from mlu_migrate.scopes import Scope
from mlu_migrate.unit import Unit, is_text
from mlu_migrate.vendors import is_kept

_CUDNN = "torch.backends.cudnn"
_IGNORED = ("benchmark", "deterministic", "enabled", "benchmark_limit")
_ASKED = ("version", "is_available", "is_acceptable")

_DETERMINISTIC = "torch.use_deterministic_algorithms"


class Tf32Switch(Rule):
    """
    Switches of `torch.backends.cudnn` and of TF32.

    ## What it changes
    `torch.backends.cudnn.allow_tf32` becomes `torch.backends.cnnl.allow_tf32`, also through an alias of the module,
    because `torch.backends.cnnl` is an attribute and cannot be imported. The other flags are told once a file.

    ## Before
        import torch
        import torch.backends.cudnn as cudnn

        cudnn.benchmark = True
        cudnn.allow_tf32 = False

    ## After
        import torch
        import torch_mlu  # noqa: F401
        import torch.backends.cudnn as cudnn

        cudnn.benchmark = True
        torch.backends.cnnl.allow_tf32 = False

    ## Left alone
    `benchmark`, `deterministic` and `enabled`: without CUDA they do nothing, and on `torch.backends.cnnl` they would be
    dead attributes. The import and the local name of cudnn.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/backends/cnnl/__init__.py:33-39 and torch_mlu/csrc/utils/common.cpp:71-81.
    """

    code = "MLU402"
    name = "tf32-switch"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("precision",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """The flags that do nothing on an MLU, told once a file at the first of them."""
        if b"cudnn" not in unit.data:
            return
        found: dict[str, ast.expr] = {}
        for call in unit.index.nodes[ast.Call]:  # setattr(torch.backends.cudnn, "benchmark", True)
            if len(call.args) > 1 and unit.callee(call) in ("setattr", "getattr", "hasattr"):
                named = call.args[1]
                if is_text(named, *_IGNORED) and unit.name(call.args[0]) == _CUDNN and not is_kept(unit, call):
                    found.setdefault(named.value, call)
        for leaf in _IGNORED:
            for node in unit.index.attributes.get(leaf, ()):
                if unit.name(node) == f"{_CUDNN}.{leaf}" and not is_kept(unit, node):
                    found.setdefault(leaf, node)
        if not found:
            return
        first = min(found.values(), key=unit.start)
        asked = any(
            unit.callee(unit.parent(a) or a) == _DETERMINISTIC
            for a in unit.index.attributes.get("use_deterministic_algorithms", ())
        )
        message = "ignored_deterministic" if "deterministic" in found and not asked else "ignored"
        yield self.found(unit, first, message, flags=", ".join(found))

    @sieve.attributes(roots=(f"{_CUDNN}.",))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Whole chains only."""
        if node.attr in _IGNORED or isinstance(unit.parent(node), ast.Attribute) and node.attr != "rnn":
            return
        name = unit.name(node)
        if name is None or not name.startswith(_CUDNN + ".") or is_kept(unit, node):
            return
        leaf = name[len(_CUDNN) + 1 :]
        if leaf == "allow_tf32":
            yield self._allow_tf32(node, unit)
        elif leaf in ("flags", "set_flags"):
            yield self.found(unit, node, "flags", severity=Severity.WARNING, cuda=name)
        elif leaf in _ASKED:
            yield self.found(unit, node, "asked", severity=Severity.WARNING, cuda=name)
        else:
            yield self.found(unit, node, "no_effect", severity=Severity.WARNING, cuda=name)

    @sieve.calls(("torch.set_float32_matmul_precision",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`torch.set_float32_matmul_precision("high")` turns TF32 on for matrix products."""
        if node.args:
            level = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if level != "highest":
                yield self.found(unit, node.func, "matmul_precision", level=str(level or "?"))

    def _allow_tf32(self, node: ast.Attribute, unit: Unit) -> Finding:
        links = chain(node)
        for link in links[1:]:
            if isinstance(link, ast.Attribute) and unit.name(link) == _CUDNN:
                return self.found(unit, node, "replaced", unit.rename_attr(link, "cnnl"))
        torch = _name_of_torch(unit, node)
        start, end = unit.start(links[0]), unit.attr_span(node)[0]
        if torch is None or b"#" in unit.data[start:end]:
            return self.found(unit, node, "by_hand", severity=Severity.WARNING)
        text = f"{torch}.backends.cnnl"
        return self.found(unit, node, "replaced", Edit(start, unit.end(links[0]), text.encode()))


def _name_of_torch(unit: Unit, node: ast.AST) -> str | None:
    """The local name that means torch where a node is evaluated, None if torch is not imported by itself there."""
    scope: Scope | None = unit.scope(node)
    while scope is not None:
        for name, bindings in scope.bindings.items():
            if all(b.kind == "import" and unit.names.meaning(b) == {"torch"} for b in bindings):
                if unit.index.owner(unit.scope(node), name) is scope:
                    return name
        scope = scope.parent
    return None
