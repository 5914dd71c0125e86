"""
Where the characters of string literals stand in the file.

libcst splits implicit concatenations and f-strings into their pieces; its byte spans are added to the offset of the
expression. Before Python 3.12 `ast` gives wrong positions inside f-strings, so their expressions are parsed again here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst
from libcst._nodes.internal import CodegenState

_SIMPLE = re.compile(rb"(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|'''|\"|')")


# A cheap look before a tree is walked: f-strings up to the end of their (possibly triple-quoted) text.
_HOLE = re.compile(rb"[fF][rR]?[\"']|[rR][fF][\"']")
_FSTRING = re.compile(
    rb"(?:[fF][rR]?|[rR][fF])(?:\"\"\".*?\"\"\"|" + rb"'" * 3 + rb".*?" + rb"'" * 3 + rb"|[\"'][^\r\n]*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of literal characters; ``raw`` is what stands between ``start`` and ``end`` in the file."""

    start: int
    end: int
    raw: str
    plain: bool  # no escapes and no doubled braces: raw is the value


class _Spans(CodegenState):
    """Prints a libcst node and remembers the character span of each node printed."""

    def __init__(self, newline: str = "\n") -> None:
        super().__init__(default_indent="    ", default_newline=newline)
        self.length = 0
        self.spans: dict[int, tuple[int, int]] = {}
        self._open: list[int] = []
        self.nodes: list[cst.CSTNode] = []

    def add_token(self, value: str) -> None:
        super().add_token(value)
        self.length += len(value)

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self.length += sum(map(len, self.indent_tokens))

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._open.append(self.length)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._open.pop()
        if id(node) not in self.spans:
            self.spans[id(node)] = (start, self.length)
            self.nodes.append(node)

    # libcst asks for the span without surrounding parentheses through this context.
    def record_syntactic_position(self, node: cst.CSTNode, *, start_node: object = None, end_node: object = None):  # type: ignore[no-untyped-def]
        return _Inner(self, node)


class _Inner:
    def __init__(self, state: _Spans, node: cst.CSTNode) -> None:
        self.state, self.node = state, node

    def __enter__(self) -> None:
        self.start = self.state.length

    def __exit__(self, *error: object) -> None:
        self.state.spans[id(self.node)] = (self.start, self.state.length)
        self.state.nodes.append(self.node)


def parse_expression(source: bytes) -> tuple[cst.BaseExpression, _Spans]:
    """
    Parse one expression and give each node's character span within ``source``.

    The text is wrapped in parentheses so that it may span lines; raises cst.ParserSyntaxError where libcst refuses it.
    """
    text = source.decode("utf-8")
    found = re.search("\r\n|\r|\n", text)
    newline = found.group() if found else "\n"
    wrapped = "(" + text + newline + ")"
    node = cst.parse_expression(wrapped, cst.PartialParserConfig(default_newline=newline))
    state = _Spans(newline)
    node._codegen(state)
    if "".join(state.tokens) != wrapped:
        raise ValueError("libcst prints this expression differently")
    return node, state


def pieces(source: bytes, start: int, end: int) -> list[Piece] | None:
    """
    The literal runs of the str literal (plain, concatenated or f-string) at ``start:end``; None if bytes or
    unreadable.
    """
    raw = source[start:end]
    quick = _quick(raw, start)
    if quick is not None:
        return quick
    try:
        node, state = parse_expression(raw)
    except (cst.ParserSyntaxError, ValueError, UnicodeDecodeError):
        return None
    text = raw.decode("utf-8")
    out: list[Piece] = []
    stack: list[cst.CSTNode] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, cst.ConcatenatedString):
            stack.extend((item.right, item.left))
        elif isinstance(item, cst.SimpleString):
            if "b" in item.prefix.lower():
                return None
            first, last = _span(state, item)
            head = len(item.prefix) + len(item.quote)
            body = item.value[head : len(item.value) - len(item.quote)]
            out.append(
                _piece(text, start, first + head, last - len(item.quote), body, "\\" not in body or "r" in item.prefix)
            )
        elif isinstance(item, cst.FormattedString):
            for part in item.parts:
                if isinstance(part, cst.FormattedStringText):
                    first, last = _span(state, part)
                    ok = "\\" not in part.value and "{" not in part.value and "}" not in part.value
                    out.append(_piece(text, start, first, last, part.value, ok))
        else:
            return None
    return out


