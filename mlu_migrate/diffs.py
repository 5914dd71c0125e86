"""
Unified diffs of bytes, in whatever encoding and with whatever line ends the files have; ``patch`` and ``git apply``
take them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from mlu_migrate.model import FileResult
from mlu_migrate.report import printable

CONTEXT = 3


def unified(file: FileResult) -> bytes:
    """The change of one file, empty where there is none."""
    if file.output is None or file.output == file.source:
        return b""
    name = _header(file.path)
    out = [b"--- a/" + name, b"+++ b/" + name]
    before, after = _lines(file.source), _lines(file.output)
    skipped = _same_start(before, after)
    end = _same_end(before[skipped:], after[skipped:])
    hunks = difflib.diff_bytes(
        difflib.unified_diff,
        before[skipped : len(before) - end],
        after[skipped : len(after) - end],
        lineterm=b"\n",
        n=CONTEXT,
    )
    for line in list(hunks)[2:]:
        if line.startswith(b"@@") and skipped:
            line = _moved(line, skipped)
        if line.endswith(b"\n"):
            out.append(line[:-1])
        else:
            out += [line, b"\\ No newline at end of file"]
    return b"\n".join(out) + b"\n"


def unified_all(files: Iterable[FileResult]) -> bytes:
    """The changes of all files, one after the other."""
    return b"".join(unified(file) for file in files)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _same_start(before: list[bytes], after: list[bytes]) -> int:
    """How many lines at the start need not be compared: those that are the same, but for the context."""
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    return max(0, same - CONTEXT)


def _same_end(before: list[bytes], after: list[bytes]) -> int:
    """How many lines at the end need not be compared."""
    same = 0
    for one, other in zip(reversed(before), reversed(after), strict=False):
        if one != other:
            break
        same += 1
    return max(0, min(same, len(before), len(after)) - CONTEXT)


def _moved(line: bytes, by: int) -> bytes:
    """A hunk header with its line numbers moved down."""
    parts = line.split(b" ")
    for index in (1, 2):
        sign, (first, comma, count) = parts[index][:1], parts[index][1:].partition(b",")
        parts[index] = sign + str(int(first) + by).encode() + comma + count
    return b" ".join(parts)


def _header(path: str) -> bytes:
    return printable(path).encode("utf-8", "backslashreplace")
