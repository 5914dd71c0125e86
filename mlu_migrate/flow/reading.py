"""Whether an expression that is read holds a device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlu_migrate import sinks
from mlu_migrate.flow import slots, targets
from mlu_migrate.flow.uses import DEPTH, NOTHING, Proof, Use, leaf_of
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import is_text

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def holds(flow: Flow, node: ast.AST, kind: Kind, depth: int) -> Use:
    if depth > DEPTH:
        return NOTHING
    if isinstance(node, ast.Name):
        return slots.of_slot(flow, slots.slot_of(flow, node), kind, depth)
    if isinstance(node, ast.NamedExpr):
        bound = slots.of_slot(flow, slots.slot_of(flow, node.target), kind, depth)
        return bound if bound.proof else holds(flow, node.value, kind, depth + 1)
    if isinstance(node, ast.Attribute):
        if kind.name == "device":
            if node.attr == "device":
                return Use(Proof.SINK, ".device")
            if node.attr == "type":
                return holds_type(flow, node.value, kind, depth)
        return slots.of_slot(flow, ("a", node.attr), kind, depth)
    if isinstance(node, ast.Subscript):
        if is_text(node.slice):
            return slots.under_key(flow, node.slice.value, kind, depth)  # type: ignore[attr-defined]
        return holds(flow, node.value, kind, depth + 1)
    if isinstance(node, ast.IfExp):
        return flow.best([holds(flow, node.body, kind, depth + 1), holds(flow, node.orelse, kind, depth + 1)])
    if isinstance(node, ast.BoolOp):
        return flow.best([holds(flow, v, kind, depth + 1) for v in node.values])
    if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
        return flow.best([holds(flow, e, kind, depth + 1) for e in node.elts])
    if isinstance(node, ast.JoinedStr):
        return flow.best(
            [holds(flow, v.value, kind, depth + 1) for v in node.values if isinstance(v, ast.FormattedValue)]
        )
    if isinstance(node, ast.Call):
        return call_holds(flow, node, kind, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and is_text(node.left, "%s", "%r"):
        return holds(flow, node.right, kind, depth + 1)  # "%s" % x.device
    return NOTHING


def call_holds(flow: Flow, node: ast.Call, kind: Kind, depth: int) -> Use:
    name, leaf = flow.unit.callee(node), leaf_of(node.func)
    if kind.name == "backend":
        if name in sinks.BACKEND_READERS or leaf in (
            "get_backend",
            "_get_default_backend",
            "communication_backend_name",
        ):
            return Use(Proof.SINK, leaf or "")
    elif name == "torch.device" or leaf == "get_device":
        return Use(Proof.SINK, leaf or "")
    elif leaf == "type" and isinstance(node.func, ast.Attribute) and not node.args:
        return Use(Proof.SINK, ".type()")  # "torch.cuda.FloatTensor"
    if leaf in (
        "str",
        "repr",
        "lower",
        "upper",
        "strip",
        "split",
        "partition",
        "rsplit",
        "replace",
        "getattr",
        "get",
        "pop",
        "__str__",
        "__repr__",
        "casefold",
        "rpartition",
        "format",
    ):
        if leaf == "format" and isinstance(node.func, ast.Attribute):
            only = is_text(node.func.value, "{}", "{0}") and len(node.args) == 1
            return holds(flow, node.args[0], kind, depth + 1) if only else NOTHING
        if leaf in ("getattr",) and len(node.args) >= 2 and is_text(node.args[1]):
            return slots.under_key(flow, node.args[1].value, kind, depth)  # type: ignore[attr-defined]
        if leaf in ("get", "pop"):
            key = node.args[0] if node.args else None
            return slots.under_key(flow, key.value, kind, depth) if is_text(key) else NOTHING  # type: ignore[union-attr]
        inner = node.func.value if isinstance(node.func, ast.Attribute) else (node.args[0] if node.args else None)
        return holds(flow, inner, kind, depth + 1) if inner is not None else NOTHING
    if leaf and sinks.says(kind, leaf):
        return Use(Proof.NAMED, f"{leaf}()")
    return returned(flow, node, kind, depth)


def returned(flow: Flow, node: ast.Call, kind: Kind, depth: int) -> Use:
    """What a function of this file gives back, whatever its name: `pick().startswith("cuda")`."""
    found: list[Use] = []
    for function, _ in targets.targets_of(flow, node):
        key = (kind.name, ("h", function))
        if key in flow.busy or depth >= DEPTH:
            continue
        flow.busy.add(key)
        try:
            for inner in ast.walk(function):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    found.append(holds(flow, inner.value, kind, depth + 1))
                    if found[-1].proof < Proof.NAMED:
                        found += flow.uses(inner.value, kind, depth + 1)
        finally:
            flow.busy.discard(key)
    best = flow.best(found)
    return Use(best.proof, best.why) if best.proof >= Proof.NAMED else NOTHING


def holds_type(flow: Flow, node: ast.expr, kind: Kind, depth: int) -> Use:
    """`d.type`: a device's type if d is a device, else the name has to say so."""
    held = holds(flow, node, kind, depth + 1)
    if held.proof >= Proof.NAMED:
        return Use(Proof.SINK, ".device.type")
    leaf = leaf_of(node)
    if leaf and (sinks.says(kind, leaf) or leaf in sinks._TOO_SHORT):
        return Use(Proof.SINK, ".type")
    return Use(Proof.SIBLING, ".type") if held.proof is not Proof.OTHER else held
