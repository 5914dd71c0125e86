"""
Files whose syntax is newer than the running Python: libcst reads them, and the new constructs are blanked at equal
length.

`except*` becomes `except `, type parameters become spaces, a `type X = Y` statement becomes an assignment, a template
string an f-string. Every other byte keeps its place, so positions in the tree are positions in the file.
"""

from __future__ import annotations

import ast
import re
import warnings

import libcst as cst

from mlu_migrate.source import Source
from mlu_migrate.strings import _Spans

DEEP = 300


def parse(source: Source) -> ast.Module | None:
    """The tree of a file that libcst accepts and the running Python does not, or None."""
    text = source.text
    if _depth(text) > DEEP:
        return None
    try:
        module = cst.parse_module(text)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    state = _Spans(module.default_newline)
    module._codegen(state)
    if "".join(state.tokens) != text:
        return None
    blanked = list(text)
    changed = False
    for node in state.nodes:
        first, last = state.spans[id(node)]
        changed |= _blank(node, text, first, last, blanked)
    if not changed:
        return None
    result = "".join(blanked)
    if len(result.encode("utf-8")) != len(source.data):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(result)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _blank(node: cst.CSTNode, text: str, first: int, last: int, out: list[str]) -> bool:
    if isinstance(node, cst.ExceptStarHandler):
        at = text.index("*", first, last)
        out[at] = " "
        return True
    if isinstance(node, cst.TypeParameters):
        for at in range(first, last):
            if not text[at].isspace():
                out[at] = " "
        return True
    if isinstance(node, cst.TypeAlias):
        match = re.compile(r"type\s+").match(text, first)
        if match is None:
            return False
        # `type X = Y` -> `X = Y` would move columns: shift the blanks behind the name by writing `_____X`.
        for at in range(match.start(), match.end()):
            out[at] = "_"
        return True
    if (
        isinstance(node, cst.FormattedString)
        and not node.start.lower().startswith("rf")
        and _reuses_quote(node, text, first, last)
    ):
        inner = node.end
        for at in range(first + len(node.start), last - len(inner)):
            if text[at] not in "\r\n":
                out[at] = "_"
        return True
    return False


def _reuses_quote(node: cst.FormattedString, text: str, first: int, last: int) -> bool:
    body = text[first + len(node.start) : last - len(node.end)]
    return node.end[0] in body or "\\" in body or "\n" in body


def _depth(text: str) -> int:
    deepest = level = 0
    for char in text:
        if char in "([{":
            level += 1
            deepest = max(deepest, level)
        elif char in ")]}":
            level -= 1
    return deepest
