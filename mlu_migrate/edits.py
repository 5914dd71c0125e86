"""Order, merge and apply byte edits."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from mlu_migrate.model import Edit, Finding


def select(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """
    Split findings into those whose edits can be applied together and those that must wait for another round.

    Findings are taken in the order given. Equal edits of two findings are one edit. Findings of one group stand or fall
    together.
    """
    ordered = list(findings)
    groups: dict[str, list[Finding]] = {}
    for finding in ordered:
        if finding.group:
            groups.setdefault(finding.group, []).append(finding)
    taken = _Taken()
    accepted: list[Finding] = []
    waiting: list[Finding] = []
    done: set[str] = set()
    for finding in ordered:
        if finding.group in done and finding.group:
            continue
        batch = groups[finding.group] if finding.group else [finding]
        edits = [e for f in batch for e in f.edits]
        if not any(taken.clashes(e) for e in edits):
            taken.add(edits)
            accepted.extend(batch)
        else:
            waiting.extend(batch)
        if finding.group:
            done.add(finding.group)
    return accepted, waiting


class _Taken:
    """Edits accepted so far, in source order; they never overlap, so a new one is compared with its neighbours only."""

    def __init__(self) -> None:
        self._edits: list[Edit] = []
        self._known: set[Edit] = set()

    def add(self, edits: Iterable[Edit]) -> None:
        for edit in edits:
            if edit not in self._known:
                self._known.add(edit)
                bisect.insort(self._edits, edit)

    def clashes(self, edit: Edit) -> bool:
        """Whether the edit overlaps one that was taken. Equal edits, and insertions at a border, do not."""
        if edit in self._known:
            return False
        at = bisect.bisect_left(self._edits, edit)
        for number in range(at, len(self._edits)):
            other = self._edits[number]
            if other.start >= edit.end and other.start > edit.start:
                break
            if _overlap(edit, other):
                return True
        for number in range(at - 1, -1, -1):
            other = self._edits[number]
            if _overlap(edit, other):
                return True
            if other.start < other.end:  # a replacement; what lies before it ends before it
                break
        return False


def _overlap(edit: Edit, other: Edit) -> bool:
    if edit.start == edit.end and other.start == other.end:
        return False
    if edit.start == edit.end:
        return other.start < edit.start < other.end
    if other.start == other.end:
        return edit.start < other.start < edit.end
    return edit.start < other.end and other.start < edit.end


def unique(findings: Iterable[Finding]) -> list[Edit]:
    """The edits of findings, sorted, each once. Insertions at one place keep the order of their findings."""
    seen: dict[Edit, None] = {}
    for finding in findings:
        for edit in finding.edits:
            seen.setdefault(edit)
    return sorted(seen, key=lambda e: (e.start, e.end))


def apply(source: bytes, edits: list[Edit]) -> bytes:
    """The source with non-overlapping, sorted edits applied."""
    out: list[bytes] = []
    position = 0
    for edit in edits:
        if edit.start < position:
            raise ValueError(f"overlapping edits at byte {edit.start}")
        out.append(source[position : edit.start])
        out.append(edit.text)
        position = edit.end
    out.append(source[position:])
    return b"".join(out)


def shift(offset: int, edits: list[Edit]) -> int:
    """Where an offset of the edited text stood before the (sorted) edits were applied."""
    moved = 0
    for edit in edits:
        start = edit.start + moved
        if offset < start:
            break
        if offset < start + len(edit.text):
            return edit.start
        moved += len(edit.text) - (edit.end - edit.start)
    return offset - moved
