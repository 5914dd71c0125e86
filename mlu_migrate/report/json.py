"""The JSON report, version 1 (design 2.2). Also the records that the other machine formats are made of."""

from __future__ import annotations

import json
from typing import Any

from mlu_migrate import __version__
from mlu_migrate.messages import render as words
from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult
from mlu_migrate.report import change, summary
from mlu_migrate.settings import Settings

VERSION = 1


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """The whole report as one JSON document."""
    return (
        json.dumps(document(run, lang), ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace").decode()
        + "\n"
    )


def document(run: RunResult, lang: str = "en") -> dict[str, Any]:
    """The report as plain data."""
    return {
        "version": VERSION,
        "tool": {"name": "mlu-migrate", "version": __version__},
        "target": {"device": "mlu", "torch_mlu": run.torch_mlu},
        "summary": summary(run),
        "files": [file_record(file) for file in run.files],
        "findings": [finding_record(finding, lang) for finding in run.findings],
    }


def file_record(file: FileResult) -> dict[str, Any]:
    """One element of ``files``. ``sha256`` is of the migrated bytes, null for a file that was not read."""
    unread = not file.source and file.status in (FileStatus.SKIPPED, FileStatus.FAILED)
    digest = None if unread else file.sha256
    return {"path": file.path, "status": file.status.value, "reason": file.reason, "sha256": digest}


def finding_record(finding: Finding, lang: str = "en") -> dict[str, Any]:
    """One element of ``findings``."""
    message, hint = words(finding, lang)
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "safety": finding.safety.value,
        "confidence": finding.confidence.value,
        "applied": finding.applied,
        "path": finding.path,
        "cell": finding.cell,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "message": message,
        "hint": hint,
        "before": finding.before,
        "after": finding.after if finding.after != finding.before else change(finding)[1],
        "fingerprint": finding.fingerprint,
        "url": finding.url,
    }
