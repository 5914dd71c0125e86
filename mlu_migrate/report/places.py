"""Where a finding is for machines that know files and lines only, and a fingerprint that no other finding has."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator

from mlu_migrate.configs.document import Document
from mlu_migrate.messages import render as words
from mlu_migrate.model import FileResult, Finding
from mlu_migrate.notebook_source import Cell, cells
from mlu_migrate.settings import Settings


def sentence(finding: Finding, lang: str) -> str:
    """Message and hint as one text; for a notebook the cell and line in front."""
    message, hint = words(finding, lang)
    where = "" if finding.cell is None else f"[cell {finding.cell}, line {finding.line}] "
    return f"{where}{message}. {hint}".strip() if hint else f"{where}{message}"


def file_line(file: FileResult, finding: Finding) -> int:
    """
    The line of the file, from 1. A finding in a notebook counts its lines in the cell; it is looked up in the file,
    and put on the first line where the file is not at hand.
    """
    if finding.cell is None:
        return finding.line
    doc, numbered_cells = _cells(file.source)
    cell = numbered_cells.get(finding.cell)
    if cell is None:
        return 1
    lines = cell.text.split("\n")
    at = sum(len(line) + 1 for line in lines[: finding.line - 1]) + finding.column - 1
    return doc.line_of(cell.starts[at] if at < len(cell.starts) else cell.close)


@functools.lru_cache(maxsize=8)
def _cells(source: bytes) -> tuple[Document, dict[int, Cell]]:
    doc = Document(source, "", Settings())
    try:
        return doc, {cell.number: cell for cell in cells(doc) if not cell.empty}
    except (ValueError, IndexError):
        return doc, {}


def numbered(findings: Iterable[Finding]) -> Iterator[tuple[Finding, str]]:
    """Findings with fingerprints that differ also where the same snippet stands twice in a file."""
    seen: dict[str, int] = {}
    for finding in findings:
        mark = finding.fingerprint
        count = seen[mark] = seen.get(mark, 0) + 1
        text = mark if count == 1 else hashlib.sha256(f"{mark}:{count}".encode()).hexdigest()[:16]
        yield finding, text