def _quick(raw: bytes, start: int) -> list[Piece] | None:
    match = _SIMPLE.match(raw)
    if (
        not match
        or b"b" in match["prefix"].lower()
        or b"f" in match["prefix"].lower()
        or b"t" in match["prefix"].lower()
    ):
        return None
    quote = match["quote"]
    body = raw[match.end() : -len(quote)]
    if not raw.endswith(quote) or quote[:1] in body or b"\\" in body:
        return None
    return [Piece(start + match.end(), start + len(raw) - len(quote), body.decode("utf-8"), True)]


def _span(state: _Spans, node: cst.CSTNode) -> tuple[int, int]:
    first, last = state.spans[id(node)]
    return first - 1, last - 1  # the parenthesis put in front


def _piece(text: str, base: int, first: int, last: int, raw: str, plain: bool) -> Piece:
    start = base + len(text[:first].encode("utf-8"))
    return Piece(start, start + len(text[first:last].encode("utf-8")), raw, plain)


def replacing_joined(
    source: bytes, offset_of: Callable[[int, int], int], words: re.Pattern[bytes]
) -> Callable[[ast.JoinedStr], None] | None:
    """
    What gives the expressions inside an f-string that holds a trigger word their right positions (Python before 3.12).

    None where no f-string of ``source`` holds one. ``offset_of(line, column)`` turns an `ast` position into an offset
    of ``source``.
    """
    if not _HOLE.search(source) or not any(words.search(m.group()) for m in _FSTRING.finditer(source)):
        return None
    starts = [0] + [m.end() for m in re.finditer(rb"\r\n|\r|\n", source)]

    def replace(node: ast.JoinedStr) -> None:
        first = offset_of(node.lineno, node.col_offset)
        last = offset_of(node.end_lineno, node.end_col_offset)  # type: ignore[arg-type]
        raw = source[first:last]
        if words.search(raw):
            _replace_holes(node, raw, first, starts)

    return replace


def _replace_holes(node: ast.JoinedStr, raw: bytes, first: int, starts: list[int]) -> None:
    try:
        parsed, state = parse_expression(raw)
    except (cst.ParserSyntaxError, ValueError, UnicodeDecodeError):
        return
    text = raw.decode("utf-8")
    inner = [p for p in _formatted(parsed) if isinstance(p, cst.FormattedStringExpression)]
    holes = [v for v in node.values if isinstance(v, ast.FormattedValue)]
    if len(inner) != len(holes):
        return
    for part, hole in zip(inner, holes):
        begin, finish = _span(state, part.expression)
        at = first + len(text[:begin].encode("utf-8"))
        code = text[begin:finish]
        try:
            fresh = ast.parse("(" + code + "\n)", mode="eval").body
        except SyntaxError:
            continue
        _move(fresh, at, starts)
        hole.value = fresh


def _formatted(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, cst.ConcatenatedString):
        return [*_formatted(node.left), *_formatted(node.right)]
    return list(node.parts) if isinstance(node, cst.FormattedString) else []


def _move(tree: ast.expr, at: int, starts: list[int]) -> None:
    """Shift positions of an expression parsed as ``(code\\n)`` to where the code stands in the file."""
    import bisect

    line = bisect.bisect_right(starts, at)
    column = at - starts[line - 1]
    for node in ast.walk(tree):
        if not hasattr(node, "lineno"):
            continue
        for row, col in (("lineno", "col_offset"), ("end_lineno", "end_col_offset")):
            value = getattr(node, row)
            if value == 1:
                setattr(node, col, getattr(node, col) - 1 + column)
            setattr(node, row, value + line - 1)
