"""MLU107: types of torch.cuda written as text or in a type comment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mlu_migrate import rename, sieve, strings, typetexts
from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.scopes import Scope
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

_CHAIN = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_INNER = re.compile(r"(?<![\w.])Literal\s*\[[^\]]*\]|'[^']*'|\"[^\"]*\"")


class TextAnnotation(Rule):
    """
    Types of torch.cuda in string annotations and type comments.

    ## What it changes
    The dotted name inside a quoted annotation, `typing.cast`, `TypeVar`, `NewType` and other forward references, and
    inside `# type:` comments. Type comments are the only comments that change.

    ## Before
        from typing import Optional

        import torch

        def wait(stream: "Optional[torch.cuda.Stream]"):
            event = None  # type: torch.cuda.Event

    ## After
        from typing import Optional

        import torch
        import torch_mlu  # noqa: F401

        def wait(stream: "Optional[torch.mlu.Stream]"):
            event = None  # type: torch.mlu.Event

    ## Left alone
    `Literal["cuda"]` (MLU203 decides), text in `Annotated`, `# type: ignore`, ordinary comments and docstrings.

    ## Source
    mlu_migrate/tables/torch.toml, one source a row.
    """

    code = "MLU107"
    name = "text-annotation"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("names",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """Type comments; annotations are reached as constants."""
        if b"cuda" not in unit.data:
            return
        for at, text in typetexts.comments(unit):
            yield from self._names(unit, at, text, self._scope_at(unit, at), comment=True)

    @sieve.texts(lambda text: "." in text)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Quoted types."""
        if not isinstance(node.value, str) or "." not in node.value or is_kept(unit, node):
            return
        scope = typetexts.texts(unit).get(node)
        if scope is None:
            return
        try:
            ast.parse(node.value.strip(), mode="eval")
        except (SyntaxError, ValueError):
            return
        for piece in strings.pieces(unit.data, *unit.span(node)) or ():
            if piece.plain:
                yield from self._names(unit, piece.start, piece.raw, scope)

    def _names(self, unit: Unit, start: int, text: str, scope: Scope, *, comment: bool = False) -> Iterator[Finding]:
        blank = (
            _INNER.sub(lambda m: " " * len(m[0]), text) if comment else re.sub(r"Literal\s*\[[^\]]*\]", _blank, text)
        )
        release = unit.settings.torch_mlu
        for match in _CHAIN.finditer(blank):
            root, _, rest = match[0].partition(".")
            base = typetexts.name_in(unit, root, scope)
            if base is None or not (base == "torch" or base.startswith("torch.")):
                continue
            name = f"{base}.{rest}"
            found = rename.target(name, release)
            if found is None:
                continue
            first = start + len(text[: match.start()].encode("utf-8"))
            span = (first, first + len(match[0]))
            if found.mlu is None:
                note = found.row.note if found.row is not None and found.row.note else "torch_mlu has no such name"
                yield self.found(unit, span, "missing", severity=Severity.WARNING, cuda=name, note=note)
                continue
            head = rename.mapped(base, release)
            if not found.mlu.startswith(head + "."):
                yield self.found(unit, span, "by_hand", severity=Severity.WARNING, cuda=match[0], mlu=found.mlu)
                continue
            new = root + found.mlu[len(head) :]
            if new != match[0]:
                edit = Edit(span[0], span[1], new.encode())
                yield self.found(unit, span, "comment" if comment else "renamed", edit, cuda=match[0], mlu=new)

    def _scope_at(self, unit: Unit, at: int) -> Scope:
        """The innermost function around an offset: names of a type comment are looked up there."""
        line = unit.source.line_of(at)
        best, size = unit.index.module, 1 << 60
        for node, scope in unit.index.scopes.items():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                last = node.end_lineno or node.lineno
                if node.lineno <= line <= last and last - node.lineno < size:
                    best, size = scope, last - node.lineno
        return best


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
