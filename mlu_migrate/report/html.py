"""
The HTML report: one file that opens without a network, for a team to read a migration and to work off what is left.

What is large (findings, diffs) is embedded as data and drawn when it is looked at; every text of the project reaches
the page as text, never as markup. The page allows itself no connection to anywhere.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlu_migrate import __version__
from mlu_migrate.messages import catalogue
from mlu_migrate.messages import render as words
from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult
from mlu_migrate.report import by_code, flags, printable, summary, troubled
from mlu_migrate.report.effort import FIRST, GUESS_FIRST, GUESS_MORE, MORE, Effort, estimate
from mlu_migrate.report.places import numbered
from mlu_migrate.report.sidebyside import hunks, shown
from mlu_migrate.settings import Settings

_TEMPLATES = Path(__file__).parent.parent / "templates"
DIFF_BUDGET = 12_000_000  # bytes of diff data; what comes after is shown without surrounding lines
SNIPPET = 300  # characters of code in the work list


def render(
    run: RunResult,
    settings: Settings,
    lang: str = "en",
    *,
    support: Sequence[Mapping[str, object]] = (),
    parity: str = "",
) -> str:
    """
    The page. ``support`` are rows of the operator support table, each with the same keys in the order to show;
    ``parity`` is an HTML fragment of ours, put in as it is.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    labels = {**catalogue("en", "html"), **catalogue(lang, "html")}
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        lang="zh-CN" if lang == "zh" else "en",
        t=labels,
        version=__version__,
        torch_mlu=run.torch_mlu,
        counts=summary(run),
        effort=_effort(estimate(run), labels),
        rules=[(code, name, len(items), sum(f.applied for f in items)) for code, name, items in by_code(run.findings)],
        troubled=[(printable(file.path), file.status.value, printable(file.reason or "")) for file in troubled(run)],
        support=[{str(key): str(value) for key, value in row.items()} for row in support],
        parity=Markup(parity),
        css=Markup((_TEMPLATES / "report.css").read_text("utf-8")),
        script=Markup((_TEMPLATES / "report.js").read_text("utf-8")),
        data=Markup(_embedded(data(run, lang, labels))),
    )
    return page.encode("utf-8", "backslashreplace").decode()


def data(run: RunResult, lang: str, labels: Mapping[str, Any]) -> dict[str, Any]:
    """What the page's script draws: reasons once each, work items, and files with their diffs."""
    reasons: dict[tuple[str, str, str], int] = {}
    items = []
    for file in run.files:
        for finding, mark in numbered(file.findings):
            if not finding.applied:
                items.append(_item(file, finding, mark, reasons, lang))
    spent = 0
    files = []
    for file in run.files:
        if file.status is not FileStatus.CHANGED:
            continue
        record = _file(file, reasons, lang, 2 if spent < DIFF_BUDGET else 0)
        spent += sum(len(row[2]) + len(row[3]) + 20 for hunk in record[1] for row in hunk)
        files.append(record)
    # Gravest first: the order in which a team wants to work.
    order = {"error": 0, "warning": 1, "info": 2}
    items.sort(key=lambda item: (order[item[1]], item[3]))
    texts = {key: labels[key] for key in labels if key.startswith("js_")}
    return {"reasons": [list(key) for key in reasons], "items": items, "files": files, "texts": texts}


def _reason(finding: Finding, reasons: dict[tuple[str, str, str], int], lang: str) -> int:
    message, hint = words(finding, lang)
    return reasons.setdefault((f"{finding.code} {finding.name}", shown(message), shown(hint)), len(reasons))


def _item(
    file: FileResult, finding: Finding, mark: str, reasons: dict[tuple[str, str, str], int], lang: str
) -> list[Any]:
    before, after = _in_line(file, finding)
    where = str(finding.line) if finding.cell is None else f"[{finding.cell}] {finding.line}"
    return [
        _reason(finding, reasons, lang),
        finding.severity.value,
        finding.safety.value,
        printable(finding.path),
        where,
        _snippet(before),
        _snippet(after) if finding.edits else "",
        mark,
        flags([finding]) if finding.edits else "",
    ]


def _in_line(file: FileResult, finding: Finding) -> tuple[str, str]:
    """Before and after with the rest of their line, where the finding lies in one line of the file."""
    if finding.cell is None and finding.line == finding.end_line:
        lines = _lines_of(file.source)
        line = lines[finding.line - 1] if finding.line <= len(lines) else ""
        left, right = line[: finding.column - 1], line[finding.end_column - 1 :]
        if line == f"{left}{finding.before}{right}":
            return line.strip(), f"{left}{finding.after}{right}".strip()
    return finding.before, finding.after


@functools.lru_cache(maxsize=4)
def _lines_of(source: bytes) -> list[str]:
    return source.decode("utf-8-sig", "replace").splitlines()


def _snippet(text: str) -> str:
    lines = [shown(line) for line in text.split("\n")]
    joined = "\n".join(lines[:12])
    return joined if len(joined) <= SNIPPET else f"{joined[:SNIPPET]}…"


def _file(file: FileResult, reasons: dict[tuple[str, str, str], int], lang: str, context: int) -> list[Any]:
    rows = [
        [
            [row.old_number or 0, row.new_number or 0, row.old, row.new if row.changed else ""]
            + ([[_reason(f, reasons, lang) for f in row.findings]] if row.findings else [])
            for row in hunk
        ]
        for hunk in hunks(file, context)
    ]
    return [printable(file.path), rows, sum(f.applied for f in file.findings)]


def _effort(effort: Effort, labels: Mapping[str, Any]) -> dict[str, Any]:
    """The estimate as hours in words, with the figures it was made from."""
    parts = Counter(
        {"cannot": effort.cannot, "check": effort.check, "guesses": effort.guesses, "review": effort.review}
    )
    method = str(labels["effort_method"]).format(
        error=f"{FIRST_TEXT['error'][0]:g}",
        error_more=f"{FIRST_TEXT['error'][1]:g}",
        warning=f"{FIRST_TEXT['warning'][0]:g}",
        warning_more=f"{FIRST_TEXT['warning'][1]:g}",
        guess=f"{GUESS_FIRST:g}",
        guess_more=f"{GUESS_MORE:g}",
    )
    hours = str(labels["hours"])
    return {
        "total": _hours(effort.total, hours),
        "parts": [(labels[f"effort_{key}"], _hours(value, hours)) for key, value in parts.items()],
        "method": method,
    }


FIRST_TEXT = {severity.value: (FIRST[severity], MORE[severity]) for severity in FIRST}


def _hours(minutes: float, template: str) -> str:
    value = minutes / 60
    return template.format(hours=f"{value:.0f}" if value >= 10 else f"{value:.1f}")


def _embedded(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
