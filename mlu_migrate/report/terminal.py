"""
The summary that ends a run: what changed, what cannot work, what needs the reader, what to do next. Fits 80
columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlu_migrate import __version__
from mlu_migrate.messages import render as words
from mlu_migrate.messages import text
from mlu_migrate.model import FileStatus, Finding, RunResult, Safety, Severity
from mlu_migrate.report import by_code, by_message, example, flags, left, place, printable, summary, to_check, troubled
from mlu_migrate.report.layout import Paper, columns, cut, pad
from mlu_migrate.settings import Settings

GROUPS = 6  # kinds of findings shown in a section; the report has all
PLACES = 3


def render(
    run: RunResult,
    settings: Settings,
    lang: str = "en",
    *,
    width: int = 80,
    colour: bool = False,
    would: bool = False,
    steps: Sequence[tuple[str, str]] = (),
    baselined: int = 0,
) -> str:
    """
    ``would``: nothing was written, so speak of what would change. ``steps`` are the next commands as (what for,
    command).
    """
    paper = Paper(width, colour)
    counts = summary(run)
    paper.line(text("summary.title", lang, version=__version__, torch_mlu=run.torch_mlu), "bold")
    paper.wrapped(text("summary.would" if would else "summary.files", lang, **counts), hanging=2)
    applied = [finding for finding in run.findings if finding.applied]
    _changed(paper, run, applied, lang, would)
    rest = [f for f in left(run, Severity.WARNING) if f.safety is not Safety.UNSAFE]
    _work(paper, [f for f in rest if f.severity is Severity.ERROR], "summary.cannot", lang)
    _work(paper, [f for f in rest if f.severity is Severity.WARNING], "summary.eyes", lang)
    _work(paper, to_check(run), "summary.check", lang)
    _failed(paper, run, lang)
    guesses = [f for f in left(run) if f.safety is Safety.UNSAFE]
    infos = [f for f in left(run) if f.severity is Severity.INFO and f.safety is not Safety.UNSAFE]
    notes = [("summary.unsafe", len(guesses)), ("summary.infos", len(infos)), ("summary.baselined", baselined)]
    if any(count for _, count in notes):
        paper.line()
    for key, count in notes:
        if count:
            paper.wrapped(text(key, lang, count=count, flags=flags(guesses)), hanging=2)
    if not run.findings and not troubled(run):
        paper.line(text("summary.clean", lang))
    if steps:
        paper.line()
        paper.line(text("summary.next", lang), "bold")
        wide = max(columns(what) for what, _ in steps)
        for what, command in steps:
            paper.raw(f"  {pad(what, wide)}  {paper.style(command, 'cyan')}")
    return paper.text()


def statistics(run: RunResult) -> str:
    """How often each rule found something, one line a rule."""
    rows = [(len(items), code, items[0].safety.value, name) for code, name, items in by_code(run.findings)]
    return "".join(f"{count:6}  {code}  {safety:6}  {name}\n" for count, code, safety, name in rows)


def _changed(paper: Paper, run: RunResult, applied: list[Finding], lang: str, would: bool) -> None:
    if not applied:
        return
    files = sum(file.status is FileStatus.CHANGED for file in run.files)
    paper.line()
    key = "summary.wouldchange" if would else "summary.changed"
    paper.line(text(key, lang, edits=len(applied), files=files), "green")
    groups = by_code(applied)
    wide = max(len(name) for _, name, _ in groups)
    for code, name, items in groups:
        head = f"  {len(items):5}  {code}  {name:{wide}}  "
        before, after = example(items)
        shown = f"{before} -> {after}" if before else f"+ {after}"
        paper.raw(head + paper.style(cut(printable(shown), paper.width - len(head)), "dim"))


def _work(paper: Paper, findings: list[Finding], key: str, lang: str) -> None:
    if not findings:
        return
    severity = max(findings, key=lambda f: f.severity.rank).severity.value
    paper.line()
    paper.line(text(key, lang, count=len(findings)), severity)
    groups = by_message(findings, lang, by_hint=True)
    for group in groups[:GROUPS]:
        message, hint = words(group[0], lang)
        paper.wrapped(f"{group[0].code} {printable(message)}", indent=2, hanging=4)
        places = ", ".join(place(finding) for finding in group[:PLACES])
        more = f", {text('summary.more', lang, count=len(group) - PLACES)}" if len(group) > PLACES else ""
        paper.wrapped(places + more, indent=4, style="cyan")
        if hint:
            paper.wrapped(f"{text('finding.hint', lang)} {printable(hint)}", indent=4, hanging=6, style="dim")
    if len(groups) > GROUPS:
        paper.line(f"  {text('summary.moregroups', lang, count=len(groups) - GROUPS)}")


def _failed(paper: Paper, run: RunResult, lang: str) -> None:
    files = troubled(run)
    if not files:
        return
    paper.line()
    paper.line(text("summary.failed", lang), "red" if files[0].status is FileStatus.FAILED else "yellow")
    shown = [file for file in files if file.status is FileStatus.FAILED] or files[:PLACES]
    for file in shown:
        paper.wrapped(f"{printable(file.path)}: {printable(file.reason or '')}", indent=2, hanging=4)
    if len(files) > len(shown):
        paper.line(f"  {text('summary.more', lang, count=len(files) - len(shown))} ({FileStatus.SKIPPED.value})")
