"""Order, merge and apply byte edits."""

from __future__ import annotations

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
    taken: list[Edit] = []
    accepted: list[Finding] = []
    waiting: list[Finding] = []
    done: set[str] = set()
    for finding in ordered:
        if finding.group in done and finding.group:
            continue
        batch = groups[finding.group] if finding.group else [finding]
        edits = [e for f in batch for e in f.edits]
        if all(not _clashes(e, taken) for e in edits):
            taken.extend(edits)
            accepted.extend(batch)
        else:
            waiting.extend(batch)
        if finding.group:
            done.add(finding.group)
    return accepted, waiting


def _clashes(edit: Edit, taken: list[Edit]) -> bool:
    for other in taken:
        if edit == other:
            continue
        if edit.start == edit.end and other.start == other.end:
            continue
        if edit.start == edit.end:
            if other.start < edit.start < other.end:
                return True
        elif other.start == other.end:
            if edit.start < other.start < edit.end:
                return True
        elif edit.start < other.end and other.start < edit.end:
            return True
    return False


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
