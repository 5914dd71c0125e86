"""
The edit map: which rule last edited which line of the migrated program. The one thing parity needs from the rewriter.

    {"version": 1, "files": {"train.py": [
        {"code": "MLU201", "name": "cuda-method", "lines": [12, 12], "source": [12, 12], "before": "x.cuda()",
         "after": "x.mlu()", "applied": true, "safety": "safe", "fingerprint": "..."}]}}

``lines`` are first and last line in the migrated file, ``source`` in the original. Findings that were not applied are
listed too, with ``applied`` false: guesses, which run-time evidence can turn into edits, and errors and warnings, which
people decide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1


class EditMapError(Exception):
    """An edit map that cannot be read; the text names the file."""


@dataclass(frozen=True)
class EditMap:
    """Edits by file of the migrated program, POSIX paths relative to its root."""

    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def applied(self) -> list[tuple[str, dict[str, Any]]]:
        """All applied edits with their file, in order."""
        return [(path, edit) for path, edits in sorted(self.files.items()) for edit in edits if edit["applied"]]

    def left(self) -> list[tuple[str, dict[str, Any]]]:
        """Errors and warnings that nothing was applied for, with their file, in order."""
        return [
            (path, edit)
            for path, edits in sorted(self.files.items())
            for edit in edits
            if not edit["applied"] and edit.get("severity") in ("error", "warning")
        ]

    def at(self, path: str, line: int) -> list[dict[str, Any]]:
        """Applied edits on a line, the last one last."""
        return [e for e in self.files.get(path, []) if e["applied"] and e["lines"][0] <= line <= e["lines"][1]]

    def within(self, path: str, first: int, last: int) -> list[dict[str, Any]]:
        """Applied edits in a range of lines."""
        return [
            e for e in self.files.get(path, []) if e["applied"] and e["lines"][0] <= last and e["lines"][1] >= first
        ]


def read(path: Path) -> EditMap:
    """Read an edit map. Raises EditMapError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}, wanted {VERSION}")
        files = {str(name): [_checked(e) for e in edits] for name, edits in data["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise EditMapError(f"{path}: not an edit map: {error}") from error
    return EditMap(files)


def _checked(edit: dict[str, Any]) -> dict[str, Any]:
    return {
        **edit,
        "code": str(edit["code"]),
        "applied": bool(edit["applied"]),
        "lines": [int(edit["lines"][0]), int(edit["lines"][1])],
        "source": [int(edit["source"][0]), int(edit["source"][1])],
    }
