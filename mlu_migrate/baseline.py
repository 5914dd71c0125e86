"""
Findings that a project has agreed to live with (design 2.3).

A row is path, code, snippet with white space made single, and how often: no line numbers, so that it survives edits
elsewhere. Paths are relative to the folder of the baseline file, so that a hook and a full run agree. Rows are
sorted; the file diffs well.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from mlu_migrate import atomic
from mlu_migrate.model import Finding

VERSION = 1
_Row = tuple[str, str, str]


class BaselineError(ValueError):
    """A baseline that cannot be used. The text is one line for the user."""


class Baseline:
    """Rows with their counts, and the folder their paths are relative to."""

    def __init__(self, rows: Counter[_Row], folder: Path) -> None:
        self.rows = rows
        self.folder = folder

    def split(self, findings: Iterable[Finding], path: Path) -> tuple[list[Finding], list[Finding]]:
        """
        The findings of one file, the file at ``path``, as (new, held by the baseline).

        Where the baseline holds fewer of a kind than there are, the first ones in the file are held.
        """
        left = Counter(self.rows)
        new: list[Finding] = []
        held: list[Finding] = []
        where = relative(path, self.folder)
        for finding in findings:
            row = (where, finding.code, snippet(finding))
            if left[row] > 0:
                left[row] -= 1
                held.append(finding)
            else:
                new.append(finding)
        return new, held


def snippet(finding: Finding) -> str:
    """The code of a finding with every run of white space made one space."""
    return " ".join(finding.before.split())


def relative(path: Path, folder: Path) -> str:
    """``path`` from ``folder``, with ``/``."""
    return os.path.relpath(path, folder).replace(os.sep, "/")


def read(path: Path) -> Baseline:
    """Raises BaselineError for a file that is missing, unreadable or no baseline."""
    try:
        data = json.loads(path.read_text("utf-8"))
        if data["version"] != VERSION:
            raise BaselineError(f"{path}: a baseline of version {data['version']}, this tool reads version {VERSION}")
        rows: Counter[_Row] = Counter()
        for row in data["rows"]:
            rows[str(row["path"]), str(row["code"]), str(row["snippet"])] += int(row["count"])
    except OSError as error:
        raise BaselineError(f"{path}: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BaselineError):
            raise
        raise BaselineError(f"{path}: not a baseline file, write one with --write-baseline") from None
    return Baseline(rows, path.absolute().parent)


def write(path: Path, found: Iterable[tuple[Path, Finding]], *, root: Path | None = None) -> int:
    """
    Write a baseline that holds these findings, each given with its file. Returns the number of rows. Raises
    OSError, also where ``root`` is given and the path leads out of it.
    """
    folder = path.absolute().parent
    rows = Counter((relative(file, folder), finding.code, snippet(finding)) for file, finding in found)
    lines = [
        json.dumps({"path": row[0], "code": row[1], "snippet": row[2], "count": count}, ensure_ascii=False)
        for row, count in sorted(rows.items())
    ]
    body = ",\n    ".join(lines)
    text = (
        f'{{\n  "version": {VERSION},\n  "rows": [\n    {body}\n  ]\n}}\n' if lines else '{"version": 1, "rows": []}\n'
    )
    atomic.write(path, text.encode("utf-8", "backslashreplace"), root=root)
    return len(rows)
