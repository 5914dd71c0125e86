"""Where Python touches environment variables: what is an environment, and what is done to a name in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Literal

from mlu_migrate.names import last_word
from mlu_migrate.scopes import Binding
from mlu_migrate.unit import Unit

Use = Literal["set", "read", ""]
_DEPTH = 5
_MANY = 8  # bindings of one name that are looked at
_NAMED = re.compile(r"(^|_)env(iron(ment)?)?(_?(vars?|variables?|dict|map))?s?$", re.IGNORECASE)
_READS = re.compile(r"get|read|is_|has|check|bool|flag|parse", re.IGNORECASE)
_FUNCTION = re.compile(r"(^|_)env(s|iron|ironment|var|vars)?(_|$)|env$", re.IGNORECASE)
_COPIES = frozenset(("copy", "deepcopy", "dict"))


def is_environ(unit: Unit, node: ast.AST | None, depth: int = 0) -> bool:
    """Whether an expression is `os.environ`, a copy of it, or a mapping that its name calls an environment."""
    if node is None or depth > _DEPTH:
        return False
    if unit.name(node) == "os.environ":
        return True
    if isinstance(node, ast.Call):
        func = node.func
        leaf = last_word(func)
        if leaf in _COPIES:
            inner = node.args[0] if node.args else func.value if isinstance(func, ast.Attribute) else None
            return is_environ(unit, inner, depth + 1)
        return False
    if isinstance(node, ast.Dict):
        return any(k is None and is_environ(unit, v, depth + 1) for k, v in zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return is_environ(unit, node.left, depth + 1) or is_environ(unit, node.right, depth + 1)
    if isinstance(node, ast.Name):
        if _NAMED.search(node.id):
            return True
        owner = unit.index.owner(unit.scope(node), node.id)
        bindings = _bindings(owner, node.id)[:_MANY]
        return any(b.kind == "assign" and is_environ(unit, b.value, depth + 1) for b in bindings)
    if isinstance(node, ast.Attribute):
        return _NAMED.search(node.attr) is not None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return _NAMED.search(node.slice.value) is not None
    return False


def use_of(unit: Unit, node: ast.AST, depth: int = 0) -> Use:
    """What is done to the environment variable whose name is the value of ``node``; "" where that cannot be told."""
    parent = unit.parent(node)
    if parent is None or depth > _DEPTH:
        return ""
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        if not is_environ(unit, parent.value):
            return ""
        return "read" if isinstance(parent.ctx, ast.Load) else "set"
    if isinstance(parent, ast.Call) and node in parent.args:
        return _argument(unit, parent, node)
    if isinstance(parent, ast.Compare):
        others = [c for c in (parent.left, *parent.comparators) if c is not node]
        if any(isinstance(o, (ast.In, ast.NotIn)) for o in parent.ops) and is_environ(unit, others[0]):
            return "read"
        return ""
    if isinstance(parent, ast.Dict) and node in parent.keys:
        return "set" if _is_environment_dict(unit, parent) else _table(unit, parent, depth)
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        return use_of(unit, parent, depth + 1)
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        return _elements(unit, parent, depth)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and getattr(parent, "value", None) is node:
        return _assigned(unit, parent, depth)
    return ""


def is_environment_call(unit: Unit, call: ast.Call) -> bool:
    """Whether the keywords of a call are environment variables: `dict(os.environ, X="1")`."""
    func = call.func
    leaf = last_word(func)
    if leaf == "dict":
        if any(is_environ(unit, a) for a in call.args) or any(
            k.arg is None and is_environ(unit, k.value) for k in call.keywords
        ):
            return True
        return not isinstance(func, ast.Attribute) and _becomes_environment(unit, call)
    return leaf in ("update", "setdefault") and isinstance(func, ast.Attribute) and is_environ(unit, func.value)


def value_of(unit: Unit, node: ast.AST) -> str | None:
    """The text that a name is set to, where it is a plain literal."""
    parent = unit.parent(node)
    value: ast.AST | None = None
    if isinstance(node, ast.keyword):
        value = node.value
    elif isinstance(parent, ast.Subscript):
        statement = unit.parent(parent)
        value = statement.value if isinstance(statement, ast.Assign) else None
    elif isinstance(parent, ast.Call):
        value = parent.args[1] if len(parent.args) > 1 and parent.args[0] is node else None
    elif isinstance(parent, ast.Dict):
        value = next((v for k, v in zip(parent.keys, parent.values, strict=True) if k is node), None)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _argument(unit: Unit, call: ast.Call, node: ast.AST) -> Use:
    func = call.func
    name = unit.name(func)
    leaf = last_word(func)
    if name in ("os.getenv", "os.getenvb") or leaf in ("getenv", "get_env"):
        return "read" if call.args[0] is node else ""
    if name in ("os.putenv", "os.unsetenv") or leaf in ("setenv", "delenv", "putenv", "unsetenv"):
        return "set" if call.args[0] is node else ""
    if isinstance(func, ast.Attribute) and is_environ(unit, func.value):
        if leaf in ("get", "__contains__", "__getitem__"):
            return "read" if call.args[0] is node else ""
        if leaf in ("pop", "setdefault", "__setitem__", "__delitem__"):
            return "set" if call.args[0] is node else ""
    if leaf and _FUNCTION.search(leaf) and call.args[0] is node:
        return "read" if _READS.search(leaf) else "set"
    return ""


def _is_environment_dict(unit: Unit, node: ast.Dict) -> bool:
    if is_environ(unit, node):
        return True
    return _becomes_environment(unit, node)


def _becomes_environment(unit: Unit, node: ast.expr) -> bool:
    """A mapping that is passed, stored or returned under a name that says environment."""
    parent = unit.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg is None and _merged(unit, parent) or bool(parent.arg and _NAMED.search(parent.arg))
    if isinstance(parent, ast.Call):
        func = parent.func
        leaf = last_word(func)
        if isinstance(func, ast.Attribute) and leaf == "update" and is_environ(unit, func.value):
            return True
        if leaf == "dict" and parent.args and parent.args[0] is not node:
            first = parent.args[0]  # mock.patch.dict(os.environ, {...})
            spelled = isinstance(first, ast.Constant) and first.value == "os.environ"
            return spelled or is_environ(unit, first)
        return _FUNCTION.search(leaf) is not None
    if isinstance(parent, ast.Dict):
        if any(v is node and k is None for k, v in zip(parent.keys, parent.values, strict=True)):
            return _is_environment_dict(unit, parent)
        key = next((k for k, v in zip(parent.keys, parent.values, strict=True) if v is node), None)
        return isinstance(key, ast.Constant) and isinstance(key.value, str) and _NAMED.search(key.value) is not None
    if isinstance(parent, ast.AugAssign):
        return is_environ(unit, parent.target)
    if isinstance(parent, ast.BinOp):
        return is_environ(unit, parent) or _becomes_environment(unit, parent)
    if isinstance(parent, ast.IfExp):
        return _becomes_environment(unit, parent)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return any(is_environ(unit, t) for t in targets)
    if isinstance(parent, ast.Return):
        function = next(
            (a for a in unit.ancestors(parent) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), None
        )
        # `get_env_vars()` more often collects what is set, for a log, than what a child is to get
        return function is not None and bool(_FUNCTION.search(function.name)) and not _READS.search(function.name)
    return False


def _merged(unit: Unit, word: ast.keyword) -> bool:
    call = unit.parent(word)
    return isinstance(call, ast.Call) and is_environment_call(unit, call)


def _assigned(unit: Unit, node: ast.Assign | ast.AnnAssign, depth: int) -> Use:
    """A constant that holds the name: what is done through it."""
    return _strongest(use_of(unit, load, depth + 1) for load in _reads_of(unit, node))


def _table(unit: Unit, node: ast.Dict, depth: int) -> Use:
    """A mapping under any name: `for k, v in DEFAULTS.items(): os.environ[k] = v`, `os.environ.update(DEFAULTS)`."""
    found: set[Use] = set()
    for walk in _under_any_name(unit, node):
        if walk is not node and _becomes_environment(unit, walk):
            found.add("set")
        outer: ast.AST | None = unit.parent(walk)
        pairs = isinstance(outer, ast.Attribute) and outer.attr == "items"
        if isinstance(outer, ast.Attribute) and outer.attr in ("items", "keys"):
            walk, outer = outer, unit.parent(outer)
            if isinstance(outer, ast.Call) and outer.func is walk:
                walk = outer
        found.add(_looped(unit, walk, depth, pairs=pairs))
    return _strongest(found)


def _elements(unit: Unit, node: ast.expr, depth: int) -> Use:
    """A collection of names: what a loop over it does with each."""
    return _strongest(_looped(unit, walk, depth) for walk in _under_any_name(unit, node))


def _looped(unit: Unit, walk: ast.expr, depth: int, *, pairs: bool = False) -> Use:
    """What a loop over an expression does with each element, or with the first of each pair."""
    outer = unit.parent(walk)
    if not isinstance(outer, (ast.For, ast.comprehension)) or outer.iter is not walk:
        return ""
    bound = outer.target
    name = bound.elts[0] if pairs and isinstance(bound, ast.Tuple) and bound.elts else bound
    return _strongest(use_of(unit, load, depth + 1) for load in _loads(unit, name))


def _under_any_name(unit: Unit, node: ast.expr) -> list[ast.expr]:
    """The expression itself, and the reads of the variable it is assigned to."""
    parent = unit.parent(node)
    return [node, *(_reads_of(unit, parent) if isinstance(parent, (ast.Assign, ast.AnnAssign)) else ())]


def _reads_of(unit: Unit, node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [load for target in targets for load in _loads(unit, target)]


def _strongest(uses: Iterable[Use]) -> Use:
    found = set(uses)
    return "set" if "set" in found else "read" if "read" in found else ""


def _loads(unit: Unit, target: ast.AST) -> list[ast.expr]:
    if isinstance(target, ast.Name):
        owner = unit.index.owner(unit.scope(target), target.id)
        loads: list[ast.expr] = list(unit.index.loads.get((owner, target.id), ())) if owner else []
        if owner is not None and owner.is_class:
            loads += [a for a in unit.index.attributes.get(target.id, ()) if isinstance(a.ctx, ast.Load)]
        return loads
    return []


def _bindings(owner: object, name: str) -> list[Binding]:
    return owner.bindings.get(name, []) if owner is not None else []  # type: ignore[attr-defined]
