"""Which framework the programs work for that a script starts; see :mod:`mlu_migrate.frameworks`."""

from __future__ import annotations

import re

from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document

_PROGRAM = re.compile(r"(?P<file>[\w./${}-]*[\w-]\.py)\b|(?<![\w-])-m[ \t]+(?P<module>[A-Za-z_][\w.]*)")
_TORCH = "torch"


def framework(doc: Document, at: int) -> str:
    """
    The framework other than torch that ``doc.text[at:]`` is written for; empty for torch, and where none is known.

    The program on the same command decides, else all programs of the file, else what the file and its name say.
    """
    if doc.program is not None:
        start, end = _command(doc, at)
        kinds = _kinds(doc, start, end)
        if not kinds:
            if doc.launched is None:
                doc.launched = _kinds(doc, 0, len(doc.text))
            kinds = doc.launched
        if kinds:
            return "" if _TORCH in kinds or len(kinds) > 1 else next(iter(kinds))
    if doc.framework is None:
        where = f"{doc.path}\n{doc.text}"
        found = words.FRAMEWORK.search(where)
        doc.framework = "" if found is None or "torch" in where.lower() else found[0]
    return doc.framework


def _kinds(doc: Document, start: int, end: int) -> set[str]:
    found = set()
    for match in _PROGRAM.finditer(doc.text, start, end) if doc.program is not None else ():
        kind = doc.program(match["file"] or match["module"]) if doc.program is not None else None
        if kind is not None:
            found.add(kind)
    return found


def _command(doc: Document, at: int) -> tuple[int, int]:
    """The lines of the command that ``at`` lies in: joined by backslashes."""
    start, end = doc.line_start(at), doc.line_end(at)
    while start > 0 and doc.text[max(0, start - 3) : start].rstrip("\r\n").endswith("\\"):
        start = doc.line_start(start - 1)
    while doc.text[end - 1 : end] == "\\" and end + 1 < len(doc.text):
        end = doc.line_end(end + 2 if doc.text[end : end + 2] == "\r\n" else end + 1)
    return start, end
