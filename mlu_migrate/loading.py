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
    """Whether a node lies in one of :func:`tables`."""
    known = tables(unit)
    return bool(known) and any(outer in known for outer in unit.ancestors(node))


def _tables(unit: Unit, node: ast.expr, depth: int) -> list[ast.expr]:
    if isinstance(node, (ast.Dict, ast.DictComp)):
        return [node]
    if isinstance(node, ast.IfExp):
        return [*_tables(unit, node.body, depth), *_tables(unit, node.orelse, depth)]
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
