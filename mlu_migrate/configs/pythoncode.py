"""
Python inside other files: ``python -c "..."``, here documents, code blocks in Markdown.

The rewriter proper looks at it as a module of its own. Its edits are taken over only where nothing around the code
gives its characters another meaning; else the place is told.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mlu_migrate.configs import checks
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.model import Edit, FileResult, Finding


def check(doc: Document, start: int, end: int, *, quote: str = "", literal: bool = False) -> None:
    """
    Judge the Python in ``doc.text[start:end]``. ``quote`` is what encloses it; ``literal`` says that the shell leaves
    ``$`` and backslashes in it alone.
    """
    found = words.EMBEDDED_PYTHON.search(doc.text, start, end)
    if found is None:
        return
    text = doc.text[start:end]
    if doc.engine is not None and doc.encoding == "utf-8" and (literal or not re.search(r"[\\$`]", text)):
        source = text.encode("utf-8")
        result = doc.engine(source)
        if result.output is not None and _can_stand(doc, result, source, quote, literal):
            take(doc, start, worth_telling(result))
            return
    checks.embedded_python(doc, found.start(), found.end())


def _can_stand(doc: Document, result: FileResult, source: bytes, quote: str, literal: bool) -> bool:
    """Whether the result is what the edits of its findings make, and says the same where it stands."""
    edits = sorted({edit for f in result.findings if f.applied for edit in f.edits})
    out, position = [], 0
    for edit in edits:
        out += [source[position : edit.start], edit.text]
        position = edit.end
    if b"".join([*out, source[position:]]) != result.output:
        return False
    added = b"".join(edit.text for edit in edits)
    if quote and quote.encode() in added:
        return False
    if b"\n" in added and not (doc.free_lines and b"\n" in source):
        return False
    return literal or not re.search(rb"[\\$`]", added)


def worth_telling(result: FileResult) -> list[Finding]:
    """The findings without those that speak of the file as a whole: a block is no program."""
    return [f for f in result.findings if f.code != "MLU001" or f.edits]


def take(doc: Document, start: int, findings: list[Finding]) -> None:
    """Take over findings about ``doc.text[start:...]`` that were made as if it were a file of its own."""
    shift, (lines, columns) = doc.byte(start), doc.position(start)
    for f in findings:
        first = columns - 1 if f.line == 1 else 0
        last = columns - 1 if f.end_line == 1 else 0
        doc.findings.append(
            replace(
                f,
                path=doc.path,
                line=f.line + lines - 1,
                column=f.column + first,
                end_line=f.end_line + lines - 1,
                end_column=f.end_column + last,
                edits=tuple(Edit(e.start + shift, e.end + shift, e.text) for e in f.edits),
                applied=False,
            )
        )
