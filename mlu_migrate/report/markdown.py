"""The Markdown report: the work list first, then every change. Reads well as text and on any forge."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlu_migrate import __version__
from mlu_migrate.messages import render as words
from mlu_migrate.messages import text
from mlu_migrate.model import FileStatus, Finding, RunResult, Safety, Severity
from mlu_migrate.report import (
    by_code,
    by_message,
    change,
    example,
    flags,
    left,
    place,
    printable,
    summary,
    to_check,
    troubled,
)
from mlu_migrate.report.layout import cut
from mlu_migrate.settings import Settings

_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # an underscore inside a word emphasises nothing and may stay readable
SNIPPET = 100  # characters of code in a table cell


def render(run: RunResult, settings: Settings, lang: str = "en") -> str:
    """The whole report."""
    out: list[str] = [f"# {text('md.title', lang)}", ""]
    out += [
        text("md.intro", lang, version=__version__, torch_mlu=run.torch_mlu),
        "",
        f"## {text('md.summary', lang)}",
        "",
    ]
    counts = summary(run)
    rows = [
        (text(f"md.{key}", lang), counts[key])
        for key in ("files", "changed", "unchanged", "skipped", "failed", "applied")
    ]
    rows.append((text("md.open", lang), len(left(run, Severity.WARNING))))
    out += _table((text("md.what", lang), text("md.count", lang)), [(name, str(count)) for name, count in rows])
    rest = left(run)
    guesses = [f for f in rest if f.safety is Safety.UNSAFE]
    plain = [f for f in rest if f.safety is not Safety.UNSAFE]
    out += _work("md.cannot", [f for f in plain if f.severity is Severity.ERROR], lang)
    out += _work("md.eyes", [f for f in plain if f.severity is Severity.WARNING], lang)
    out += _work("md.check", to_check(run), lang, empty=False)
    out += _work("md.unsafe", guesses, lang)
    out += _failures(run, lang)
    applied = [finding for finding in run.findings if finding.applied]
    out += _rules(applied, lang)
    out += _work("md.notes", [f for f in plain if f.severity is Severity.INFO], lang, empty=False)
    out += _changes(run, lang)
    return "\n".join(out).rstrip() + "\n"


def _work(key: str, findings: list[Finding], lang: str, *, empty: bool = True) -> list[str]:
    """Findings as a list to tick off, those that say the same together."""
    if not findings:
        return [f"## {text(key, lang, flags='--unsafe')}", "", text("md.none", lang), ""] if empty else []
    out = [f"## {text(key, lang, flags=flags(findings))}", ""]
    for group in by_message(findings, lang):
        message, hint = words(group[0], lang)
        out.append(f"### {group[0].code} {_prose(message)}")
        out.append("")
        if hint:
            out += [f"{text('md.hint', lang)} {_prose(hint)}", ""]
        for finding in group:
            before, after = change(finding)
            becomes = f" -> {_code(after)}" if finding.edits else ""
            out.append(f"- [ ] {_code(place(finding))} {_code(before)}{becomes}")
        out.append("")
    return out


def _failures(run: RunResult, lang: str) -> list[str]:
    files = troubled(run)
    if not files:
        return []
    head = (text("md.file", lang), text("md.what", lang), text("md.reason", lang))
    rows = [(_code(file.path), text(f"md.{file.status.value}", lang), _prose(file.reason or "")) for file in files]
    return [f"## {text('md.failures', lang)}", "", *_table(head, rows)]


def _rules(applied: list[Finding], lang: str) -> list[str]:
    out = [f"## {text('md.rules', lang)}", ""]
    if not applied:
        return [*out, text("md.none", lang), ""]
    rows = []
    for code, name, items in by_code(applied):
        before, after = example(items)
        shown = f"{_code(before)} -> {_code(after)}" if before else _code(after)
        rows.append((f"{code} {name}", str(len(items)), shown))
    return [*out, *_table((text("md.rule", lang), text("md.places", lang), text("md.example", lang)), rows)]


def _changes(run: RunResult, lang: str) -> list[str]:
    files = [file for file in run.files if file.status is FileStatus.CHANGED]
    if not files:
        return []
    out = [f"## {text('md.changes', lang)}", ""]
    head = (text("md.line", lang), text("md.rule", lang), text("md.before", lang), text("md.after", lang))
    for file in files:
        rows = []
        for finding in file.findings:
            if finding.applied:
                line = str(finding.line) if finding.cell is None else f"[{finding.cell}] {finding.line}"
                before, after = change(finding)
                rows.append((line, finding.code, _code(before), _code(after)))
        out += [f"### {_prose(printable(file.path))}", "", *_table(head, rows)]
    return out


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(head)
    return [_row(titles), _row("---" for _ in titles), *(_row(row) for row in rows), ""]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _prose(value: str) -> str:
    """Text of ours or of the project in a paragraph: code in backticks stays code, nothing becomes HTML or a link."""
    parts = printable(value).split("`")
    if len(parts) % 2 == 0:
        return _plain("`".join(parts).replace("`", "'"))
    return "".join(_code(part) if index % 2 else _plain(part) for index, part in enumerate(parts))


def _plain(value: str) -> str:
    for character in "\\<>*[]#":
        value = value.replace(character, f"\\{character}")
    return _EDGE.sub(r"\\_", value.replace("&", "&amp;"))


def _code(value: str) -> str:
    """A snippet as inline code on one line, with as many backticks around it as it needs."""
    shown = cut(printable(" ".join(value.split())), SNIPPET)
    if not shown:
        return ""
    ticks = "`"
    while ticks in shown:
        ticks += "`"
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"
