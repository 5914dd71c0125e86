"""Whether an import may fail: it stands in a `try` whose handler goes on without it."""

from __future__ import annotations

import ast

from mlu_migrate.unit import Unit

_CATCHING = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def has_fallback(unit: Unit, node: ast.AST) -> bool:
    """Whether a failing import at ``node`` is caught and the program goes on; a handler that raises is no fallback."""
    child = node
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.Try) and child in outer.body:
            for handler in outer.handlers:
                types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                if any(t is None or ast.unparse(t) in _CATCHING for t in types):
                    return not isinstance(handler.body[-1], ast.Raise)
        child = outer
    return False
