"""Edits that add an argument to a call, whatever commas and blanks stand before its closing parenthesis."""

from __future__ import annotations

import ast

from mlu_migrate.model import Edit
from mlu_migrate.unit import Unit


def has_stars(call: ast.Call) -> bool:
    """Whether `*args` or `**kwargs` may bring arguments that cannot be seen here."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def first(unit: Unit, call: ast.Call, text: str) -> Edit:
    """Insert ``text`` as the first argument, right behind the opening parenthesis."""
    at = unit.data.index(b"(", unit.end(call.func)) + 1
    return Edit(at, at, (text + (", " if call.args or call.keywords else "")).encode())


def last(unit: Unit, call: ast.Call, text: str) -> Edit | None:
    """Insert ``text`` as the last argument; None where a comment stands between the last argument and the end."""
    given: list[ast.AST] = [*call.args, *call.keywords]
    if not given:
        return first(unit, call, text)
    close = unit.end(call) - 1
    behind = unit.data[max(unit.end(a) for a in given) : close]
    if b"#" in behind or b"\\" in behind:
        return None
    at = close - (len(behind) - len(behind.rstrip()))
    joint = b" " if behind.rstrip().endswith(b",") else b", "
    return Edit(at, at, joint + text.encode())


def keyword_name(unit: Unit, word: ast.keyword, name: str) -> Edit:
    """Rename a keyword argument: the text before its equals sign."""
    start = unit.start(word)
    assert word.arg is not None
    return Edit(start, start + len(word.arg.encode("utf-8")), name.encode("utf-8"))


def quoted(unit: Unit, node: ast.AST, text: str) -> str:
    """A string literal that may stand where ``node`` stands: inside an f-string it avoids that string's quotes."""
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.JoinedStr):
            opening = unit.text(outer).lstrip("rRfF")
            return f"'{text}'" if opening.startswith('"') and not opening.startswith('"""') else f'"{text}"'
    return f'"{text}"'
