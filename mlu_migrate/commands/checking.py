"""``mlu-migrate check``: findings, like a linter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlu_migrate import addignore, atomic, pipeline
from mlu_migrate.cliopts import Shared
from mlu_migrate.commands import common
from mlu_migrate.messages import text
from mlu_migrate.model import ExitStatus, RunResult, Severity
from mlu_migrate.outcome import as_linter, status_of
from mlu_migrate.output import Output


def check(arguments: Sequence[str], shared: Shared, out: Output) -> int:
    """Look at the paths and show what is found; with --add-ignore write keep comments instead."""
    try:
        setup = common.prepare(arguments, shared, out)
        run = common.look(setup)
        result = as_linter(run.result)
        if shared.add_ignore:
            return _add_ignores(setup, run)
        common.show(setup, result, setup.options.format or "full")
        common.finish(setup, run, result)
    except common.Refused as refused:
        for line in refused.lines:
            out.error(line)
        return ExitStatus.FAILURE
    out.talk(_totals(result, setup.settings.lang, run.baselined))
    if shared.write_baseline:
        return status_of(result, "error", judge=False, changes_matter=False)
    return status_of(result, setup.options.fail_level, judge=True, changes_matter=False)


def _totals(result: RunResult, lang: str, baselined: int) -> str:
    counts = {severity.value: 0 for severity in Severity}
    for finding in result.findings:
        counts[finding.severity.value] += 1
    line = text("check.totals", lang, files=len(result.files), **counts)
    return f"{line} {text('summary.baselined', lang, count=baselined)}" if baselined else line


def _add_ignores(setup: common.Setup, run: pipeline.Run) -> int:
    """
    Write a keep comment at every place a linter would complain about.

    Set-up findings (MLU0..) come second: what they ask for may no longer be needed once the rest is kept.
    """
    out = setup.out
    first = _write_ignores(run, out, lambda code: not code.startswith("MLU0"))
    second = _write_ignores(common.look(setup), out, lambda code: True)
    out.talk(text("check.ignores", setup.settings.lang, count=first[0] + second[0]))
    return ExitStatus.FAILURE if first[1] or second[1] else ExitStatus.OK


def _write_ignores(run: pipeline.Run, out: Output, wanted: Callable[[str], bool]) -> tuple[int, bool]:
    """How many lines got a comment, and whether something went wrong."""
    failed = False
    written = 0
    others: list[str] = []
    for job, file in zip(run.jobs, run.result.files, strict=True):
        findings = [finding for finding in file.findings if wanted(finding.code)]
        if not findings:
            continue
        if not job.python:
            others.append(job.shown)
            continue
        outcome = addignore.add(file.source, findings)
        for problem in outcome.problems:
            failed = True
            out.error(f"{job.shown}:{problem}")
        if outcome.output == file.source:
            continue
        try:
            atomic.write(job.path, outcome.output, root=job.root)
            written += outcome.lines
        except atomic.WriteError as error:
            failed = True
            out.error(str(error))
    if others:
        out.error(f"no comment was written in {', '.join(others)}: only Python can take one; use --write-baseline")
    return written, failed or bool(others)
