"""Edits that add an argument to a call, whatever commas and blanks stand before its closing parenthesis."""

from __future__ import annotations

import ast

from mlu_migrate.model import Edit
from mlu_migrate.unit import Unit


def has_stars(call: ast.Call) -> bool:
    """Whether `*args` or `**kwargs` may bring arguments that cannot be seen here."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def first(unit: Unit, call: ast.Call, text: str) -> Edit:
    """Insert ``text`` as the first argument; on a line of its own where the first argument has one."""
    at = unit.data.index(b"(", unit.end(call.func)) + 1
    given: list[ast.AST] = [*call.args, *call.keywords]
    if not given:
        return Edit(at, at, text.encode())
    start = min(unit.start(a) for a in given)
    if _own_line(unit, start) is None or b"\n" not in unit.data[at:start]:
        return Edit(at, at, (text + ", ").encode())
    return Edit(start, start, text.encode() + b"," + unit.source.newline + (_own_line(unit, start) or b""))


def last(unit: Unit, call: ast.Call, text: str) -> Edit | None:
    """Insert ``text`` as the last argument; None where a comment stands between the last argument and the end."""
    given: list[ast.AST] = [*call.args, *call.keywords]
    if not given:
        return first(unit, call, text)
    close = unit.end(call) - 1
    final = max(given, key=unit.end)
    behind = unit.data[unit.end(final) : close]
    if b"#" in behind or b"\\" in behind:
        return None
    at = close - (len(behind) - len(behind.rstrip()))
    if not behind.rstrip().endswith(b","):
        return Edit(at, at, b", " + text.encode())
    indent = _own_line(unit, unit.start(final))
    if indent is not None and b"\n" in behind:
        return Edit(at, at, unit.source.newline + indent + text.encode() + b",")
    return Edit(at, at, b" " + text.encode())


def _own_line(unit: Unit, at: int) -> bytes | None:
    """The blanks in front of ``at`` if nothing else stands there on its line."""
    head = unit.data[unit.source.starts[unit.source.line_of(at) - 1] : at]
    return None if head.strip() else head


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
