"""Workflow commands that GitHub turns into annotations on the lines of a pull request."""

from __future__ import annotations

from mlu_migrate.model import FileResult, Finding, RunResult, Severity
from mlu_migrate.report import troubled
from mlu_migrate.report.places import file_line, sentence
from mlu_migrate.settings import Settings

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """
    One command a finding. GitHub shows ten of each level for a step, so the gravest come first.
    """
    pairs = [(file, finding) for file in run.files for finding in file.findings]
    pairs.sort(key=lambda pair: -pair[1].severity.rank)
    lines = [_annotation(file, finding, lang) for file, finding in pairs]
    lines += [f"::error file={_property(file.path)}::{_data(file.reason or '')}" for file in troubled(run)]
    return "".join(f"{line}\n" for line in lines)


def _annotation(file: FileResult, finding: Finding, lang: str) -> str:
    line = file_line(file, finding)
    fields = [f"file={_property(finding.path)}", f"line={line}"]
    if finding.cell is None:
        fields.append(f"endLine={finding.end_line}")
        if finding.end_line == finding.line:  # GitHub takes columns for a span in one line only
            fields += [f"col={finding.column}", f"endColumn={finding.end_column}"]
    fields.append(f"title={_property(f'{finding.code} {finding.name}')}")
    return f"::{_LEVELS[finding.severity]} {','.join(fields)}::{_data(sentence(finding, lang))}"


def _data(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
