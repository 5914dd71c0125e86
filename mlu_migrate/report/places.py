"""Where a finding is for machines that know files and lines only, and a fingerprint that no other finding has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from mlu_migrate.messages import render as words
from mlu_migrate.model import FileResult, Finding


def sentence(finding: Finding, lang: str) -> str:
    """Message and hint as one text; for a notebook the cell and line in front."""
    message, hint = words(finding, lang)
    where = "" if finding.cell is None else f"[cell {finding.cell}, line {finding.line}] "
    return f"{where}{message}. {hint}".strip() if hint else f"{where}{message}"


def file_line(file: FileResult, finding: Finding) -> int:
    """
    The line of the file, from 1. A finding in a notebook counts its lines in the cell: its edit says where it lies in
    the file, and one without an edit is put on the first line.
    """
    if finding.cell is None:
        return finding.line
    if not finding.edits or not file.source:
        return 1
    return file.source.count(b"\n", 0, finding.edits[0].start) + 1


def numbered(findings: Iterable[Finding]) -> Iterator[tuple[Finding, str]]:
    """Findings with fingerprints that differ also where the same snippet stands twice in a file."""
    seen: dict[str, int] = {}
    for finding in findings:
        mark = finding.fingerprint
        count = seen[mark] = seen.get(mark, 0) + 1
        text = mark if count == 1 else hashlib.sha256(f"{mark}:{count}".encode()).hexdigest()[:16]
        yield finding, text
