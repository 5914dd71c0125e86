"""
From what was found to what is written.

``--configs report`` (default) writes the safe edits a migrated program needs in order to start: variables, device
values and back ends in scripts and configurations. Everything else is told with its edit. ``--configs write`` adds
the remaining safe edits (documentation), and with ``--unsafe`` the unsafe ones. An output that its format cannot read
although it could read the input is dropped.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from mlu_migrate import audit, suppress
from mlu_migrate.configs import checks
from mlu_migrate.configs.document import Document
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, Safety, Severity

LAUNCH = frozenset({"MLU601", "MLU602", "MLU603"})


def finish(doc: Document, valid: Callable[[str], bool] | None = None) -> FileResult:
    """The result for a document whose checks are done. ``valid`` says whether a text can be read by its format."""
    checks.finish_reads(doc)
    kept = suppressions(doc)
    findings = [f for f in doc.findings if doc.settings.wants(f.code) and not kept.covers(f.code, f.line, f.end_line)]
    columns = {doc.line_of(m.start()): doc.position(m.start())[1] for m in _comments(doc)} if kept else {}
    unused = kept.unused(lambda code: code == "" or doc.settings.wants(code))
    findings += [item.finding(doc.path, columns.get(item.line, 1)) for item in unused]
    if doc.settings.audit and doc.settings.wants(audit.CODE):
        findings += [f for f in remaining(doc, findings) if not kept.covers(f.code, f.line, f.end_line)]
    findings.sort(key=lambda f: (f.line, f.column, f.code, f.message_id))
    findings = distinct(findings)
    chosen = choose(doc, findings)
    output = splice(doc.source, [edit for f in chosen for edit in f.edits])
    if output == doc.source or (valid is not None and not _still_valid(doc, output, valid)):
        return FileResult(doc.path, FileStatus.UNCHANGED, source=doc.source, findings=tuple(findings))
    ids = {id(f) for f in chosen}
    marked = tuple(replace(f, applied=True) if id(f) in ids else f for f in findings)
    return FileResult(doc.path, FileStatus.CHANGED, source=doc.source, output=output, findings=marked)


def suppressions(doc: Document) -> suppress.Suppressions:
    """Ignore comments, in the way that the format writes comments (plain JSON has none)."""
    if not suppress.mentions(doc.text):
        return suppress.Suppressions()
    comments = [(doc.line_of(m.start()), re.sub(r"^(?i:rem\b|//+|::|;+|<!--)", "#", m[0])) for m in _comments(doc)]
    return suppress.parse(b"\n" * doc.text.count("\n"), comments)


def _comments(doc: Document) -> Iterator[re.Match[str]]:
    return re.finditer(rf"(?:{doc.comment})[^\n\r]*", doc.text)


def remaining(doc: Document, findings: list[Finding]) -> list[Finding]:
    """With ``--audit``: one MLU004 finding for each CUDA-like word that no other finding speaks of."""
    told = [((f.line, f.column), (f.end_line, f.end_column)) for f in findings]
    lines = doc.text.split("\n")
    found = []
    for match in audit.WORD.finditer(doc.text):
        line, column = doc.position(match.start())
        if any(start <= (line, column) < end for start, end in told):
            continue
        text = lines[line - 1].strip()
        found.append(
            Finding(
                code=audit.CODE,
                name=audit.NAME,
                severity=Severity.INFO,
                safety=Safety.MANUAL,
                confidence=Confidence.HIGH,
                path=doc.path,
                line=line,
                column=column,
                end_line=line,
                end_column=column + len(match[0]),
                message_id="comment" if text.startswith("#") else "text",
                args={"word": match[0], "text": text[:200]},
                before=match[0],
            )
        )
    return found


def distinct(findings: list[Finding]) -> list[Finding]:
    """Without findings that say the same about the same place (a word seen by two readers)."""
    seen: set[tuple[object, ...]] = set()
    found = []
    for f in findings:
        key = (f.code, f.line, f.column, f.end_line, f.end_column, f.cell)
        if key not in seen:
            seen.add(key)
            found.append(f)
    return found


def choose(doc: Document, findings: list[Finding]) -> list[Finding]:
    """The findings whose edits are written: wanted by the settings, without overlaps, groups whole or not at all."""
    write = doc.settings.configs == "write"
    held = set(doc.settings.kept)
    wanted = []
    for f in findings:
        if (f.code, f.line, f.column) in held:
            continue
        needed = f.code in LAUNCH or not f.code.startswith("MLU6")  # the latter: Python in a command line
        safe = f.safety is Safety.SAFE and (write or (needed and not doc.prose))
        unsafe = f.safety is Safety.UNSAFE and write and doc.settings.unsafe
        if f.edits and (safe or unsafe):
            wanted.append(f)
    return without_overlaps(findings, wanted)


def without_overlaps(findings: list[Finding], wanted: list[Finding]) -> list[Finding]:
    """Drop the later of two findings whose edits touch the same bytes, then groups that are no longer whole."""
    taken: list[Edit] = []  # sorted
    chosen = []
    for f in wanted:
        places = [bisect.bisect(taken, edit) for edit in f.edits]
        near = [(edit, taken[max(0, at - 1) : at + 1]) for edit, at in zip(f.edits, places, strict=True)]
        if not any(_overlap(edit, other) for edit, others in near for other in others):
            for edit in f.edits:
                bisect.insort(taken, edit)
            chosen.append(f)
    ids = {id(f) for f in chosen}
    broken = {f.group for f in findings if f.group and f.edits and id(f) not in ids}
    return [f for f in chosen if f.group not in broken]


def _overlap(one: Edit, other: Edit) -> bool:
    if one.start == one.end or other.start == other.end:
        return one.start == other.start and one.end == other.end
    return one.start < other.end and other.start < one.end


def splice(source: bytes, edits: list[Edit]) -> bytes:
    """The source with edits applied; they do not overlap."""
    parts, position = [], 0
    for edit in sorted(edits):
        parts += [source[position : edit.start], edit.text]
        position = edit.end
    return b"".join([*parts, source[position:]])


def _still_valid(doc: Document, output: bytes, valid: Callable[[str], bool]) -> bool:
    return valid(output[doc.base :].decode(doc.encoding)) or not valid(doc.text)
