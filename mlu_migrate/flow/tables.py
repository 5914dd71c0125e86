"""Strings in dictionaries: dispatch tables, settings, keyword arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlu_migrate.flow import reading, rows, slots
from mlu_migrate.flow.uses import NOTHING, Proof, Shape, Use, leaf_of, parts_of
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import is_text

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def in_dict(flow: Flow, node: ast.Dict, child: ast.AST, kind: Kind, depth: int) -> Use:
    for key, value in zip(node.keys, node.values):
        if value is child and key is not None:
            known = slots.under_key(flow, key.value, kind, depth) if is_text(key) else NOTHING  # type: ignore[attr-defined]
            if known.proof:
                return known
            if getattr(flow.unit.parent(node), "arg", None) in _FILES:
                return Use(Proof.OTHER, "path", Shape.KEEP)
            mapped = in_device_map(flow, node, kind)
            return mapped if mapped.proof else looked_up(flow, node, child, kind, depth)
    return table(flow, node, kind, depth)


def looked_up(flow: Flow, node: ast.Dict, child: ast.AST, kind: Kind, depth: int) -> Use:
    """`{True: "nccl", False: "gloo"}[flag]`: a choice written as a table goes where the look-up goes."""
    parent = flow.unit.parent(node)
    call = flow.unit.parent(parent) if isinstance(parent, ast.Attribute) and parent.attr in _TAKEN else None
    read = parent if isinstance(parent, ast.Subscript) and parent.value is node else call
    if not isinstance(read, (ast.Subscript, ast.Call)):
        return NOTHING
    uses = list(rows.by_siblings(flow, [v for v in node.values if v is not child], kind))
    walked = flow.unit.parent(read)
    if isinstance(walked, (ast.For, ast.AsyncFor, ast.comprehension)) and walked.iter is read:
        into = walked.target
        if isinstance(into, ast.Tuple) and len(into.elts) == 2 and parent.attr == "items":  # type: ignore[union-attr]
            return flow.best([*uses, *(slots.of_target(flow, p, kind, depth) for p in parts_of(into.elts[1]))])
    return flow.best([*uses, *flow.uses(read, kind, depth + 1)])


def in_device_map(flow: Flow, node: ast.Dict | ast.DictComp, kind: Kind) -> Use:
    """`device_map={"": "cuda:0"}`: the values of a mapping whose own name says device."""
    parent = flow.unit.parent(node)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else getattr(parent, "target", None)
    name = parent.arg if isinstance(parent, ast.keyword) else leaf_of(target) if target is not None else None
    if name and name.lower().endswith("device_map") and kind.name == "device":
        return Use(Proof.NAMED, f"{name}")
    return NOTHING


def table(flow: Flow, node: ast.Dict, kind: Kind, depth: int = 0) -> Use:
    """Whether a dict literal is a dispatch table over devices, decided by how it is indexed, else by its keys."""
    parent = flow.unit.parent(node)
    reads: list[ast.expr] = []
    if isinstance(parent, ast.Subscript) and parent.value is node:
        reads.append(parent.slice)
    elif isinstance(parent, ast.Attribute) and isinstance(flow.unit.parent(parent), ast.Call):
        call = flow.unit.parent(parent)
        if parent.attr == "get" and call.args:  # type: ignore[union-attr]
            reads.append(call.args[0])  # type: ignore[union-attr]
    elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        for target in targets:
            for load in slots.loads_of(flow, target):
                outer = flow.unit.parent(load)
                if isinstance(outer, ast.Subscript) and outer.value is load:
                    reads.append(outer.slice)
                elif isinstance(outer, ast.Attribute) and outer.attr == "get":
                    call = flow.unit.parent(outer)
                    if isinstance(call, ast.Call) and call.args:
                        reads.append(call.args[0])
                elif isinstance(outer, ast.Compare) and load in outer.comparators:
                    reads.append(outer.left)
    best = flow.best([reading.holds(flow, r, kind, depth + 1) for r in reads])
    if best.proof >= Proof.NAMED:
        return Use(best.proof, best.why, Shape.KEY, node)
    keys = {k.value for k in node.keys if isinstance(k, ast.Constant)}
    if len(keys & (kind.siblings | {"cuda"})) >= 2 and any(
        (flow.unit.name(v) or "").startswith("torch.cuda") for v in node.values if isinstance(v, ast.Attribute)
    ):
        return Use(Proof.NAMED, "table of devices", Shape.KEY, node)
    return Use(Proof.OTHER, "key", Shape.KEEP)


_FILES = frozenset(("package_data", "exclude_package_data", "package_dir", "data_files"))


_TAKEN = frozenset(("get", "items", "values", "pop"))
