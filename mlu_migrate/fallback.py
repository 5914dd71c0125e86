"""Whether an import may fail: it stands in a `try` whose handler goes on without it; and what needs it all the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.names import dotted
from mlu_migrate.unit import Unit

_CATCHING = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def has_fallback(unit: Unit, node: ast.AST) -> bool:
    """
    Whether a failing import at ``node`` is caught and the program goes on; a handler that raises, or that looks for
    another name of the same package, is no fallback.
    """
    child = node
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.Try) and child in outer.body:
            for handler in outer.handlers:
                types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                if any(t is None or ast.unparse(t) in _CATCHING for t in types):
                    return not isinstance(handler.body[-1], ast.Raise) and not _packages(node) & {
                        p for inner in handler.body for p in _packages(inner)
                    }
        child = outer
    return False


def _packages(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} if not node.level else set()
    return {a.name.partition(".")[0] for a in node.names} if isinstance(node, ast.Import) else set()


def needed_later(unit: Unit, node: ast.stmt) -> int | None:
    """
    The line that calls what a caught import brings although the handler leaves None or nothing in its place, where
    nothing in the file asks whether it is there. A line that asserts it counts as one that needs it.
    """
    outer = next((a for a in unit.ancestors(node) if isinstance(a, ast.Try)), None)
    if outer is None or not isinstance(node, (ast.Import, ast.ImportFrom)):
        return None
    names, flags = _left(outer)
    if not names:
        return None
    asserted = [n for n in _tests(unit, names | flags) if isinstance(unit.parent(n), ast.Assert)]
    if asserted:
        return asserted[0].lineno
    known = [n for n in unit.index.nodes[ast.Name] if isinstance(n.ctx, ast.Load) and n.id in flags]
    if flags and not known or any(True for _ in _tests(unit, names | flags)):
        return None  # asked here, or by whoever imports the flag
    called = [
        call
        for call in unit.index.nodes[ast.Call]
        if (dotted(call.func) or "").partition(".")[0] in names and outer not in unit.ancestors(call)
    ]
    return min((c.lineno for c in called), default=None)


def _left(outer: ast.Try) -> tuple[set[str], set[str]]:
    """Imported names that the handlers leave without a stand-in, and the flags beside them."""
    imports = [s for s in outer.body if isinstance(s, (ast.Import, ast.ImportFrom))]
    names = {a.asname or a.name.partition(".")[0] for s in imports for a in s.names}
    flags: set[str] = set()
    for handler in outer.handlers:
        for inner in ast.walk(handler):
            if isinstance(inner, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Raise)):
                return set(), set()  # something else stands in, or the program ends
            if isinstance(inner, ast.Assign):
                nothing = isinstance(inner.value, ast.Constant) and inner.value.value in (None, False)
                bound = {t.id for t in inner.targets if isinstance(t, ast.Name)}
                flags |= bound - names if nothing else set()
                names -= set() if nothing else bound
    return names, flags


def _tests(unit: Unit, names: set[str]) -> Iterator[ast.Name]:
    """Where one of the names itself is asked for: `if f:`, `f is None`, `not f`, `assert f`."""
    for node in unit.index.nodes[ast.Name]:
        if isinstance(node.ctx, ast.Load) and node.id in names:
            parent = unit.parent(node)
            if isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Assert, ast.While)):
                yield node
            elif (
                not isinstance(parent, (ast.Call, ast.Attribute))
                or isinstance(parent, ast.Call)
                and node is not parent.func
            ):
                yield node  # handed on: whoever gets it may ask
