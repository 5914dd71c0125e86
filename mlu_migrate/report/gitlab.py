"""GitLab's code quality report: a JSON list that merge requests show beside the changed lines."""

from __future__ import annotations

import json
from typing import Any

from mlu_migrate.model import FileStatus, RunResult, Severity
from mlu_migrate.report.places import file_line, numbered, sentence
from mlu_migrate.settings import Settings

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """The list. Fingerprints are unique in it and survive line moves, so GitLab can tell new findings from old."""
    issues: list[dict[str, Any]] = []
    for file in run.files:
        for finding, mark in numbered(file.findings):
            issues.append(
                {
                    "description": sentence(finding, lang),
                    "check_name": f"{finding.code} {finding.name}",
                    "fingerprint": mark,
                    "severity": _SEVERITIES[finding.severity],
                    "location": {"path": finding.path, "lines": {"begin": file_line(file, finding)}},
                }
            )
        if file.status is FileStatus.FAILED:
            issues.append(
                {
                    "description": file.reason or "failed",
                    "check_name": "not-migrated",
                    "fingerprint": f"not-migrated {file.path}",
                    "severity": "critical",
                    "location": {"path": file.path, "lines": {"begin": 1}},
                }
            )
    return json.dumps(issues, ensure_ascii=True, indent=1) + "\n"
