"""JSON lines: one object a line, findings in file order, then files that failed or were skipped, then the summary."""

from __future__ import annotations

import json
from typing import Any

from mlu_migrate.model import RunResult
from mlu_migrate.report import summary, troubled
from mlu_migrate.report.json import file_record, finding_record
from mlu_migrate.settings import Settings


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """
    Each line has ``type``: ``finding``, ``file`` or ``summary``, and otherwise the fields of the JSON report.

    Only ASCII is written, so that no character in a project's code can be taken for a line end.
    """
    records: list[dict[str, Any]] = [{"type": "finding", **finding_record(f, lang)} for f in run.findings]
    records += [{"type": "file", **file_record(file)} for file in troubled(run)]
    records.append({"type": "summary", "torch_mlu": run.torch_mlu, **summary(run)})
    return "".join(json.dumps(record) + "\n" for record in records)
