"""What is known of a slot (variable, parameter, attribute, key, return value) from all its uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlu_migrate import sinks
from mlu_migrate.flow import calls, reading, rows
from mlu_migrate.flow.uses import DEPTH, NOTHING, Proof, Shape, Slot, Use, leaf_of
from mlu_migrate.scopes import Binding, Scope
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import is_text

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def loads_of(flow: Flow, target: ast.AST) -> list[ast.expr]:
    if isinstance(target, ast.Name):
        owner = flow.unit.index.owner(flow.unit.scope(target), target.id)
        return list(flow.unit.index.loads.get((owner, target.id), ())) if owner else []
    if isinstance(target, ast.Attribute):
        return [a for a in flow.unit.index.attributes[target.attr] if isinstance(a.ctx, ast.Load)]
    return []


def slot_of(flow: Flow, node: ast.Name) -> Slot:
    scope = flow.unit.scope(node)
    return ("v", flow.unit.index.owner(scope, node.id) or scope, node.id)


def of_target(flow: Flow, node: ast.AST, kind: Kind, depth: int) -> Use:
    if isinstance(node, ast.Name):
        return of_slot(flow, slot_of(flow, node), kind, depth)
    if isinstance(node, ast.Attribute):
        return of_slot(flow, ("a", node.attr), kind, depth)
    if isinstance(node, ast.Subscript) and is_text(node.slice):
        known = under_key(flow, node.slice.value, kind, depth)  # type: ignore[attr-defined]
        if not known.proof and flow.unit.name(node.value) == "os.environ":
            return Use(Proof.OTHER, "environment", Shape.KEEP)
        return known
    return NOTHING


def under_key(flow: Flow, key: str, kind: Kind, depth: int) -> Use:
    """A dict or config key: by its name, and by where an attribute or variable of the same name goes."""
    if sinks.says(kind, key):
        return Use(Proof.NAMED, f'key "{key}"')
    if kind.name == "device" and key in flow.unit.facts.device_names and not sinks.says_other(kind, key):
        return Use(Proof.NAMED, f'key "{key}"')
    if sinks.says_other(kind, key):
        return Use(Proof.OTHER, f'key "{key}"', Shape.KEEP)
    return NOTHING


def of_slot(flow: Flow, slot: Slot, kind: Kind, depth: int) -> Use:
    key = (kind.name, slot)
    known = flow.slots.get(key)
    if known is not None:
        return known
    if key in flow.busy or depth > DEPTH:
        return NOTHING
    passed = flow.passed.get(key)
    if passed is not None and passed[0] <= depth:
        return passed[1]
    flow.busy.add(key)
    try:
        use = flow.best(list(evidence_for(flow, slot, kind, depth + 1)))
    finally:
        flow.busy.discard(key)
    if flow.busy:
        flow.passed[key] = (depth, use)
    else:
        flow.slots[key] = use
        flow.passed.clear()
    return use


def evidence_for(flow: Flow, slot: Slot, kind: Kind, depth: int) -> Iterator[Use]:
    name = str(slot[-1])
    bindings: list[Binding] = []
    loads: list[ast.AST]
    if slot[0] == "v":
        scope: Scope = slot[1]  # type: ignore[assignment]
        loads = list(flow.unit.index.loads.get((scope, name), ()))
        bindings = scope.bindings.get(name, [])
        if scope.is_class and _is_enum(scope.node):
            owner = scope.node.name  # type: ignore[attr-defined]
            if sinks.says(kind, owner):
                yield Use(Proof.NAMED, f"member of {owner}")
            elif sinks.says_other(kind, owner):
                yield Use(Proof.OTHER, f"member of {owner}", Shape.KEEP)
        if scope.is_class:  # a class field is read as an attribute
            loads += [a for a in flow.unit.index.attributes.get(name, ()) if isinstance(a.ctx, ast.Load)]
    else:
        loads = [a for a in flow.unit.index.attributes.get(name, ()) if isinstance(a.ctx, ast.Load)]
        for function in flow.functions.get(name, ()):  # `@target.setter`
            given = function.args.args[1:2]  # type: ignore[attr-defined]
            if given and any(getattr(d, "attr", "") == "setter" for d in function.decorator_list):  # type: ignore[attr-defined]
                yield of_slot(flow, ("v", flow.unit.index.scopes[function], given[0].arg), kind, depth)
    abroad = calls.only_abroad(flow, loads) if slot[0] == "v" else None
    if abroad:
        yield Use(Proof.OTHER, abroad, Shape.KEEP)
    elif sinks.says(kind, name) and name not in sinks._TOO_SHORT:
        yield Use(Proof.NAMED, f"named {name}")
    elif sinks.says(kind, name):
        yield Use(Proof.SIBLING, f"named {name}")
    elif sinks.says_other(kind, name):
        yield Use(Proof.OTHER, f"named {name}", Shape.KEEP)
    for load in loads:
        test = flow.unit.parent(load)
        if (
            isinstance(test, ast.Compare)
            and len(test.comparators) == 1
            and isinstance(test.ops[0], (ast.Eq, ast.NotEq))
        ):
            yield from rows.by_siblings(flow, [test.left, *test.comparators], kind)  # `if kind == "cpu"` elsewhere
        for use in flow.uses(load, kind, depth):
            # The shape belongs to the place of use, not to the literal that flows there.
            yield Use(use.proof, use.why, Shape.REPLACE if use.shape is not Shape.KEEP else use.shape)
    for binding in bindings:
        if binding.kind == "assign" and binding.value is not None:
            yield from rows.by_siblings(flow, [binding.value], kind)
            if isinstance(binding.value, (ast.Call, ast.Attribute, ast.BoolOp, ast.IfExp, ast.Subscript, ast.Name)):
                held = reading.holds(flow, binding.value, kind, depth)
                if held.proof >= Proof.NAMED:
                    yield held
        elif binding.kind == "loop" and isinstance(binding.value, (ast.Tuple, ast.List, ast.Set)):
            yield from rows.by_siblings(flow, list(binding.value.elts), kind)
        elif binding.kind == "param":
            yield from of_parameter(flow, binding, kind)
        annotation = getattr(binding.node, "annotation", None)
        if isinstance(annotation, ast.Subscript) and leaf_of(annotation.value) == "Literal":
            words = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
            yield from calls.strangers(list(words), kind)
    exported = not abroad and (
        slot[0] == "a" or (isinstance(slot[1], Scope) and (slot[1].parent is None or slot[1].is_class))
    )
    if kind.name == "device" and exported and name in flow.unit.facts.device_names and not sinks.says_other(kind, name):
        yield Use(Proof.NAMED, f"{name} reaches a device in another file")


def of_parameter(flow: Flow, binding: Binding, kind: Kind) -> Iterator[Use]:
    function = next((a for a in flow.unit.ancestors(binding.node) if isinstance(a, ast.FunctionDef)), None)
    if (
        kind.name == "device"
        and function is not None
        and function.name in sinks.DEVICE_METHODS
        and isinstance(flow.unit.parent(function), ast.ClassDef)
        and function.args.args[1:2] == [binding.node]
    ):
        yield Use(Proof.SINK, f".{function.name}")  # `def to(self, target)`
    annotation = getattr(binding.node, "annotation", None)
    if annotation is not None and kind.name == "device":
        for node in ast.walk(annotation):
            if isinstance(node, (ast.Attribute, ast.Name)) and flow.unit.name(node) == "torch.device":
                yield Use(Proof.SINK, "annotated torch.device")


def of_return(flow: Flow, node: ast.Return | ast.Yield, kind: Kind, depth: int) -> Use:
    """A function that returns device strings: its name, then where its calls go."""
    function = next(
        (a for a in flow.unit.ancestors(node) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), None
    )
    if function is None:
        return NOTHING
    uses: list[Use] = []
    if sinks.says(kind, function.name):
        uses.append(Use(Proof.NAMED, f"returned by {function.name}"))
    elif sinks.says_other(kind, function.name):
        uses.append(Use(Proof.OTHER, f"returned by {function.name}", Shape.KEEP))
    key = (kind.name, ("r", function))
    if key not in flow.busy and depth < DEPTH:
        flow.busy.add(key)
        try:
            scope = flow.unit.index.scope_of[function]
            loads: list[ast.AST] = list(flow.unit.index.loads.get((scope, function.name), ()))
            loads += [a for a in flow.unit.index.attributes.get(function.name, ()) if isinstance(a.ctx, ast.Load)]
            for load in loads:
                call = flow.unit.parent(load)
                if isinstance(call, ast.Call) and call.func is load:
                    uses.extend(flow.uses(call, kind, depth + 1))
                elif _is_property(function):
                    uses.extend(flow.uses(load, kind, depth + 1))
        finally:
            flow.busy.discard(key)
    for other in ast.walk(function):
        if isinstance(other, ast.Return) and other is not node and other.value is not None:
            uses.extend(rows.by_siblings(flow, [other.value], kind))
    return flow.best([Use(u.proof, u.why, Shape.REPLACE if u.shape is not Shape.KEEP else u.shape) for u in uses])


def _is_enum(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any((leaf_of(b) or "").endswith("Enum") for b in node.bases)


def _is_property(node: ast.AST) -> bool:
    return any(leaf_of(d) in ("property", "cached_property") for d in getattr(node, "decorator_list", ()))
