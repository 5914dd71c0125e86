"""The edit map: which rule edited which line of a migrated copy, for the backend's reports."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mlu_migrate import messages
from mlu_migrate.model import FileResult, Finding, RunResult, Severity


def edit_map(result: RunResult, migrated: Path) -> dict[str, Any]:
    """
    Which rule edited which line of the files in ``migrated``, and which findings were not applied: guesses, and errors
    and warnings, which people decide. Lines are found by
    comparing each file with its original, so they are right too where the migrated file was edited by hand since.
    """
    files: dict[str, list[dict[str, Any]]] = {}
    for file in result.files:
        rows = list(_rows(file, migrated))
        if rows:
            files[file.path] = rows
    return {"version": 1, "files": files}


def _rows(file: FileResult, migrated: Path) -> Iterator[dict[str, Any]]:
    findings = [f for f in file.findings if f.edits or f.applied or f.severity is not Severity.INFO]
    if not findings:
        return
    before = _lines(file.source)
    path = migrated / file.path
    after = _lines(path.read_bytes()) if path.is_file() else _lines(file.result)
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for finding in findings:
        first, last = _target(finding, blocks, after)
        yield {
            "code": finding.code,
            "name": finding.name,
            "lines": [first, last],
            "source": [finding.line, finding.end_line],
            "column": finding.column,
            "before": finding.before,
            "after": finding.after,
            "applied": finding.applied,
            "safety": finding.safety.value,
            "severity": finding.severity.value,
            "message": messages.render(finding)[0],
            "fingerprint": finding.fingerprint,
            "cell": finding.cell,
        }


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _target(
    finding: Finding, blocks: Sequence[tuple[str, int, int, int, int]], after: Sequence[bytes]
) -> tuple[int, int]:
    """First and last line, from 1, of a finding in the migrated file."""
    first, last = finding.line - 1, max(finding.line, finding.end_line) - 1
    inserted = [block for block in blocks if block[0] == "insert" and first <= block[1] <= last + 1]
    text = _first_line(finding.after.encode("utf-8", "surrogatepass"))
    if finding.edits and all(edit.start == edit.end for edit in finding.edits):  # the snippet is what stands beside it
        text = _first_line(b"\n".join(edit.text for edit in finding.edits)) or text
    if inserted and text and finding.applied:
        for _, _, _, low, high in inserted:
            for line in range(low, high):
                if text in after[line]:
                    return line + 1, line + 1
    found: list[int] = []
    for kind, low, high, new_low, new_high in blocks:
        if high <= first or low > last or low == high:
            continue
        start, end = max(low, first), min(high - 1, last)
        if kind == "equal" or high - low == new_high - new_low:
            found += [new_low + start - low, new_low + end - low]
        elif new_high > new_low:
            found += _within(text, after, new_low, new_high)
    if not found:
        found = [first, last]
    low, high = min(found), max(found)
    if finding.applied and text and not any(text in line for line in after[low : high + 1]):
        holding = [number for number, line in enumerate(after) if text in line]
        if holding:  # lines were moved by hand since
            low = high = min(holding, key=lambda number: abs(number - low))
    return low + 1, high + 1


def _first_line(data: bytes) -> bytes:
    return next((line.strip() for line in data.splitlines() if line.strip()), b"")


def _within(text: bytes, after: Sequence[bytes], low: int, high: int) -> list[int]:
    """The lines of a block that hold a text, else all of it."""
    hits = [line for line in range(low, high) if text and text in after[line]]
    return hits or [low, high - 1]
