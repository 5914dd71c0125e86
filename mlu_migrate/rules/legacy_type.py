"""MLU206: names of legacy tensor types written as text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import sieve, sinks, typetexts
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rename import target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

_TYPE = re.compile(r"torch\.cuda\.(?:sparse\.)?[A-Z]\w*Tensor")
_PART = re.compile(r"torch\.cuda(?:\.(?:(?:%s|\{\w*\})(?:Tensor)?)?)?")
_DEFAULT = ("torch.set_default_tensor_type", "torch.tensortype")


class LegacyType(Rule):
    """
    Names of legacy tensor types written as text.

    ## What it changes
    "torch.cuda.FloatTensor" and its family where the text is given to `.type()`, compared with it, or held in a
    variable. A list that is asked `in` gains the MLU type and keeps the others.

    ## Before
        import torch

        if x.type() in ["torch.cuda.HalfTensor", "torch.HalfTensor"]:
            x = x.type("torch.cuda.FloatTensor")

    ## After
        import torch
        import torch_mlu  # noqa: F401

        if x.type() in ["torch.cuda.HalfTensor", "torch.mlu.HalfTensor", "torch.HalfTensor"]:
            x = x.type("torch.mlu.FloatTensor")

    ## Left alone
    Messages, keys of tables (told), and the sparse types, which an MLU does not have. The types as names
    (`torch.cuda.FloatTensor`) are MLU101's.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/csrc/python/PythonTensor.cpp:45-52, 305 (types of its own, which
    torch/csrc/tensor/python_tensor.cpp does not know); test/torch/test_set_default_type.py:41.
    """

    code = "MLU206"
    name = "legacy-type"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("devices",)

    @sieve.texts(lambda text: text.startswith("torch.cuda"))
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Whole type names, and the beginning of composed ones."""
        text = node.value
        if (
            not isinstance(text, str)
            or not text.startswith("torch.cuda")
            or isinstance(unit.parent(node), ast.JoinedStr)
        ):
            return
        if unit.is_docstring(node) or is_kept(unit, node):
            return
        if _TYPE.fullmatch(text):
            if node not in typetexts.texts(unit) and not _is_elsewhere(unit, node):
                yield from self._whole(node, text, unit)
        elif _PART.fullmatch(text) and _meets_type(unit, node):
            edits = unit.replace_in_string(node, "torch.cuda", "torch.mlu")
            if edits:
                yield self.found(unit, node, "replaced", edits, old=text, new=text.replace("cuda", "mlu"))

    def visit_JoinedStr(self, node: ast.JoinedStr, unit: Unit) -> Iterator[Finding]:
        """`x.type(f"torch.cuda.{kind}Tensor")`."""
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and str(first.value).startswith("torch.cuda.") and not is_kept(unit, node):
            edits = unit.replace_in_string(node, "torch.cuda", "torch.mlu") if _meets_type(unit, node) else None
            if edits:
                yield self.found(unit, node, "replaced", edits, old="torch.cuda.", new="torch.mlu.")

    @sieve.calls(_DEFAULT)
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`torch.set_default_tensor_type(torch.cuda.FloatTensor)`: the type is MLU101's, the advice stands here."""
        if node.args and not is_kept(unit, node):
            names = [unit.name(n) or "" for n in ast.walk(node.args[0]) if isinstance(n, (ast.Name, ast.Attribute))]
            if any(n.startswith(("torch.cuda.", "torch.mlu.")) and n.endswith("Tensor") for n in names):
                yield self.found(unit, node.func, "default", severity=Severity.ERROR)

    def _whole(self, node: ast.Constant, text: str, unit: Unit) -> Iterator[Finding]:
        found = target(text, unit.settings.torch_mlu)
        if found is None or found.mlu is None:
            yield self.found(unit, node, "none", severity=Severity.ERROR, old=text)
            return
        edits = unit.replace_in_string(node, text, found.mlu)
        if edits is None:
            yield self.found(unit, node, "by_hand", severity=Severity.WARNING, old=text, new=found.mlu)
            return
        kind = _kind(unit, node)
        if kind == "member" and any(
            isinstance(e, ast.Constant) and e.value == found.mlu for e in _siblings(unit, node)
        ):
            return  # the other kind of card has its member already
        if kind == "member":
            quotes = unit.data[unit.start(node) : unit.end(node)].replace(text.encode(), found.mlu.encode())
            end = unit.end(node)
            yield self.found(unit, node, "member", Edit(end, end, b", " + quotes), old=text, new=found.mlu)
        elif kind == "key":
            yield self.found(unit, node, "key", severity=Severity.WARNING, old=text, new=found.mlu)
        elif kind == "unknown":
            yield self.found(
                unit,
                node,
                "unknown",
                edits,
                safety=Safety.UNSAFE,
                severity=Severity.WARNING,
                confidence=Confidence.LOW,
                old=text,
                new=found.mlu,
            )
        elif kind == "default":
            yield self.found(unit, node, "default_text", edits, severity=Severity.ERROR, old=text, new=found.mlu)
        else:
            yield self.found(unit, node, "replaced", edits, old=text, new=found.mlu)


