"""
The method `cuda` and the flag `is_cuda` reached other than by a plain call or read.

As text (`getattr(x, "cuda")()`, `hasattr(x, "cuda")` beside `x.cuda()`, `attrgetter("is_cuda")`), and the bound method
as a value (`move = model.cuda`, then `move()`). `args.cuda` and whatever else is never called stays data.
"""

from __future__ import annotations

import ast

from mlu_migrate import receivers
from mlu_migrate.names import last_word
from mlu_migrate.unit import Unit, is_text

_ASK = frozenset(("getattr", "hasattr"))


def texts(unit: Unit) -> dict[ast.AST, str]:
    """Texts that name one of the two on a value, with the name; worked out once a file."""
    known = unit.memo.get("methodtexts")
    if known is None:
        known = dict(_found(unit)) if b'cuda"' in unit.data or b"cuda'" in unit.data else {}
        unit.memo["methodtexts"] = known
    return known  # type: ignore[return-value]


def is_method(unit: Unit, node: ast.Attribute) -> bool:
    """Whether `x.cuda`, read but not called there, is the method: it is handed to `callable`, or called by a name."""
    if receivers.of(unit, node).kind != "value" or _stored(unit, node.attr, node.value):
        return False
    return _is_called_later(unit, node)


def _found(unit: Unit) -> list[tuple[ast.AST, str]]:
    out: list[tuple[ast.AST, str]] = []
    for call in unit.index.nodes[ast.Call]:
        if not call.args or call.keywords:
            continue
        leaf = last_word(call.func)
        if leaf in _ASK and isinstance(call.func, ast.Name) and len(call.args) > 1:
            text = call.args[1]
            if is_text(text, "is_cuda", "cuda") and _names_method(unit, call, text.value):
                out.append((text, text.value))
        elif leaf == "methodcaller" and is_text(call.args[0], "cuda"):
            out.append((call.args[0], "cuda"))
        elif leaf == "attrgetter":
            out += [(a, "is_cuda") for a in call.args if is_text(a, "is_cuda")]
    return out


def _names_method(unit: Unit, call: ast.Call, name: str) -> bool:
    owner = call.args[0]
    spelled = unit.name(owner) or ""
    if spelled == "torch" or spelled.startswith("torch."):
        return False  # MLU105
    if receivers.of(unit, ast.Attribute(value=owner, attr=name, ctx=ast.Load())).kind != "value":
        return False
    if _stored(unit, name, owner):
        return False
    text = ast.unparse(owner)
    read = call.func.id == "getattr"  # type: ignore[attr-defined]
    if name == "is_cuda":
        return read or any(ast.unparse(a.value) == text for a in unit.index.attributes.get("is_cuda", ()))
    if read and _is_called_later(unit, call):
        return True
    return any(
        isinstance(c.func, ast.Attribute) and c.func.attr == "cuda" and ast.unparse(c.func.value) == text
        for c in unit.index.nodes[ast.Call]
    )


def _stored(unit: Unit, name: str, owner: ast.expr) -> bool:
    """`opt.cuda = flag` somewhere in the file: the object's own attribute."""
    text = ast.unparse(owner)
    return any(
        isinstance(a.ctx, ast.Store) and ast.unparse(a.value) == text for a in unit.index.attributes.get(name, ())
    )


def _is_called_later(unit: Unit, node: ast.expr) -> bool:
    child: ast.AST = node
    parent = unit.parent(child)
    while isinstance(parent, (ast.IfExp, ast.BoolOp)) and not (isinstance(parent, ast.IfExp) and child is parent.test):
        child, parent = parent, unit.parent(parent)
    if isinstance(parent, ast.Call):
        if parent.func is child:
            return child is not node or isinstance(node, ast.Call)
        taker = unit.name(parent.func) or getattr(parent.func, "id", "")
        return taker in ("callable", "functools.partial") and parent.args[:1] == [child]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        target = parent.targets[0]
        owner = unit.index.owner(unit.scope(target), target.id)
        for load in unit.index.loads.get((owner, target.id), ()) if owner else ():
            outer = unit.parent(load)
            if isinstance(outer, ast.Call) and outer.func is load:
                return True
    return False
