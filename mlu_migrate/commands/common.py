"""What every command that looks at files does first and last: paths, settings, the run, showing it."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlu_migrate import atomic, baseline, gathering, gitinfo, pipeline, report, walk
from mlu_migrate.cliopts import Shared
from mlu_migrate.commands import COMMANDS
from mlu_migrate.model import RunResult
from mlu_migrate.output import Output
from mlu_migrate.report import terminal
from mlu_migrate.settings import Options, Settings, SettingsError, project_root

BASELINE = "mlu-migrate-baseline.json"


class Refused(Exception):
    """Wrong use. Each line of ``lines`` is one line for the user; the exit status is 2 and nothing was written."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


@dataclass(frozen=True, slots=True)
class Setup:
    """A command line, understood."""

    paths: tuple[Path, ...]
    settings: Settings
    options: Options
    shared: Shared
    out: Output

    @property
    def baseline_path(self) -> Path:
        """Where --write-baseline writes."""
        return Path(self.options.baseline or BASELINE)


def prepare(arguments: Sequence[str], shared: Shared, out: Output) -> Setup:
    """Raises Refused for paths, settings or reports that cannot be used."""
    paths = [path for argument in arguments for path in walk.expand(argument)]
    if "-" in arguments and not os.path.exists("-"):
        raise Refused("-: only mlu-migrate - reads stdin; --check, --diff and --format work there, too")
    missing = [f"{path}: no such file or folder{_or_command(path)}" for path in paths if not os.path.exists(path)]
    if missing:
        raise Refused(*missing)
    return Setup(tuple(paths), *_settings(paths[0], shared, out), shared, out)


def finish_interrupted(setup: Setup) -> None:
    """Bring to its end what a run that was killed has begun to write in place. Raises WriteError."""
    for root in {project_root(Path(os.path.abspath(path))) for path in setup.paths}:
        count = atomic.recover(root)
        if count:
            setup.out.talk(f"{root}: an earlier run was killed while it wrote; its last {count} files are now in place")


def _or_command(path: Path) -> str:
    """A first word that is no command is a path: say so where it looks like a slip of the finger."""
    close = difflib.get_close_matches(str(path), COMMANDS, n=1)
    return f"; did you mean the command {close[0]}?" if close else ""


def _settings(start: Path, shared: Shared, out: Output) -> tuple[Settings, Options]:
    for path in shared.report or ():
        if report.kind_of(path) is None:
            raise Refused(f"{path}: a report ends in one of {' '.join(report.SUFFIXES)}")
    if shared.support is not None:
        if not any(report.kind_of(path) == "html" for path in shared.report or ()):
            raise Refused("--support needs --report FILE.html, the page that the table goes into")
        _readable(shared.support)
    try:
        loaded = shared.load(Path(os.path.abspath(start)))
    except SettingsError as error:
        raise Refused(str(error)) from None
    _check_codes(loaded.settings)
    if loaded.source:
        out.detail(f"settings from {loaded.source}")
    return with_evidence(loaded.settings, loaded.options), loaded.options


def _readable(support: Path) -> None:
    """Refuse a file that is no support table before anything is done."""
    from mlu_migrate.report import runs

    try:
        runs.support(support, "en")
    except runs.RunFileError as error:
        raise Refused(str(error)) from None


def settings_for_text(shared: Shared, name: Path, out: Output) -> tuple[Settings, Options]:
    """Settings for source that comes from stdin under a file name, which need not exist."""
    folder = Path(os.path.abspath(name)).parent
    return _settings(folder if folder.is_dir() else Path.cwd(), shared, out)


def with_evidence(settings: Settings, options: Options) -> Settings:
    """
    The settings with the places that a parity report saw reaching a device. Raises Refused for a file that is none.
    """
    if not options.evidence:
        return settings
    from mlu_migrate import evidence

    try:
        return dataclasses.replace(settings, proven=evidence.read(Path(options.evidence)))
    except evidence.EvidenceError as error:
        raise Refused(str(error)) from None


