"""Text of one kind inside a file of another: a here document that writes a YAML file, a code block in Markdown."""

from __future__ import annotations

from collections.abc import Callable

from mlu_migrate.configs import pythoncode
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.shellwords import DEPTH


def embed(doc: Document, start: int, end: int, checker: Callable[[Document], None], path: str | None = None) -> None:
    """
    Judge ``doc.text[start:end]``, which starts a line, as a file of its own, and take its findings over. ``path`` is
    the name that the file would have, where that is known.
    """
    inner = Document(doc.text[start:end].encode(doc.encoding), path or doc.path, doc.settings, prose=doc.prose)
    if doc.depth > DEPTH:
        return
    inner.depth = doc.depth + 1
    inner.engine, inner.embed, inner.program = doc.engine, doc.embed, doc.program
    inner.groups = doc.groups
    checker(inner)
    pythoncode.take(doc, start, inner.findings)
    for name, (first, last) in inner.reads.items():
        doc.reads.setdefault(name, (start + first, start + last))
