"""
SARIF 2.1.0 (OASIS standard), for code scanning services and editors.

Regions are in code points, as the JSON report has them; fixes are byte spans of the file. A finding in a notebook
names its cell as logical location, because SARIF knows lines of files only.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from mlu_migrate import __version__
from mlu_migrate.messages import render as words
from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult, Severity
from mlu_migrate.report.places import file_line, numbered, sentence
from mlu_migrate.settings import Settings

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """The log with one run in it."""
    return json.dumps(document(run, lang), indent=1) + "\n"


def document(run: RunResult, lang: str = "en") -> dict[str, Any]:
    """The log as plain data."""
    rules = _rules(run)
    places = {rule["id"]: index for index, rule in enumerate(rules)}
    results = [
        _result(file, finding, mark, places, lang) for file in run.files for finding, mark in numbered(file.findings)
    ]
    failed = [file for file in run.files if file.status is FileStatus.FAILED]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mlu-migrate",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": rules,
                    }
                },
                "language": "zh-CN" if lang == "zh" else "en-US",
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"ROOT": {"description": {"text": "The folder that was migrated."}}},
                "invocations": [
                    {
                        "executionSuccessful": not failed,
                        "toolExecutionNotifications": [_notification(file) for file in failed],
                    }
                ],
                "results": results,
                "properties": {"torch_mlu": run.torch_mlu},
            }
        ],
    }


def _rules(run: RunResult) -> list[dict[str, Any]]:
    """The rules that have findings, with their pages."""
    from mlu_migrate.configs.catalogue import pages
    from mlu_migrate.rule import all_rules

    known: dict[str, Any] = {rule.code: rule for rule in all_rules()}
    known.update({page.code: page for page in pages()})
    names = {finding.code: finding.name for finding in run.findings}
    rules = []
    for code, name in sorted(names.items()):
        record: dict[str, Any] = {"id": code, "name": _pascal(name)}
        page = _page(known.get(code))
        if page:
            record["shortDescription"] = {"text": page[0]}
            record["help"] = {"text": page[1]}
            record["defaultConfiguration"] = {"level": _LEVELS[known[code].severity]}
        rules.append(record)
    return rules


def _page(rule: Any) -> tuple[str, str] | None:
    doc = (getattr(rule, "__doc__", None) or "").strip()
    if not doc:
        return None
    lines = [line.removeprefix("    ") for line in doc.splitlines()]
    return lines[0].strip(), "\n".join(lines)


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _result(file: FileResult, finding: Finding, mark: str, places: dict[str, int], lang: str) -> dict[str, Any]:
    artifact = {"uri": _uri(finding.path), "uriBaseId": "ROOT"}
    physical: dict[str, Any] = {"artifactLocation": artifact, "region": _region(file, finding)}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.cell is not None:
        location["logicalLocations"] = [{"name": f"cell {finding.cell}", "kind": "module"}]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": places[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": _text(sentence(finding, lang))},
        "locations": [location],
        "partialFingerprints": {"mluMigrate/v1": mark},
        "properties": {
            "safety": finding.safety.value,
            "confidence": finding.confidence.value,
            "applied": finding.applied,
        },
    }
    if finding.edits:
        replacements = [
            {
                "deletedRegion": {"byteOffset": edit.start, "byteLength": edit.end - edit.start},
                "insertedContent": {"text": edit.text.decode("utf-8", "replace")},
            }
            for edit in finding.edits
        ]
        result["fixes"] = [
            {
                "description": {"text": _text(words(finding, lang)[0])},
                "artifactChanges": [{"artifactLocation": artifact, "replacements": replacements}],
            }
        ]
    return result


def _region(file: FileResult, finding: Finding) -> dict[str, Any]:
    if finding.cell is not None:
        return {"startLine": file_line(file, finding)}
    region: dict[str, Any] = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    if finding.before:
        region["snippet"] = {"text": _text(finding.before)}
    return region


def _notification(file: FileResult) -> dict[str, Any]:
    location = {"physicalLocation": {"artifactLocation": {"uri": _uri(file.path), "uriBaseId": "ROOT"}}}
    return {"level": "error", "message": {"text": _text(file.reason or "failed")}, "locations": [location]}


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"))


def _text(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode()
