"""
What made an object: the canonical callee behind a receiver, followed through names, attributes, loops and containers.

`Names` says what a name *is*; this module says what a value *came from*: `s = torch.cuda.Stream()` makes `s` a value of
"torch.cuda.Stream". Calls of a method on something unnamed give ".method".
"""

from __future__ import annotations

import ast
from typing import TypeVar

from mlu_migrate.names import last_word
from mlu_migrate.scopes import Binding
from mlu_migrate.unit import Unit

_DEPTH = 6
_MANY = 8  # bindings of one name: beyond this it is a work variable, and following it costs more than it tells
_T = TypeVar("_T")
_SAME_ELEMENTS = frozenset(("sorted", "reversed", "list", "tuple", "filter", "iter", "set"))
_KEYED = frozenset(("sorted", "max", "min", "filter", "map", "sort"))


def makers(unit: Unit, node: ast.AST | None, depth: int = 0) -> frozenset[str]:
    """
    Canonical names of the calls (or annotated classes) a value may come from; empty where nothing is known.

    An element of what a call returns is "each:" and the call's name.
    """
    if node is None or depth > _DEPTH:
        return frozenset()
    if isinstance(node, ast.Call):
        return _called(unit, node)
    if isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        out: frozenset[str] = frozenset()
        for binding in _few(owner.bindings.get(node.id, []) if owner else []):
            out |= _bound(unit, binding, depth)
        return out
    if isinstance(node, ast.Attribute):
        out = frozenset()
        for store in _few([a for a in unit.index.attributes.get(node.attr, ()) if isinstance(a.ctx, ast.Store)]):
            out |= _stored(unit, store, depth)
        return out
    if isinstance(node, ast.IfExp):
        return makers(unit, node.body, depth + 1) | makers(unit, node.orelse, depth + 1)
    if isinstance(node, ast.BoolOp):
        return frozenset().union(*(makers(unit, v, depth + 1) for v in node.values))
    if isinstance(node, (ast.NamedExpr, ast.Await)):
        return makers(unit, node.value, depth + 1)
    if isinstance(node, ast.Subscript):
        return elements(unit, node.value, depth + 1)
    return frozenset()


def elements(unit: Unit, node: ast.AST | None, depth: int = 0) -> frozenset[str]:
    """What the elements of a container, iterator or call result come from."""
    if node is None or depth > _DEPTH:
        return frozenset()
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return frozenset().union(*(makers(unit, e, depth + 1) for e in node.elts))
    if isinstance(node, ast.Dict):
        return frozenset().union(*(makers(unit, v, depth + 1) for v in node.values))
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return makers(unit, node.elt, depth + 1)
    if isinstance(node, ast.DictComp):
        return makers(unit, node.value, depth + 1)
    if isinstance(node, ast.BinOp):
        return elements(unit, node.left, depth + 1) | elements(unit, node.right, depth + 1)
    if isinstance(node, ast.Subscript):
        return elements(unit, node.value, depth + 1)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _SAME_ELEMENTS and node.args:
            return elements(unit, node.args[-1], depth + 1)
        return frozenset(f"each:{name}" for name in _called(unit, node))
    if isinstance(node, ast.Attribute):
        out = frozenset((f"each:.{node.attr}",))
        for store in _few([a for a in unit.index.attributes.get(node.attr, ()) if isinstance(a.ctx, ast.Store)]):
            parent = unit.parent(store)
            if isinstance(parent, (ast.Assign, ast.AnnAssign)):
                out |= elements(unit, parent.value, depth + 1)
        return out
    if isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        out = frozenset()
        for binding in _few(owner.bindings.get(node.id, []) if owner else []):
            if binding.kind == "assign":
                out |= elements(unit, binding.value, depth + 1)
        return out
    return frozenset()


def stored_here(unit: Unit, attr: str) -> bool:
    """Whether the file itself gives some object an attribute of that name, or defines one in a class."""
    if any(isinstance(a.ctx, ast.Store) for a in unit.index.attributes.get(attr, ())):
        return True
    return any(scope.is_class and attr in scope.bindings for scope in unit.index.scopes.values())


def _few(found: list[_T]) -> list[_T]:
    return found if len(found) <= _MANY else []


def _called(unit: Unit, node: ast.Call) -> frozenset[str]:
    name = unit.name(node.func)
    if name is not None:
        return frozenset((name,))
    return frozenset((f".{node.func.attr}",)) if isinstance(node.func, ast.Attribute) else frozenset()


def _bound(unit: Unit, binding: Binding, depth: int) -> frozenset[str]:
    if binding.kind in ("assign", "with"):
        return makers(unit, binding.value, depth + 1)
    if binding.kind == "loop":
        if binding.value is not None:
            return elements(unit, binding.value, depth + 1)
        walked = getattr(binding.node, "iter", None)
        if isinstance(walked, ast.Call) and isinstance(walked.func, ast.Name) and walked.func.id == "enumerate":
            return elements(unit, walked.args[0], depth + 1) if walked.args else frozenset()
    if binding.kind in ("param", "declare"):
        annotation = getattr(binding.node, "annotation", None)
        return _annotated(unit, annotation) | (
            _key_argument(unit, binding.node, depth) if annotation is None else frozenset()
        )
    return frozenset()


def _stored(unit: Unit, store: ast.Attribute, depth: int) -> frozenset[str]:
    parent = unit.parent(store)
    if isinstance(parent, ast.AnnAssign):
        return _annotated(unit, parent.annotation) | makers(unit, parent.value, depth + 1)
    if isinstance(parent, ast.Assign):
        return makers(unit, parent.value, depth + 1)
    return frozenset()


def _annotated(unit: Unit, annotation: ast.expr | None) -> frozenset[str]:
    """Classes named in an annotation, also inside Optional and unions."""
    if annotation is None:
        return frozenset()
    whole = [n for n in ast.walk(annotation) if isinstance(n, (ast.Name, ast.Attribute))]
    names = {unit.name(n) for n in whole if not isinstance(unit.parent(n), ast.Attribute)}
    return frozenset(n for n in names if n is not None and "." in n)


def _key_argument(unit: Unit, arg: ast.AST, depth: int) -> frozenset[str]:
    """`sorted(events, key=lambda e: ...)`: the parameter is an element of the first argument."""
    function = next((a for a in unit.ancestors(arg) if isinstance(a, ast.Lambda)), None)
    outer = unit.parent(function) if function is not None else None
    call = unit.parent(outer) if isinstance(outer, ast.keyword) else outer
    if not isinstance(call, ast.Call):
        return frozenset()
    leaf = last_word(call.func)
    if leaf not in _KEYED:
        return frozenset()
    if leaf == "sort" and isinstance(call.func, ast.Attribute):
        return elements(unit, call.func.value, depth + 1)
    given = [a for a in call.args if a is not function]
    return elements(unit, given[0], depth + 1) if given else frozenset()
