"""
The second opinion before a byte is written: libcst must see a node exactly where an edit goes.

`ast` says where a name or literal stands; libcst parses the smallest enclosing expression of its own accord and prints
it again. Only if the print equals the bytes, and the edited span is one of its nodes or lies inside one literal, the
edit may be applied. Otherwise the file is failed and left as it was.
"""

from __future__ import annotations

import ast
import itertools

import libcst as cst

from mlu_migrate.model import Edit
from mlu_migrate.strings import parse_expression
from mlu_migrate.unit import Unit

DEPTH = 200  # nesting after which libcst is not asked: it recurses in C and can take the process with it
CHAIN = 2000  # operators and attributes in one row, which nest as deeply in the tree
LARGE = 16_384  # bytes; of a larger expression only the largest part below this that holds the edit is checked


class GuardError(Exception):
    """An edit does not fall on a node; the message says where."""


def check(unit: Unit, edits: list[Edit]) -> None:
    """Raise GuardError unless every edit falls on a node of the file."""
    spans = [e for e in edits if e.start < e.end]
    if not spans:
        return
    tops = _tops(unit, spans)
    for edit, top in zip(spans, tops):
        if top is None:
            _check_word(unit, edit)
    groups: dict[ast.AST, list[Edit]] = {}
    for edit, top in zip(spans, tops):
        if top is not None:
            groups.setdefault(top, []).append(edit)
    for top, group in groups.items():
        _check_expression(unit, top, group)


def _tops(unit: Unit, edits: list[Edit]) -> list[ast.AST | None]:
    """For each edit the outermost expression that holds it, or None (imports, names of functions)."""
    found: list[ast.AST | None] = [None] * len(edits)
    order = sorted(range(len(edits)), key=lambda i: edits[i].start)
    candidates: list[tuple[int, int, ast.AST]] = []
    for kind, nodes in unit.index.nodes.items():
        if not issubclass(kind, ast.expr):
            continue
        for node in nodes:
            parent = unit.index.parents.get(node)
            if isinstance(parent, ast.stmt) or not isinstance(
                parent, (ast.expr, ast.keyword, ast.comprehension, ast.Slice)
            ):
                candidates.append((unit.start(node), unit.end(node), node))
    candidates.sort(key=lambda c: (c[0], -c[1]))
    position = 0
    for number in order:
        edit = edits[number]
        while position < len(candidates) and candidates[position][1] < edit.end:
            position += 1
        at = position
        while at < len(candidates) and candidates[at][0] <= edit.start:
            if candidates[at][1] >= edit.end:
                found[number] = candidates[at][2]
                break
            at += 1
    for number, top in enumerate(found):
        if top is not None and unit.end(top) - unit.start(top) > LARGE:
            found[number] = _part(unit, top, edits[number])
    return found


def _part(unit: Unit, top: ast.AST, edit: Edit) -> ast.AST:
    """The largest expression inside ``top`` that holds the edit and is not too large; ``top`` if there is none."""
    best, size = top, 0
    stack: list[ast.AST] = [top]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if not hasattr(child, "lineno"):
                stack.append(child)
                continue
            start, end = unit.span(child)
            if start <= edit.start and edit.end <= end:
                if isinstance(child, ast.expr) and size < end - start <= LARGE:
                    best, size = child, end - start
                else:
                    stack.append(child)
    return best


def _check_word(unit: Unit, edit: Edit) -> None:
    """Outside expressions only names are replaced: the span must be a whole dotted name."""
    old = unit.data[edit.start : edit.end]
    before = unit.data[edit.start - 1 : edit.start]
    after = unit.data[edit.end : edit.end + 1]
    word = old.replace(b".", b"").replace(b" ", b"")
    whole = not (before.isalnum() or before == b"_") and not (after.isalnum() or after == b"_")
    statement = old.lstrip().startswith((b"import", b"from"))
    quoted = word[:1] in b"'\"" if word else False
    if not (statement or quoted or (whole and word.isascii() and word.replace(b"_", b"a").isalnum())):
        line, column = unit.source.position(edit.start)
        raise GuardError(f"line {line}, column {column}: no name stands where an edit was planned")


def _too_deep(source: bytes) -> bool:
    """Whether brackets nest, or operators and dots follow each other, further than libcst may be trusted with."""
    if max(source.count(b"+"), source.count(b"."), source.count(b"*"), source.count(b"-")) > CHAIN:
        return True
    if source.count(b"(") + source.count(b"[") + source.count(b"{") <= DEPTH:
        return False
    level = 0
    for char in source:
        if char in b"([{":
            level += 1
            if level > DEPTH:
                return True
        elif char in b")]}":
            level -= 1
    return False


def _check_expression(unit: Unit, top: ast.AST, edits: list[Edit]) -> None:
    start, end = unit.span(top)
    source = unit.data[start:end]
    line, column = unit.source.position(start)
    if _too_deep(source):
        raise GuardError(f"line {line}: this expression nests too deeply to be checked")
    try:
        _, state = parse_expression(source)
    except (cst.ParserSyntaxError, ValueError) as error:
        raise GuardError(f"line {line}: libcst does not read this expression: {type(error).__name__}") from None
    ascii_only = source.isascii()
    text = "" if ascii_only else source.decode("utf-8")
    offsets = list(itertools.accumulate((len(char.encode("utf-8")) for char in text), initial=0))
    spans: set[tuple[int, int]] = set()
    literals: list[tuple[int, int]] = []
    for node in state.nodes:
        first, last = (p - 1 for p in state.spans[id(node)])
        if first < 0:
            continue
        if not ascii_only:
            if last > len(text):
                continue  # the closing parenthesis put around the expression
            first, last = offsets[first], offsets[last]
        spans.add((first + start, last + start))
        if isinstance(node, (cst.SimpleString, cst.FormattedStringText)):
            literals.append((first + start, last + start))
    starts = {s for s, _ in spans}
    ends = {e for _, e in spans}
    for edit in edits:
        if (edit.start, edit.end) in spans:
            continue
        if any(a <= edit.start and edit.end <= b for a, b in literals):
            continue
        if edit.start in starts | {start} and edit.end in ends | {end}:
            continue  # a run of whole nodes
        where = unit.source.position(edit.start)
        raise GuardError(f"line {where[0]}, column {where[1]}: no node stands where an edit was planned")
