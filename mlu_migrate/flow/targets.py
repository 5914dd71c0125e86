"""The functions and classes of the project that a call reaches, and what their parameters become."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlu_migrate import receivers, sinks
from mlu_migrate.flow import slots
from mlu_migrate.flow.uses import Proof, Use, leaf_of
from mlu_migrate.sinks import Kind

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def project_call(
    flow: Flow, call: ast.Call, name: str | None, position: int | None, word: str | None, kind: Kind, depth: int
) -> Iterator[Use]:
    """A call of a function of this file or project: what its parameter is used for."""
    for function, bound in targets_of(flow, call):
        args = function.args
        params = [a.arg for a in (*args.posonlyargs, *args.args)][bound:]
        chosen = (
            word
            if word is not None
            else (params[position] if position is not None and position < len(params) else None)
        )
        if chosen is not None and chosen in (*params, *(a.arg for a in args.kwonlyargs)):
            yield slots.of_slot(flow, ("v", flow.unit.index.scopes[function], chosen), kind, depth)
            return
    facts = flow.unit.facts
    leaf = leaf_of(call.func)
    for known in [name] if name else inherited(flow, call):
        function_name, params_known = of_project(flow, known)
        if params_known is not None and kind.name == "device":
            params = [p for p in params_known if p not in ("self", "cls")]
            chosen = (
                word
                if word is not None
                else (params[position] if position is not None and position < len(params) else None)
            )
            if chosen is not None:
                if (function_name, chosen) in facts.device_params:
                    yield Use(Proof.SINK, f"{function_name}({chosen})")
                    return
                if sinks.says(kind, chosen):
                    yield Use(Proof.NAMED, f"{function_name}({chosen})")
                    return
    if kind.name == "device" and leaf and isinstance(call.func, ast.Attribute):
        place = word if word is not None else position
        if name is None and place is not None and place in facts.device_methods.get(leaf, ()):
            yield Use(Proof.SINK, f"{leaf}()")
            return
    if call not in flow.unit.index.parents:  # made up: a function handed over with its arguments
        return
    if word is None and any(u.proof is Proof.SINK for u in flow.uses(call, kind, depth + 1)):
        yield Use(Proof.NAMED, f"passed through {leaf}()")  # x.to(pick("cuda:0"))
    elif word is not None and leaf and kind.name == "device" and (leaf, word) in facts.device_params:
        yield Use(Proof.SINK, f"{leaf}({word})")
    elif leaf and word is None and sinks.says(kind, leaf):
        yield Use(Proof.NAMED, f"{leaf}()")


def of_project(flow: Flow, name: str) -> tuple[str, tuple[str, ...] | None]:
    """A function, class or method of another file: its name in the project facts and its parameters."""
    facts, near = flow.unit.facts, flow.unit.module
    module, _, leaf = name.rpartition(".")
    known = facts.functions_of(module, near).get(leaf)
    if known is None:
        module, _, owner = module.rpartition(".")
        leaf = f"{owner}.{leaf}"
        known = facts.functions_of(module, near).get(leaf)
    return leaf, known


def inherited(flow: Flow, call: ast.Call) -> list[str]:
    """`super().__init__(...)`, `super().m(...)`: the names that has in the base classes of other files."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Call):
        return []
    if getattr(func.value.func, "id", "") != "super":
        return []
    mine = flow.unit.enclosing_class(func)
    bases = [flow.unit.name(b) for b in mine.bases] if mine is not None else []
    suffix = "" if func.attr == "__init__" else f".{func.attr}"
    return [base + suffix for base in bases if base is not None and "." in base]


def targets_of(flow: Flow, call: ast.Call) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Functions of this file a call may mean, with the number of bound leading parameters."""
    func, unit = call.func, flow.unit
    if isinstance(func, ast.Name) and func.id == "cls" and func in unit.index.parents:
        mine = unit.enclosing_class(func)
        for item in mine.body if mine is not None else ():
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                yield item, 1
    elif isinstance(func, ast.Name):
        owner = unit.index.owner(unit.scope(func), func.id)
        for binding in owner.bindings.get(func.id, ()) if owner else ():
            if isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield binding.node, 0
            elif isinstance(binding.node, ast.ClassDef):
                for item in binding.node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                        yield item, 1
    elif isinstance(func, ast.Attribute):
        named = False
        owners = owners_of(flow, func)
        if not owners and isinstance(func.value, ast.Name):
            owner = unit.index.owner(unit.scope(func.value), func.value.id)
            bound = [b.node for b in (owner.bindings.get(func.value.id, ()) if owner else ())]
            owners = [n for n in bound if isinstance(n, ast.ClassDef)]
            named = bool(owners)  # T.method(...)
        for owner_class in owners:
            for item in owner_class.body:
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == func.attr:
                    marks = {d.id for d in item.decorator_list if isinstance(d, ast.Name)}
                    free = "staticmethod" in marks or named and "classmethod" not in marks
                    yield item, 0 if free else 1


def owners_of(flow: Flow, func: ast.Attribute) -> list[ast.ClassDef]:
    """Classes of this file whose method `self.m`, `super().m` or `T().m` is."""
    unit, value = flow.unit, func.value
    if isinstance(value, ast.Name) and value.id in ("self", "cls"):
        mine = unit.enclosing_class(func)
        return [mine, *bases_of(flow, mine)] if mine is not None else []
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
        mine = unit.enclosing_class(func)
        return bases_of(flow, mine) if mine is not None else []
    found = receivers.class_of(unit, value) if func in unit.index.parents else None
    return [found.node, *bases_of(flow, found.node)] if found is not None and found.node is not None else []


def bases_of(flow: Flow, node: ast.ClassDef, depth: int = 0) -> list[ast.ClassDef]:
    """The base classes of a class that stand in this file."""
    out: list[ast.ClassDef] = []
    for base in node.bases:
        if isinstance(base, ast.Name) and depth < 4:
            owner = flow.unit.index.owner(flow.unit.scope(base), base.id)
            for binding in owner.bindings.get(base.id, ()) if owner else ():
                if isinstance(binding.node, ast.ClassDef) and binding.node is not node:
                    out += [binding.node, *bases_of(flow, binding.node, depth + 1)]
    return out
