"""Where a program says onto which device a checkpoint is loaded: `map_location` and the dictionaries that reach it."""

from __future__ import annotations

import ast

from mlu_migrate.unit import Unit, argument

# canonical loader -> position of map_location
LOADERS: dict[str, int] = {
    "torch.load": 1,
    "torch.serialization.load": 1,
    "torch.jit.load": 1,
    "torch.hub.load_state_dict_from_url": 2,
    "torch.hub.load_url": 2,
    "torch.utils.model_zoo.load_url": 2,
    "torchvision.models.utils.load_state_dict_from_url": 2,
}


def given(unit: Unit, call: ast.Call) -> ast.expr | None:
    """The map_location of a call: its keyword, or the position a known loader has for it."""
    position = LOADERS.get(unit.callee(call) or "")
    return argument(call, "map_location", position)


def tables(unit: Unit) -> dict[ast.AST, ast.Call]:
    """
    Dict displays and comprehensions that become a map_location, with the call they reach; worked out once a file.

    Their keys are tags written in a file, so no rule about device strings may touch them.
    """
    known = unit.memo.get("loading.tables")
    if known is None:
        found: dict[ast.AST, ast.Call] = {}
        if b"map_location" in unit.data or b".load" in unit.data:
            for call in unit.index.nodes[ast.Call]:
                where = given(unit, call)
                if where is not None:
                    for table in _tables(unit, where, 0):
                        found.setdefault(table, call)
        unit.memo["loading.tables"] = known = found
    return known  # type: ignore[return-value]


def in_table(unit: Unit, node: ast.AST) -> bool:
    """Whether a node lies in one of :func:`tables`, or is one of :func:`tags`."""
    known = tables(unit)
    return bool(known) and any(outer in known for outer in unit.ancestors(node)) or node in tags(unit)


def tags(unit: Unit) -> dict[ast.AST, ast.AST]:
    """
    Texts that a function given as map_location compares with the tag it is handed, with the function.

    `lambda storage, loc: storage.cuda() if "cuda" in loc else storage`: the tag stands in a file and stays.
    """
    known = unit.memo.get("loading.tags")
    if known is None:
        found: dict[ast.AST, ast.AST] = {}
        if b"map_location" in unit.data or b".load" in unit.data:
            for call in unit.index.nodes[ast.Call]:
                where = given(unit, call)
                function = _function(unit, where) if where is not None else None
                if function is not None:
                    for text in _compared(unit, function):
                        found.setdefault(text, function)
        unit.memo["loading.tags"] = known = found
    return known  # type: ignore[return-value]


def _function(unit: Unit, node: ast.expr) -> ast.FunctionDef | ast.Lambda | None:
    if isinstance(node, ast.Lambda):
        return node
    if isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        bindings = owner.bindings.get(node.id, []) if owner else []
        if len(bindings) == 1:
            made = bindings[0].node if isinstance(bindings[0].node, ast.FunctionDef) else bindings[0].value
            return made if isinstance(made, (ast.FunctionDef, ast.Lambda)) else None
    return None


def _compared(unit: Unit, function: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    params = [*function.args.posonlyargs, *function.args.args]
    if len(params) < 2:
        return []
    out: list[ast.expr] = []
    for load in unit.index.loads.get((unit.index.scopes[function], params[1].arg), ()):
        outer = unit.parent(load)
        sides: list[ast.expr] = []
        if isinstance(outer, ast.Compare) and len(outer.comparators) == 1:
            sides = [outer.left, outer.comparators[0]]
        elif isinstance(outer, ast.Attribute) and outer.attr == "startswith":
            call = unit.parent(outer)
            sides = call.args[:1] if isinstance(call, ast.Call) and call.func is outer else []
            if sides and isinstance(sides[0], ast.Tuple):
                sides = sides[0].elts
        out += [s for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str)]
    return out


def _tables(unit: Unit, node: ast.expr, depth: int) -> list[ast.expr]:
    if isinstance(node, (ast.Dict, ast.DictComp)):
        return [node]
    if isinstance(node, ast.IfExp):
        return [*_tables(unit, node.body, depth), *_tables(unit, node.orelse, depth)]
    if isinstance(node, ast.Call) and depth < 3:
        return _called(unit, node, depth + 1)
    if isinstance(node, ast.Lambda):
        return _looked_up(unit, node, depth + 1)
    if depth < 3 and isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        out: list[ast.expr] = []
        for binding in owner.bindings.get(node.id, ()) if owner else ():
            if binding.kind in ("assign", "param") and binding.value is not None:
                out += _tables(unit, binding.value, depth + 1)
        return out
    if depth < 3 and isinstance(node, ast.Attribute):
        out = []
        for store in unit.index.attributes.get(node.attr, ()):
            parent = unit.parent(store)
            if isinstance(store.ctx, ast.Store) and isinstance(parent, ast.Assign):
                out += _tables(unit, parent.value, depth + 1)
        return out
    return []


def _called(unit: Unit, node: ast.Call, depth: int) -> list[ast.expr]:
    """`dict([("cuda:0", "cuda:1")])`, and what a function of this file returns."""
    if unit.name(node.func) == "dict":
        return [node]
    if not isinstance(node.func, ast.Name):
        return []
    owner = unit.index.owner(unit.scope(node.func), node.func.id)
    bindings = owner.bindings.get(node.func.id, []) if owner else []
    made = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(made, ast.FunctionDef):
        return []
    returned = [n.value for n in ast.walk(made) if isinstance(n, ast.Return) and n.value is not None]
    return [table for value in returned for table in _tables(unit, value, depth)]


def _looked_up(unit: Unit, node: ast.Lambda, depth: int) -> list[ast.expr]:
    """`lambda storage, loc: {"cuda:0": "cuda:1"}.get(loc, loc)`: the table that the tag is looked up in."""
    if len(node.args.args) < 2:
        return []
    tag = node.args.args[1].arg
    out: list[ast.expr] = []
    for load in unit.index.loads.get((unit.index.scopes[node], tag), ()):
        outer = unit.parent(load)
        if isinstance(outer, ast.Subscript) and outer.slice is load:
            out += _tables(unit, outer.value, depth)
        elif isinstance(outer, ast.Call) and outer.args[:1] == [load] and isinstance(outer.func, ast.Attribute):
            if outer.func.attr == "get":
                out += _tables(unit, outer.func.value, depth)
    return out
