"""
Ways to show a run. Each is a module with ``render(run, settings, lang) -> str`` that prints nothing; it is imported
when asked for.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult, Safety, Severity
from mlu_migrate.settings import Settings

SUFFIXES = {".md": "markdown", ".json": "json", ".html": "html", ".sarif": "sarif", ".csv": "csv"}


def render(kind: str, run: RunResult, settings: Settings, lang: str = "en") -> str:
    """A run as text. ``kind`` is the name of a module of this package."""
    module = importlib.import_module(f"mlu_migrate.report.{kind}")
    text: str = module.render(run, settings, lang)
    return text


def kind_of(path: Path) -> str | None:
    """The kind of report that a file name asks for by its suffix, or None."""
    return SUFFIXES.get(path.suffix.lower())


def summary(run: RunResult) -> dict[str, int | float]:
    """The ``summary`` object of the JSON report (design 2.2)."""
    statuses = Counter(file.status for file in run.files)
    safeties = Counter(finding.safety for finding in run.findings)
    return {
        "files": len(run.files),
        "changed": statuses[FileStatus.CHANGED],
        "unchanged": statuses[FileStatus.UNCHANGED],
        "skipped": statuses[FileStatus.SKIPPED],
        "failed": statuses[FileStatus.FAILED],
        "applied": sum(finding.applied for finding in run.findings),
        "safe": safeties[Safety.SAFE],
        "unsafe": safeties[Safety.UNSAFE],
        "manual": safeties[Safety.MANUAL],
        "seconds": run.seconds,
    }


def left(run: RunResult, at_least: Severity = Severity.INFO) -> list[Finding]:
    """Findings that were not applied, of this severity or above."""
    return [f for f in run.findings if not f.applied and f.severity.rank >= at_least.rank]


def troubled(run: RunResult) -> list[FileResult]:
    """Files that failed, then files that were skipped."""
    order = (FileStatus.FAILED, FileStatus.SKIPPED)
    return sorted((file for file in run.files if file.status in order), key=lambda file: order.index(file.status))


def printable(text: str) -> str:
    """Text on one line: a path or a snippet may hold line ends and other control characters."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode("ascii") for c in text
    )


def place(finding: Finding) -> str:
    """
    Where a finding is, as editors understand it: ``path:line:column``, with the cell of a notebook before the line.
    """
    cell = "" if finding.cell is None else f"cell {finding.cell}:"
    return f"{printable(finding.path)}:{cell}{finding.line}:{finding.column}"


def by_code(findings: Iterable[Finding]) -> list[tuple[str, str, list[Finding]]]:
    """Findings as (code, name, findings), most frequent code first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.name), []).append(finding)
    return [(code, name, items) for (code, name), items in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))]


def by_message(findings: Iterable[Finding], lang: str, *, by_hint: bool = False) -> list[list[Finding]]:
    """
    Findings that say the same, together: gravest first, then the most frequent. With ``by_hint`` also those that differ
    in a detail and ask for the same thing to be done.
    """
    from mlu_migrate.messages import render as words

    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        message, hint = words(finding, lang)
        same = f"{finding.message_id}\0{hint}" if by_hint and hint else message
        groups.setdefault((finding.code, same), []).append(finding)
    return sorted(groups.values(), key=lambda g: (-g[0].severity.rank, -len(g), g[0].code, g[0].path, g[0].line))


def flags(findings: Iterable[Finding]) -> str:
    """The flags that apply edits which were only told: guesses, and those in files other than Python."""
    items = list(findings)
    wanted = ["--configs write"] if any(_outside_python(f) for f in items) else []
    if any(f.safety is Safety.UNSAFE for f in items):
        wanted.append("--unsafe")
    return " ".join(wanted)


def _outside_python(finding: Finding) -> bool:
    suffix = PurePosixPath(finding.path).suffix.lower()
    return finding.code.startswith("MLU60") or suffix not in ("", ".py", ".pyi", ".pyw", ".ipynb")


def change(finding: Finding) -> tuple[str, str]:
    """What a finding changes as (before, after), on one line each; before is empty where something is only put in."""
    before, after = (" ".join(text.split()) for text in (finding.before, finding.after))
    if finding.edits and before == after:  # the edit lies beside the code that the finding points at
        added = b" ".join(edit.text for edit in finding.edits).decode("utf-8", "replace")
        if finding.cell is not None:  # lines of a cell are JSON texts
            added = added.replace("\\n", " ").replace('\\"', '"').strip(' \n",')
        return "", " ".join(added.split())
    return before, after


def example(findings: Iterable[Finding]) -> tuple[str, str]:
    """The shortest change among these, as :func:`change` gives it; replacements before insertions."""
    return min(map(change, findings), key=lambda pair: (not pair[0], len(pair[0]) + len(pair[1])))


def to_check(run: RunResult) -> list[Finding]:
    """Findings that were applied, and yet ask the reader to look: the MLU behaves differently there."""
    return [f for f in run.findings if f.applied and f.severity is not Severity.INFO]
