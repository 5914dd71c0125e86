"""Findings with the code they are about, for reading in a terminal."""

from __future__ import annotations

from mlu_migrate.messages import render as words
from mlu_migrate.messages import text
from mlu_migrate.model import FileResult, Finding, RunResult
from mlu_migrate.report import change, flags, place, printable, troubled
from mlu_migrate.report.layout import Paper, columns, cut
from mlu_migrate.settings import Settings


def render(run: RunResult, settings: Settings, lang: str = "en", *, width: int = 80, colour: bool = False) -> str:
    """
    Every finding as place, message, code frame, what it becomes and what to do; then files that failed or were
    skipped.
    """
    paper = Paper(width, colour)
    for file in run.files:
        lines = _lines(file) if file.findings else []
        for finding in file.findings:
            show(paper, finding, lines, lang)
    for file in troubled(run):
        paper.wrapped(f"{printable(file.path)}: {file.status.value}: {printable(file.reason or '')}", hanging=2)
    return paper.text()


def show(paper: Paper, finding: Finding, lines: list[str], lang: str) -> None:
    """One finding. ``lines`` are those of its file, to quote from."""
    message, hint = words(finding, lang)
    head = f"{place(finding)} {finding.severity.value} {finding.code} {finding.name}"
    paper.raw(paper.style(head, finding.severity.value))
    paper.wrapped(printable(message), indent=2, style="bold")
    _frame(paper, finding, lines)
    if finding.edits:
        key = "finding.becomes" if finding.applied else f"finding.would.{finding.safety.value}"
        told = text(key, lang, flags=flags([finding]))
        paper.wrapped(f"{told} {cut(printable(change(finding)[1]), 4 * paper.width)}", indent=2, hanging=4)
    if hint:
        paper.wrapped(f"{text('finding.hint', lang)} {printable(hint)}", indent=2, hanging=4)
    paper.line()


def _lines(file: FileResult) -> list[str]:
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(file.source).readline)
        decoded = file.source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        decoded = file.source.decode("utf-8", "replace")
    return decoded.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _frame(paper: Paper, finding: Finding, lines: list[str]) -> None:
    if finding.cell is not None or not 1 <= finding.line <= len(lines):
        if finding.before:
            paper.line(f"    | {printable(finding.before)}", "dim")
        return
    number = str(finding.line)
    code = lines[finding.line - 1]
    start = finding.column - 1
    end = finding.end_column - 1 if finding.end_line == finding.line else len(code)
    room = paper.width - len(number) - 7
    if start > room // 2 and columns(code) > room:  # a long line is shown from a little before the place
        skip = start - room // 4
        code, start, end = "..." + code[skip:], start - skip + 3, end - skip + 3
    quoted = cut(code.expandtabs(1).replace("\x0c", " "), room)
    before = columns(quoted[:start])
    marks = max(1, min(columns(quoted[start:end]), room - before))
    paper.raw(f"  {paper.style(f'{number} |', 'dim')} {printable(quoted)}")
    paper.raw(
        f"  {' ' * len(number)} {paper.style('|', 'dim')} {' ' * before}"
        + paper.style("^" * marks, finding.severity.value)
    )
