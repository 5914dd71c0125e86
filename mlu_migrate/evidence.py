"""
Places that a parity run saw reaching a device, so that a guess about them is one no longer (``--evidence FILE``).

The file is the JSON report of ``mlu-migrate parity``. Its ``device_strings`` lists ``{"path": "cfg.py", "line":
3, "column": 14}`` of the original project, paths from the project root. The column is needed: what stands beside such a
string on its line was not seen.
"""

from __future__ import annotations

import json
from pathlib import Path


class EvidenceError(ValueError):
    """A file that holds no evidence. The text is one line for the user."""


def read(path: Path) -> tuple[tuple[str, int, int], ...]:
    """(path from the project root, line, column) of each place, sorted. Raises EvidenceError."""
    try:
        data = json.loads(path.read_text("utf-8"))
        rows = data["device_strings"]
        return tuple(sorted({(str(row["path"]), int(row["line"]), int(row["column"])) for row in rows}))
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError):
        raise EvidenceError(f"{path}: not a JSON report of mlu-migrate parity") from None
