"""Texts put together from pieces: whether a piece stands inside a longer word, such as a file name."""

from __future__ import annotations

import ast
import re

_WORD_BEFORE = re.compile(r"[\w./-]$")
_WORD_AFTER = re.compile(r"^[\w./-]")
_HOLE = re.compile(r"%[sdir]|\{[^{}]*\}")


def inside_a_word(node: ast.AST, child: ast.AST, element: ast.AST | None = None) -> bool:
    """
    Whether ``child`` is joined to letters without anything between: `f"model_{x}.pt"`, `"model_%s" % x`, `x + ".pt"`.

    ``node`` is a JoinedStr, a BinOp of `+` or `%`, or a call of `.format`; ``element`` the member of a tuple after `%`.
    A colon is no letter: `"cuda" + ":0"` is a device.
    """
    if isinstance(node, ast.JoinedStr):
        at = next((i for i, v in enumerate(node.values) if v is child), 0)
        before = _text(node.values[at - 1]) if at else ""
        after = _text(node.values[at + 1]) if at + 1 < len(node.values) else ""
        return _touches(before, after)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if child is node.right:
            left = node.left.right if isinstance(node.left, ast.BinOp) else node.left
            return _touches(_text(left), "")
        return not _text(child).endswith(":") and _touches("", _text(node.right))  # "cuda:" + "0"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and child is node.right:
        number = child.elts.index(element) if isinstance(child, ast.Tuple) and element in child.elts else 0
        return _hole_touches(_text(node.left), number)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and child in node.args:
        return _hole_touches(_text(node.func.value), node.args.index(child))
    return False


def _hole_touches(text: str, number: int) -> bool:
    holes = list(_HOLE.finditer(text))
    if number >= len(holes):
        return False
    hole = holes[number]
    return _touches(text[: hole.start()], text[hole.end() :])


def _touches(before: str, after: str) -> bool:
    return _WORD_BEFORE.search(before) is not None or _WORD_AFTER.search(after) is not None


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