def _check_codes(settings: Settings) -> None:
    wanted = (*settings.select, *settings.ignore, *settings.extend_select)
    if not wanted:
        return
    from mlu_migrate import explain

    known = explain.codes()
    for prefix in wanted:
        if not any(code.startswith(prefix) for code in known):
            raise Refused(f"{prefix}: no rule has this code; mlu-migrate rules lists them")


def look(setup: Setup, *, left_out: bool = False) -> pipeline.Run:
    """Do the run. Raises Refused for a baseline or revision that cannot be used."""
    options = setup.options
    if setup.shared.write_baseline:
        options = dataclasses.replace(options, baseline=None)
    out = setup.out
    try:
        run = pipeline.run(
            gathering.targets_of(setup.paths),
            setup.settings,
            options,
            since=setup.shared.since,
            left_out=left_out,
            talk=out.talk,
            progress=out.progress,
        )
    except (gitinfo.GitError, baseline.BaselineError) as error:
        raise Refused(str(error)) from None
    out.clear()
    out.detail(f"{len(run.jobs)} files in {run.result.seconds:.2f} s")
    return run


def show(
    setup: Setup,
    result: RunResult,
    kind: str,
    *,
    would: bool = False,
    steps: Sequence[tuple[str, str]] = (),
    baselined: int = 0,
) -> None:
    """Print a result to stdout in the way asked for; ``kind`` is a format, or ``summary``."""
    out, lang = setup.out, setup.settings.lang
    machine = kind not in ("summary", "full", "concise")
    if not (out.quiet and not machine):
        width, colour = out.width, out.colour()
        if kind == "summary":
            text = terminal.render(
                result,
                setup.settings,
                lang,
                width=width,
                colour=colour,
                would=would,
                steps=steps,
                baselined=baselined,
            )
        elif kind == "full":
            from mlu_migrate.report import full

            text = full.render(result, setup.settings, lang, width=width, colour=colour)
        else:
            text = report.render(kind, result, setup.settings, lang)
        out.result(text)
    if setup.shared.statistics:
        if machine:
            out.talk(terminal.statistics(result).rstrip("\n"))
        else:
            out.result(terminal.statistics(result))


def finish(setup: Setup, run: pipeline.Run, result: RunResult) -> None:
    """Write the reports and the baseline that were asked for. Raises Refused when one cannot be written."""
    write_reports(setup, result)
    out = setup.out
    try:
        if setup.shared.write_baseline:
            found = [
                (job.path, finding)
                for job, file in zip(run.jobs, run.result.files, strict=True)
                for finding in file.findings
            ]
            named = bool(setup.options.baseline)
            rows = baseline.write(setup.baseline_path, found, root=None if named else Path.cwd())
            out.talk(f"baseline with {rows} rows written to {setup.baseline_path}")
    except OSError as error:
        raise Refused(f"{error.filename or 'baseline'}: {error.strerror or error}") from None


def write_reports(setup: Setup, result: RunResult) -> None:
    """Write the reports that were asked for. Raises Refused when one cannot be written."""
    try:
        for path in setup.shared.report or ():
            kind = report.kind_of(path)
            assert kind is not None
            if kind == "html":
                text = _page(setup, result)
            else:
                text = report.render(kind, result, setup.settings, setup.settings.lang)
            atomic.write(path, text.encode("utf-8", "backslashreplace"))
            setup.out.talk(f"report written to {path}")
    except OSError as error:
        raise Refused(f"{error.filename or 'report'}: {error.strerror or error}") from None


def _page(setup: Setup, result: RunResult) -> str:
    """The HTML report, with what runs of the program have shown."""
    from mlu_migrate.report import html, runs

    support, evidence = setup.shared.support, setup.options.evidence
    lang = setup.settings.lang
    try:
        return html.render(
            result,
            setup.settings,
            lang,
            support=runs.support(support, lang) if support else (),
            parity=runs.parity(Path(evidence), lang) if evidence else "",
        )
    except runs.RunFileError as error:
        raise Refused(str(error)) from None
