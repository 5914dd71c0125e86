"""One file as rules see it: source, index of nodes, names, and the small questions every rule asks."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from mlu_migrate import apimap, strings
from mlu_migrate.index import Index
from mlu_migrate.model import Edit
from mlu_migrate.names import Names
from mlu_migrate.prefilter import WORDS
from mlu_migrate.scopes import Scope
from mlu_migrate.settings import Settings
from mlu_migrate.source import Source

if TYPE_CHECKING:
    from mlu_migrate.flow import Flow
    from mlu_migrate.project import ProjectFacts


class Unit:
    """The parsed file a rule works on. Nothing here changes anything."""

    def __init__(self, source: Source, tree: ast.Module, path: str, settings: Settings, facts: ProjectFacts) -> None:
        self.source = source
        self.data = source.data
        self.path = path
        self.settings = settings
        self.facts = facts
        self.memo: dict[str, object] = {}  # what several rules work out once a file
        before_text = None
        if sys.version_info < (3, 12) and (b"f'" in self.data or b'f"' in self.data or b"F" in self.data):
            before_text = strings.replacing_joined(self.data, source.offset, WORDS)
        self.tree = tree
        self.index = Index(tree, before_text)
        self.module = facts.module_of(path)
        stars = {m: apimap.members(m) for m in _star_modules(self.index)}
        self.names = Names(self.index, self.module, facts.exports, stars, path.endswith("__init__.py"))

    def close(self) -> None:
        """Let go of what refers back to this unit, so that reference counts free the tree (see collecting.py)."""
        self.__dict__.pop("flow", None)
        self.memo.clear()

    # --- places -----------------------------------------------------------------------------------------------
    def start(self, node: ast.AST) -> int:
        """Offset of a node's first byte."""
        return self.source.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Offset after a node's last byte."""
        return self.source.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Byte span of a node in ``data``."""
        return self.start(node), self.end(node)

    def text(self, node: ast.AST) -> str:
        """Source of a node."""
        return self.data[self.start(node) : self.end(node)].decode("utf-8")

    def attr_span(self, node: ast.Attribute) -> tuple[int, int]:
        """Span of the name after the dot."""
        end = self.end(node)
        return end - len(node.attr.encode("utf-8")), end

    # --- edits ------------------------------------------------------------------------------------------------
    def replace(self, node: ast.AST, text: str) -> Edit:
        """Replace a whole node."""
        return Edit(self.start(node), self.end(node), text.encode("utf-8"))

    def rename_attr(self, node: ast.Attribute, name: str) -> Edit:
        """Rename what follows the dot; spacing and line breaks around the dot stay."""
        start, end = self.attr_span(node)
        return Edit(start, end, name.encode("utf-8"))

    def replace_in_string(self, node: ast.expr, old: str, new: str) -> tuple[Edit, ...] | None:
        """
        Replace the first ``old`` in the literal characters of a str literal or f-string, quotes and prefix untouched.

        None where the literal does not spell ``old`` in one plain run (escapes, or split over pieces).
        """
        for piece in strings.pieces(self.data, *self.span(node)) or ():
            at = piece.raw.find(old)
            if at >= 0:
                start = piece.start + len(piece.raw[:at].encode("utf-8"))
                return (Edit(start, start + len(old.encode("utf-8")), new.encode("utf-8")),)
        return self._split(node, old, new)

    def _split(self, node: ast.expr, old: str, new: str) -> tuple[Edit, ...] | None:
        """`"cu" "da"`: put the new text into the first piece and empty the matching rest."""
        pieces = strings.pieces(self.data, *self.span(node)) or []
        if not all(p.plain for p in pieces):
            return None
        whole = "".join(p.raw for p in pieces)
        at = whole.find(old)
        if at < 0 or isinstance(node, ast.JoinedStr):
            return None
        if node.lineno == node.end_lineno and whole == old:
            quote = self.data[pieces[0].end : pieces[0].end + 1]
            return (Edit(self.start(node), self.end(node), quote + new.encode("utf-8") + quote),)
        edits: list[Edit] = []
        position, left, text = 0, len(old), new.encode("utf-8")
        for piece in pieces:
            size = len(piece.raw)
            first = max(at - position, 0)
            if left and first < size:
                count = min(left, size - first)
                start = piece.start + len(piece.raw[:first].encode("utf-8"))
                edits.append(Edit(start, start + len(piece.raw[first : first + count].encode("utf-8")), text))
                left -= count
                at += count
                text = b""
            position += size
        return tuple(edits)

    # --- names ------------------------------------------------------------------------------------------------
    def name(self, node: ast.AST | None) -> str | None:
        """The canonical name of an expression: see `Names.of`."""
        return self.names.of(node)

    def callee(self, node: ast.AST) -> str | None:
        """Canonical name of what a Call calls; None for anything else."""
        return self.names.of(node.func) if isinstance(node, ast.Call) else None

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The syntactic parent."""
        return self.index.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents from the inside out."""
        current = self.index.parents.get(node)
        while current is not None:
            yield current
            current = self.index.parents.get(current)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The smallest statement that holds a node."""
        current: ast.AST = node
        while not isinstance(current, ast.stmt):
            current = self.index.parents[current]
        return current

    def scope(self, node: ast.AST) -> Scope:
        """The scope a node is evaluated in."""
        return self.index.scope(node)

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose body (or method) holds the node."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def is_docstring(self, node: ast.AST) -> bool:
        """A string that is a statement of its own: docstring or commented-out text."""
        return isinstance(self.parent(node), ast.Expr)

    @cached_property
    def flow(self) -> Flow:
        """Where strings go: see flow.py."""
        from mlu_migrate.flow import Flow

        return Flow(self)

    @cached_property
    def uses_torch(self) -> bool:
        """Whether the file imports torch or anything below it, anywhere."""
        for node in self.index.nodes[ast.Import]:
            if any(a.name == "torch" or a.name.startswith("torch.") for a in node.names):
                return True
        return any(
            n.module and not n.level and (n.module == "torch" or n.module.startswith("torch."))
            for n in self.index.nodes[ast.ImportFrom]
        )


def _star_modules(index: Index) -> set[str]:
    return {n.module for s in index.scopes.values() for n in s.stars if n.module and not n.level}


def argument(node: ast.Call, keyword: str, position: int | None = None) -> ast.expr | None:
    """The expression given for a parameter by keyword or by position; None where it is absent or behind ``*args``."""
    for given in node.keywords:
        if given.arg == keyword:
            return given.value
    if position is not None and position < len(node.args):
        head = node.args[: position + 1]
        if not any(isinstance(a, ast.Starred) for a in head):
            return head[position]
    return None


def is_text(node: ast.AST | None, *values: str) -> bool:
    """Whether a node is a str constant (equal to one of ``values``, if given)."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and (not values or node.value in values)
