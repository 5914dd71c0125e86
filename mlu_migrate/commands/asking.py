"""``mlu-migrate why FILE:LINE``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mlu_migrate import explain, pipeline
from mlu_migrate.cliopts import Shared
from mlu_migrate.commands import common
from mlu_migrate.messages import text
from mlu_migrate.model import ExitStatus, FileResult
from mlu_migrate.output import Output
from mlu_migrate.report import full, printable
from mlu_migrate.report.layout import Paper
from mlu_migrate.settings import Settings


def why(place: str, shared: Shared, out: Output) -> int:
    """Answer for one line; exit status 2 when there is no such file or line."""
    name, _, number = place.rpartition(":")
    if not name or not number.isdigit():
        out.error(f"{place}: give a file and a line, as in train.py:12")
        return ExitStatus.FAILURE
    try:
        setup = common.prepare([name], shared, out)
        path = setup.paths[0]
        if path.is_dir():
            raise common.Refused(f"{name} is a folder; give a file and a line, as in train.py:12")
        answer = _answer(path, int(number), setup)
    except common.Refused as refused:
        for line in refused.lines:
            out.error(line)
        return ExitStatus.FAILURE
    paper = Paper(out.width, out.colour())
    _show(paper, printable(name), int(number), answer, setup.settings.lang)
    out.result(paper.text())
    return ExitStatus.FAILURE if answer.failed else ExitStatus.OK


def _answer(path: Path, line: int, setup: common.Setup) -> explain.Answer:
    options = dataclasses.replace(setup.options, baseline=None)

    def migrate(source: bytes, settings: Settings) -> FileResult:
        return pipeline.migrate_text(source, path, settings, options, setup.out.talk)

    settings = setup.settings
    try:
        if setup.options.baseline:
            settings = dataclasses.replace(settings, kept=_held(path, setup))
        return explain.why(path.read_bytes(), line, settings, migrate)
    except ValueError as error:
        raise common.Refused(f"{printable(str(path))}: {error}") from None
    except OSError as error:
        raise common.Refused(f"{printable(str(path))}: {error.strerror or error}") from None


def _held(path: Path, setup: common.Setup) -> tuple[tuple[str, int, int], ...]:
    """Findings of the file that the baseline holds."""
    from mlu_migrate import baseline

    options = dataclasses.replace(setup.options, baseline=None)
    try:
        rows = baseline.read(Path(setup.options.baseline or ""))
    except baseline.BaselineError as error:
        raise common.Refused(str(error)) from None
    result = pipeline.migrate_text(path.read_bytes(), path, setup.settings, options)
    held = rows.split(result.findings, path)[1]
    return tuple((finding.code, finding.line, finding.column) for finding in held)


def _show(paper: Paper, name: str, line: int, answer: explain.Answer, lang: str) -> None:
    paper.raw(paper.style(f"{name}:{line}", "bold"))
    paper.line(f"  {line} | {printable(answer.code.strip())}", "dim")
    paper.line()
    if answer.failed:
        paper.wrapped(text("why.failed", lang, reason=printable(answer.failed)), indent=2)
        return
    for verdict in answer.verdicts:
        paper.wrapped(text(verdict.key, lang, **verdict.fields), indent=2, style="bold")
        full.show(paper, verdict.finding, [], lang)
    for mention in answer.mentions:
        key = f"why.mention.{mention.kind}"
        paper.wrapped(text(key, lang, word=mention.word, column=mention.column), indent=2, hanging=4)
    if not answer.verdicts and not answer.mentions:
        paper.wrapped(text("why.nothing", lang), indent=2)
