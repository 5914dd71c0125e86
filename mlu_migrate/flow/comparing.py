"""Strings that are compared, looked for, matched or used as an index or a type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlu_migrate.flow import calls, reading, rows, slots
from mlu_migrate.flow.uses import GUARDS, LABEL, NOTHING, Proof, Shape, Use, leaf_of
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import is_text

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def compared(flow: Flow, node: ast.Compare, child: ast.AST, kind: Kind, depth: int) -> Use:
    sides = [node.left, *node.comparators]
    at = next((i for i, s in enumerate(sides) if s is child), 0)
    if len(sides) != 2:
        others = [s for i, s in enumerate(sides) if abs(i - at) == 1]
        return flow.best([reading.holds(flow, o, kind, depth + 1) for o in others])
    other, op = sides[1 - at], node.ops[0]
    if isinstance(op, (ast.In, ast.NotIn)):
        if at == 0:  # "cuda" in x
            held = reading.holds(flow, other, kind, depth + 1)
            if isinstance(other, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
                return Use(Proof.OTHER, "membership", Shape.KEEP)
            return Use(Proof.OTHER, "key", Shape.KEEP) if is_mapping(flow, other) else held
        return NOTHING
    if _asks_for_nvidia(flow, node):
        return Use(Proof.OTHER, "asks for NVIDIA", Shape.KEEP)
    held = reading.holds(flow, other, kind, depth + 1)
    if held.proof < Proof.NAMED and held.why != LABEL and guards_cuda(flow, node):
        return Use(Proof.SINK, GUARDS, node=node)
    return held


def _asks_for_nvidia(flow: Flow, node: ast.Compare) -> bool:
    """`is_nvidia = platform == "cuda"`: an MLU is none, whatever follows from that."""
    outer = flow.unit.parent(node)
    while isinstance(outer, ast.BoolOp):
        outer = flow.unit.parent(outer)
    targets = (
        outer.targets if isinstance(outer, ast.Assign) else [outer.target] if isinstance(outer, ast.AnnAssign) else []
    )
    return any("nvidia" in (leaf_of(t) or "").lower().split("_") for t in targets)


def is_mapping(flow: Flow, node: ast.expr) -> bool:
    """Whether a name stands for a mapping: it is read by text keys, or asked for its items."""
    for load in slots.loads_of(flow, node) if isinstance(node, (ast.Name, ast.Attribute)) else ():
        outer = flow.unit.parent(load)
        if isinstance(outer, ast.Subscript) and outer.value is load and is_text(outer.slice):
            return True
        if isinstance(outer, ast.Attribute) and outer.attr in ("items", "keys", "values", "get", "pop", "update"):
            return True
    return False


def guards_cuda(flow: Flow, node: ast.Compare) -> bool:
    """`torch.cuda if kind == "cuda" else torch.xpu`: the test decides about CUDA calls."""
    outer = flow.unit.parent(node)
    while isinstance(outer, ast.BoolOp):
        outer = flow.unit.parent(outer)
    body = [outer.body] if isinstance(outer, ast.IfExp) else outer.body if isinstance(outer, ast.If) else []
    if isinstance(outer, (ast.IfExp, ast.If)) and isinstance(node.ops[0], ast.Eq):
        for statement in body:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Attribute) and (flow.unit.name(inner) or "").startswith("torch.cuda"):
                    return True
    return False


def membership(flow: Flow, node: ast.Compare, kind: Kind, depth: int) -> Use:
    held = reading.holds(flow, node.left, kind, depth + 1)
    return Use(held.proof, held.why, Shape.MEMBER, node) if held.proof else held


def members_of(flow: Flow, node: ast.Assign | ast.AnnAssign, kind: Kind, depth: int) -> Iterator[Use]:
    """`DEVICES = ["cpu", "cuda"]` that is only asked `x in DEVICES`: it gains a member."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        loads = slots.loads_of(flow, target)
        tests = [flow.unit.parent(load) for load in loads]
        asked = [
            t
            for t, load in zip(tests, loads)
            if isinstance(t, ast.Compare) and load in t.comparators and isinstance(t.ops[0], (ast.In, ast.NotIn))
        ]
        if asked and len(asked) == len(loads):
            for test in asked:
                yield membership(flow, test, kind, depth)


def as_case(flow: Flow, node: ast.MatchValue, kind: Kind, depth: int) -> Use:
    for outer in flow.unit.ancestors(node):
        if isinstance(outer, ast.Match):
            held = reading.holds(flow, outer.subject, kind, depth + 1)
            return Use(held.proof, held.why, Shape.CASE, node) if held.proof else held
    return NOTHING


def as_index(flow: Flow, node: ast.Subscript, child: ast.AST, kind: Kind, depth: int) -> Use:
    """`table["cuda"]`, `Literal["cpu", "cuda"]`."""
    if leaf_of(node.value) == "Literal":
        return literal_type(flow, node, kind, depth)
    return Use(Proof.OTHER, "key", Shape.KEEP)


def literal_type(flow: Flow, node: ast.Subscript, kind: Kind, depth: int) -> Use:
    """The variable, parameter or field that the Literal annotates."""
    inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    uses = [*rows.by_siblings(flow, list(inside), kind), *calls.strangers(list(inside), kind)]
    for outer in flow.unit.ancestors(node):
        if isinstance(outer, ast.AnnAssign):
            uses.append(slots.of_target(flow, outer.target, kind, depth))
            break
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for arg in (*outer.args.posonlyargs, *outer.args.args, *outer.args.kwonlyargs):
                if arg.annotation is not None and any(n is node for n in ast.walk(arg.annotation)):
                    uses.append(slots.of_slot(flow, ("v", flow.unit.index.scopes[outer], arg.arg), kind, depth))
            break
        if isinstance(outer, ast.Assign):
            uses.extend(slots.of_target(flow, t, kind, depth) for t in outer.targets)
            break
    return flow.best(uses)