def _kind(unit: Unit, node: ast.Constant) -> str:
    """What the text is used as: value, member, key, default or unknown."""
    parent = unit.parent(node)
    if isinstance(parent, ast.Compare):
        if isinstance(parent.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            return "value"
        other = parent.comparators[0] if parent.left is node else parent.left
        return "value" if _asks_type(unit, other) else "unknown"
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        return _collection(unit, parent)
    if isinstance(parent, ast.Dict):
        return "key" if node in parent.keys else "value"
    if isinstance(parent, ast.Subscript):
        return "key"
    if isinstance(parent, ast.Call) and unit.callee(parent) in _DEFAULT:
        return "default"
    return "value"


def _siblings(unit: Unit, node: ast.AST) -> list[ast.expr]:
    return getattr(unit.parent(node), "elts", [])


def _collection(unit: Unit, node: ast.expr) -> str:
    parent = unit.parent(node)
    if isinstance(parent, ast.Compare):
        return "member"
    if isinstance(parent, (ast.For, ast.comprehension)):
        return "value"
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        target_name = parent.targets[0]
        owner = unit.index.owner(unit.scope(target_name), target_name.id)
        loads = unit.index.loads.get((owner, target_name.id), []) if owner else []
        outer = [unit.parent(load) for load in loads]
        if outer and all(isinstance(o, ast.Compare) and isinstance(o.ops[0], (ast.In, ast.NotIn)) for o in outer):
            return "member"
        if outer and all(isinstance(o, (ast.For, ast.comprehension)) for o in outer):
            return "value"
    return "unknown"


def _asks_type(unit: Unit, node: ast.AST) -> bool:
    """`x.type()`, also through `str(...)`."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "type":
            return not node.args
        return unit.name(node.func) == "str" and bool(node.args) and _asks_type(unit, node.args[0])
    return False


def _meets_type(unit: Unit, node: ast.AST) -> bool:
    """Whether a piece of a type name is given to `.type(...)` or compared with `x.type()`."""
    child: ast.AST = node
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.Call):
            if isinstance(outer.func, ast.Attribute):
                if outer.func.attr == "type" and child in outer.args:
                    return True
                if outer.func.attr in ("startswith", "endswith", "find", "split", "replace", "removeprefix"):
                    return child in outer.args[:1] and _asks_type(unit, outer.func.value)
                if outer.func.attr == "format" and child is outer.func:
                    child = outer
                    continue
            return False
        if isinstance(outer, ast.Compare):
            return any(_asks_type(unit, side) for side in (outer.left, *outer.comparators))
        if not isinstance(outer, (ast.BinOp, ast.IfExp, ast.Attribute)):
            return False
        child = outer
    return False


def _is_elsewhere(unit: Unit, node: ast.Constant) -> bool:
    """A message, or a place that another rule decides about (test doubles, dynamic access)."""
    parent = unit.parent(node)
    if not isinstance(parent, ast.Call):
        return isinstance(parent, (ast.Raise, ast.Assert, ast.BinOp, ast.FormattedValue))
    leaf = last_word(parent.func)
    return leaf in sinks.PROSE or leaf in ("patch", "setattr", "delattr", "multiple", "eval", "exec", "import_module")
