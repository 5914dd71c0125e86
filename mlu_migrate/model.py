"""
Frozen records that every part shares. Imports nothing of ours.

Offsets are byte offsets into the original file, half open. Lines and columns start at 1 and count code points.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


class Safety(str, enum.Enum):
    """How far an edit may be trusted."""

    SAFE = "safe"  # you would accept it unseen
    UNSAFE = "unsafe"  # right if a guess holds; applied with --unsafe only
    MANUAL = "manual"  # told, never applied


class Severity(str, enum.Enum):
    """How much a finding matters to the migrated program."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warning, 2 for error."""
        return ("info", "warning", "error").index(self.value)


class Confidence(str, enum.Enum):
    """How sure a rule is of what it says."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ExitStatus(enum.IntEnum):
    """Exit codes of the command line (design 2.1)."""

    OK = 0
    LEFT = 1
    FAILURE = 2


class FileStatus(str, enum.Enum):
    """What happened to one file."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace bytes ``start:end`` of the original file by ``text``; ``start == end`` inserts."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule has to say about one place. ``edits`` is empty for advice."""

    code: str
    name: str
    severity: Severity
    safety: Safety
    confidence: Confidence
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message_id: str
    args: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    before: str = ""
    after: str = ""
    applied: bool = False
    cell: int | None = None
    url: str | None = None
    group: str | None = None  # findings of one group are applied together or not at all

    @property
    def fingerprint(self) -> str:
        """Stable over line moves: path, code, message and the normalised snippet."""
        snippet = " ".join(self.before.split())
        text = "\0".join((self.path, str(self.cell or ""), self.code, self.message_id, snippet))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def with_(self, **changes: object) -> Finding:
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class FileResult:
    """What the engine made of one file. ``output`` is None unless the status is CHANGED."""

    path: str
    status: FileStatus
    reason: str | None = None
    source: bytes = b""
    output: bytes | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def result(self) -> bytes:
        """The bytes the migrated tree holds for this file."""
        return self.source if self.output is None else self.output

    @property
    def sha256(self) -> str:
        """Digest of :attr:`result`, as the JSON report gives it."""
        return hashlib.sha256(self.result).hexdigest()


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a run found, in path order."""

    files: tuple[FileResult, ...]
    torch_mlu: str = "2.4"
    seconds: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, file after file, each file in source order."""
        return tuple(f for file in self.files for f in file.findings)
