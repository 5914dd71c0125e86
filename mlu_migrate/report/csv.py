"""A table of all findings for spreadsheets: one row a finding, a header row first."""

from __future__ import annotations

import csv
import io

from mlu_migrate.model import RunResult
from mlu_migrate.report.json import finding_record
from mlu_migrate.settings import Settings

COLUMNS = (
    "path cell line column end_line end_column code name severity safety confidence applied message hint before after"
    " fingerprint url"
).split()
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """The table. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    paper = io.StringIO()
    writer = csv.writer(paper, lineterminator="\n")
    writer.writerow(COLUMNS)
    for finding in run.findings:
        record = finding_record(finding, lang)
        writer.writerow([_cell(record[name]) for name in COLUMNS])
    return paper.getvalue().encode("utf-8", "backslashreplace").decode()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = value.replace("\0", "\\0")
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value
