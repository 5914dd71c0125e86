"""Rows of a side-by-side diff, with the findings that explain each row."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlu_migrate.model import FileResult, Finding
from mlu_migrate.report.places import file_line

LONGEST = 400  # characters shown of one line; a notebook's image is one line of megabytes
_LOOK_AHEAD = 60  # lines in which two versions are expected to meet again
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


@dataclass(slots=True)
class Row:
    """One row. Numbers start at 1 and are None on the side that has no line; ``old == new`` for context."""

    old_number: int | None
    new_number: int | None
    old: str
    new: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether the two sides differ."""
        return self.old_number is None or self.new_number is None or self.old != self.new


def hunks(file: FileResult, context: int = 2) -> list[list[Row]]:
    """The changed places of a file with some lines around each."""
    if file.output is None:
        return []
    old, new = _lines(file.source), _lines(file.output)
    spans = list(changes(old, new))
    rows: list[list[Row]] = []
    done = 0  # old lines shown so far
    for number, (i1, i2, j1, j2) in enumerate(spans):
        start = max(done, i1 - context)
        if number == 0 or start > done:
            rows.append([])
        rows[-1] += [Row(n + 1, n + 1 + j1 - i1, old[n], old[n]) for n in range(start, i1)]
        for k in range(max(i2 - i1, j2 - j1)):
            left, right = i1 + k < i2, j1 + k < j2
            rows[-1].append(
                Row(
                    i1 + k + 1 if left else None,
                    j1 + k + 1 if right else None,
                    old[i1 + k] if left else "",
                    new[j1 + k] if right else "",
                )
            )
        following = spans[number + 1][0] if number + 1 < len(spans) else len(old)
        done = min(i2 + context, following)
        rows[-1] += [Row(n + 1, n + 1 + j2 - i2, old[n], old[n]) for n in range(i2, done)]
    _explain(file, rows)
    for hunk in rows:
        for row in hunk:
            row.old, row.new = shown(row.old), shown(row.new)
    return rows


def shown(text: str) -> str:
    """One line as a page may show it: no control or direction characters in disguise, and not endless."""
    clean = _HIDDEN.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
    return clean if len(clean) <= LONGEST else f"{clean[:LONGEST]}…"


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return [line.rstrip("\r") for line in text.split("\n")]


def changes(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """
    Differing stretches as (start, end) in the old and (start, end) in the new lines.

    Rewriting touches few lines, so both texts are walked together and only the next few lines are searched for where
    they meet again; where they do not, the rest is compared in full.
    """
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
            continue
        meeting = _meeting(old, new, i, j)
        if meeting is None:
            matcher = difflib.SequenceMatcher(None, old[i:], new[j:], autojunk=False)
            for kind, i1, i2, j1, j2 in matcher.get_opcodes():
                if kind != "equal":
                    yield i + i1, i + i2, j + j1, j + j2
            return
        yield i, meeting[0], j, meeting[1]
        i, j = meeting


def _meeting(old: list[str], new: list[str], i: int, j: int) -> tuple[int, int] | None:
    if len(old) - i <= 1 and len(new) - j <= 1:
        return len(old), len(new)
    for distance in range(1, 2 * _LOOK_AHEAD):
        # As many lines on both sides first: most changes replace lines one by one.
        for left in sorted(
            range(max(0, distance - _LOOK_AHEAD), min(distance, _LOOK_AHEAD) + 1), key=lambda n: abs(distance - 2 * n)
        ):
            a, b = i + left, j + distance - left
            if a > len(old) or b > len(new):
                continue
            if _meets(old, new, a, b):
                return a, b
    return None


def _meets(old: list[str], new: list[str], a: int, b: int) -> bool:
    """Whether both texts go on alike from here: at their ends, or with an equal line and one like it."""
    if a == len(old) or b == len(new):
        return a == len(old) and b == len(new)
    if old[a] != new[b]:
        return False
    if a + 1 == len(old) or b + 1 == len(new):
        return a + 1 == len(old) and b + 1 == len(new)
    one, other = old[a + 1], new[b + 1]
    if one == other:
        return True
    head = len(os.path.commonprefix((one, other)))
    tail = len(os.path.commonprefix((one[head:][::-1], other[head:][::-1])))
    return 2 * (head + tail) >= max(len(one), len(other))


def _explain(file: FileResult, rows: list[list[Row]]) -> None:
    """Put each applied finding beside the changed row it explains, or the nearest one of its hunk."""
    applied = [(file_line(file, f), f) for f in file.findings if f.applied]
    changed = [row for hunk in rows for row in hunk if row.changed]
    by_line = {row.old_number: row for row in changed if row.old_number is not None}
    for line, finding in applied:
        row = by_line.get(line) or next((by_line[n] for n in range(line, finding.end_line + 1) if n in by_line), None)
        if row is None and changed:
            row = min(changed, key=lambda r: abs((r.old_number or r.new_number or 0) - line))
        if row is not None and not any(f.code == finding.code and f.args == finding.args for f in row.findings):
            row.findings.append(finding)
