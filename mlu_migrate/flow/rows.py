"""Strings in lambdas, in rows of words and in conditional expressions: what stands beside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlu_migrate import sinks
from mlu_migrate.flow import calls, comparing, slots, targets
from mlu_migrate.flow.uses import Proof, Shape, Use, leaf_of, parts_of
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import argument, is_text

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def at_end(flow: Flow, parent: ast.AST, child: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
    unit = flow.unit
    if isinstance(parent, ast.keyword):
        call = unit.parent(parent)
        if isinstance(call, ast.Call):
            yield calls.given_by_keyword(flow, call, parent.arg, child, kind, depth)
    elif isinstance(parent, ast.Call):
        if child is not parent.func:
            yield from calls.given_by_position(flow, parent, child, kind, depth)
    elif isinstance(parent, ast.Compare):
        yield comparing.compared(flow, parent, child, kind, depth)
    elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        for target in targets:
            for part in parts_of(target):
                yield slots.of_target(flow, part, kind, depth)
    elif isinstance(parent, ast.AugAssign):
        yield slots.of_target(flow, parent.target, kind, depth)
    elif isinstance(parent, ast.Return):
        yield slots.of_return(flow, parent, kind, depth)
    elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        name = _default_of(parent.args, child)
        if name is not None:
            yield slots.of_slot(flow, ("v", unit.index.scopes[parent], name), kind, depth)
        elif isinstance(parent, ast.Lambda) and child is parent.body:
            yield from from_lambda(flow, parent, kind, depth)
    elif isinstance(parent, ast.MatchValue):
        yield comparing.as_case(flow, parent, kind, depth)
    elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        if child is parent.iter:
            for part in parts_of(parent.target):
                yield slots.of_target(flow, part, kind, depth)
    elif isinstance(parent, (ast.Raise, ast.Assert)):
        yield Use(Proof.OTHER, "message", Shape.KEEP)


def from_lambda(flow: Flow, node: ast.Lambda, kind: Kind, depth: int) -> Iterator[Use]:
    """What a lambda gives back: the field it makes a default for, or where calls of its name go."""
    parent = flow.unit.parent(node)
    if isinstance(parent, ast.keyword) and parent.arg in ("default_factory", "default"):
        outer = flow.unit.parent(parent)
        if isinstance(outer, ast.Call):
            yield calls.given_by_keyword(flow, outer, "default", node, kind, depth + 1)
    elif isinstance(parent, ast.Assign):
        for load in [one for target in parent.targets for one in slots.loads_of(flow, target)]:
            call = flow.unit.parent(load)
            if isinstance(call, ast.Call) and call.func is load:
                yield from flow.uses(call, kind, depth + 1)
        for target in parent.targets:
            leaf = leaf_of(target)
            if leaf and sinks.says(kind, leaf):
                yield Use(Proof.NAMED, f"given by {leaf}")


def behind_option(flow: Flow, row: ast.Tuple | ast.List | ast.Set, child: ast.AST, kind: Kind) -> Iterator[Use]:
    """`["train.py", "--device", "cuda"]`: the option before it says what a word of a command line is."""
    at = next((i for i, e in enumerate(row.elts) if e is child), 0)
    before = row.elts[at - 1] if at and not isinstance(row, ast.Set) else None
    if isinstance(before, ast.Constant) and isinstance(before.value, str) and before.value.startswith("-"):
        if sinks.says(kind, before.value) and before.value.lstrip("-") not in sinks._TOO_SHORT:
            yield Use(Proof.NAMED, f"option {before.value}")
    elif is_text(before) and at % 2:
        taker = flow.unit.parent(row)  # cfg.merge_from_list(["MODEL.DEVICE", "cuda"])
        leaf = leaf_of(taker.func) if isinstance(taker, ast.Call) else getattr(taker, "arg", None)
        key = before.value.rpartition(".")[2]  # type: ignore[union-attr]
        if leaf in ("merge_from_list", "opts", "overrides", "from_dotlist") and sinks.says(kind, key):
            yield Use(Proof.NAMED, f"key {key}")


def of_started(
    flow: Flow, row: ast.Tuple | ast.List | ast.Set, child: ast.AST, kind: Kind, depth: int
) -> Iterator[Use]:
    """`mp.spawn(worker, args=(world, "nccl"))`, `Process(target=worker, args=(...))`: arguments of a function."""
    word = flow.unit.parent(row)
    if not isinstance(word, ast.keyword) or word.arg != "args":
        return
    call = flow.unit.parent(word)
    if not isinstance(call, ast.Call):
        return
    leaf = leaf_of(call.func)
    function = argument(call, "fn", 0) if leaf in ("spawn", "start_processes") else argument(call, "target")
    if isinstance(function, (ast.Name, ast.Attribute)):
        at = next(i for i, e in enumerate(row.elts) if e is child)
        at += leaf in ("spawn", "start_processes")  # the number of the process comes first
        made = ast.Call(func=function, args=[], keywords=[])
        name = flow.unit.name(function)
        yield from targets.project_call(flow, made, name, at, None, kind, depth)


def in_ternary(flow: Flow, node: ast.IfExp, child: ast.AST, kind: Kind) -> Iterator[Use]:
    if flow.asks_availability(node.test):
        yield Use(Proof.SIBLING, "availability test")
    else:
        names = (flow.unit.name(n) for n in ast.walk(node.test) if isinstance(n, ast.Attribute))
        root = next((n.partition(".")[0] for n in names if n and n.partition(".")[0] in sinks.FOREIGN), None)
        if root is not None:  # "cuda" if cupy.cuda.is_available() else "cpu"
            yield Use(Proof.OTHER, root, Shape.KEEP)
    yield from by_siblings(flow, [node.orelse if child is node.body else node.body], kind)


def by_siblings(flow: Flow, others: list[ast.expr], kind: Kind) -> Iterator[Use]:
    for other in others:
        text = other.value if isinstance(other, ast.Constant) else None
        if isinstance(text, str) and text.lower() in kind.siblings:
            yield Use(Proof.SIBLING, f'beside "{text}"')
        elif isinstance(text, str) and text.lower() == "rocm":
            yield Use(Proof.OTHER, f'beside "{text}"', Shape.KEEP)
        elif isinstance(other, ast.IfExp):
            yield from by_siblings(flow, [other.body, other.orelse], kind)
        elif isinstance(other, ast.Call) and flow.unit.callee(other) == "torch.device" and kind.name == "device":
            yield Use(Proof.SIBLING, "beside torch.device")
        elif isinstance(other, ast.Attribute) and kind.name == "device" and _is_device_read(other):
            yield Use(Proof.SIBLING, f"beside .{other.attr}")


def _is_device_read(node: ast.Attribute) -> bool:
    """`x.device`, `x.device.type`: what a device says of itself."""
    if node.attr == "type":
        leaf = leaf_of(node.value)
        return leaf is not None and (leaf in sinks._TOO_SHORT or sinks.says(sinks.DEVICE, leaf))
    return node.attr == "device"


def _default_of(args: ast.arguments, child: ast.AST) -> str | None:
    positional = [*args.posonlyargs, *args.args]
    for arg, default in zip(positional[len(positional) - len(args.defaults) :], args.defaults):
        if default is child:
            return arg.arg
    for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults):
        if kw_default is child:
            return arg.arg
    return None
