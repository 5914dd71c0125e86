"""What a finished run means: the exit status, the view of a linter, the next commands. Pure functions over a run."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from mlu_migrate.gathering import Job
from mlu_migrate.messages import text
from mlu_migrate.model import ExitStatus, FileResult, FileStatus, RunResult, Severity
from mlu_migrate.pipeline import Run
from mlu_migrate.report import left

_MAIN = re.compile(rb"^if\s+__name__\s*==\s*['\"]__main__['\"]", re.MULTILINE)


def status_of(run: RunResult, fail_level: str, *, judge: bool, changes_matter: bool) -> ExitStatus:
    """
    Design 2.1: 2 for a file that failed, 1 for something left, 0 otherwise.

    ``judge``: findings at or above the fail level count. ``changes_matter``: so do files that would change.
    """
    if any(file.status is FileStatus.FAILED for file in run.files):
        return ExitStatus.FAILURE
    if changes_matter and any(file.status is FileStatus.CHANGED for file in run.files):
        return ExitStatus.LEFT
    if judge and left(run, Severity(fail_level)):
        return ExitStatus.LEFT
    return ExitStatus.OK


def as_linter(run: RunResult) -> RunResult:
    """The run as one that applied nothing."""
    return dataclasses.replace(run, files=tuple(_unapplied(file) for file in run.files))


def part(run: Run, jobs: list[tuple[Job, FileResult]], rename: Callable[[Job], str]) -> RunResult:
    """The result for some of the files, by the paths they have in their copy."""
    files = []
    for job, file in jobs:
        path = rename(job)
        if path != file.path:
            findings = tuple(finding.with_(path=path) for finding in file.findings)
            file = dataclasses.replace(file, path=path, findings=findings)
        files.append(file)
    return dataclasses.replace(run.result, files=tuple(files))


def next_steps(run: RunResult, place: Path, original: Path, lang: str) -> list[tuple[str, str]]:
    """What to do with a copy, as (what for, command)."""
    shown = _shown(place)
    steps = [(text("next.read", lang), f"{shown}/mlu-migrate-report.md")]
    if any(file.status is FileStatus.CHANGED for file in run.files):
        steps.append((text("next.diff", lang), f"diff -ru {_shown(original)} {shown}"))
    program = entry_point(run)
    if program is not None:
        steps.append((text("next.run", lang), f"mlu-migrate run {_shown(place / program)}"))
    return steps


def entry_point(run: RunResult) -> str | None:
    """The file that most likely starts the program: one that was changed, runs as a script, and lies near the top."""
    scripts = [
        file.path
        for file in run.files
        if file.status is FileStatus.CHANGED and file.path.endswith(".py") and _MAIN.search(file.source)
    ]
    first = ("train", "main", "run")
    scripts.sort(
        key=lambda path: (path.count("/"), not Path(path).stem.startswith(first), "test" in Path(path).stem, path)
    )
    return scripts[0] if scripts else None


def _unapplied(file: FileResult) -> FileResult:
    status = FileStatus.UNCHANGED if file.status is FileStatus.CHANGED else file.status
    findings = tuple(finding.with_(applied=False) if finding.applied else finding for finding in file.findings)
    return dataclasses.replace(file, status=status, output=None, findings=findings)


def _shown(path: Path) -> str:
    """A path as one would type it here."""
    try:
        path = path.absolute().relative_to(Path.cwd())
    except ValueError:
        pass
    return shlex.quote(str(path))
