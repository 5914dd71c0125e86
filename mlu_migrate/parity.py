"""
``mlu-migrate parity``: migrate, run original and migrated program, compare, report.

The runs and the judgement are ``mlu_backend.parity``'s; this module makes the migrated copy, tells the backend
which rule edited which line (the edit map), reads the named entries of pyproject.toml and writes the reports:

    [[tool.mlu-migrate.parity]]
    name = "train"
    command = "python train.py --steps 3"
    reference = "emulated-cuda"      # all keys but command are optional and named as the options are

The command is the original's; the migrated program gets it with the device's names replaced (command.py), or
``candidate-command``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlu_migrate import command, copying, editmap, gathering, pipeline, tree
from mlu_migrate.model import ExitStatus, FileStatus, RunResult
from mlu_migrate.parity_entries import REFERENCES, Entry, ParityError, check, check_reports, folders, titles
from mlu_migrate.settings import Options, Settings

MAP = "edit-map.json"
Talk = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """``text`` is for the terminal, ``verdicts`` are the backend's records, ``result`` is what the migration found."""

    status: ExitStatus
    text: str
    verdicts: tuple[Any, ...]
    result: RunResult | None = None


def run(
    project: Path,
    wanted: Sequence[Entry],
    settings: Settings,
    options: Options,
    *,
    keep: Path | None = None,
    reports: Sequence[Path] = (),
    output_format: str = "text",
    width: int = 80,
    talk: Talk = lambda text: None,
) -> Outcome:
    """
    Make all comparisons of a project folder and write the reports.

    ``keep``: a folder that is empty or not there, where copies and traces stay; without it they go when the
    comparison is done. ``output_format``: text, json or junit. Raises ParityError for wrong use; whatever a program
    does, and a backend that is missing, is a verdict.
    """
    check(project, wanted, keep, reports)
    backend = _backend()
    limits = [_limits(backend, entry.tolerance) for entry in wanted]
    work = _work(keep)
    try:
        talk(f"migrating {project}")
        migrated = pipeline.run(gathering.targets_of([project]), settings, options, talk=talk)
        copy = _copy(project, migrated, work) if any(e.migrated is None for e in wanted) else None
        paths = [job.rel for job in migrated.jobs]
        verdicts = []
        for entry, title, folder, limit in zip(wanted, titles(wanted), folders(wanted), limits, strict=True):
            asked = _with_commands(entry, settings, paths)
            told = _prefixed(talk, title)
            verdict = _compare(backend, project, asked, migrated.result, copy, work / folder, limit, told)
            verdict.title = title
            verdicts.append(verdict)
    finally:
        if keep is None:
            shutil.rmtree(work, ignore_errors=True)
    status = max((ExitStatus(v.status.exit_code) for v in verdicts), default=ExitStatus.FAILURE)
    for path in reports:
        try:
            path.write_text(_report(backend, path.suffix, verdicts, migrated.result, settings), encoding="utf-8")
            talk(f"report written to {path}")
        except OSError as error:
            talk(f"{path}: the report cannot be written: {error.strerror or error}")
            status = ExitStatus.FAILURE
    return Outcome(status, _text(backend, output_format, verdicts, width), tuple(verdicts), migrated.result)


def _work(keep: Path | None) -> Path:
    try:
        if keep is None:
            return Path(tempfile.mkdtemp(prefix="mlu-parity-"))
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParityError(f"{keep or tempfile.gettempdir()}: {error.strerror or error}") from None
    return keep


def _prefixed(talk: Talk, title: str) -> Talk:
    return (lambda text: talk(f"{title}: {text}")) if title else talk


def _limits(backend: _Backend, tolerance: Path | None) -> Any:
    try:
        return backend.tolerance.load(tolerance) if tolerance else ()
    except backend.tolerance.ToleranceError as error:
        raise ParityError(str(error)) from None


def compare(
    reference: Path,
    candidate: Path,
    *,
    profile: str = "exact",
    tolerance: Path | None = None,
    edits: Path | None = None,
    reports: Sequence[Path] = (),
    output_format: str = "text",
    width: int = 80,
) -> Outcome:
    """Compare two traces. ``edits``: an edit map kept by ``parity --keep``. Raises ParityError."""
    check_reports(reports, html=False)
    backend = _backend()
    try:
        limits = _limits(backend, tolerance)
        verdict = backend.session.compare(reference, candidate, profile=profile, limits=limits, edits=edits)
    except (backend.trace.TraceError, backend.editmap.EditMapError) as error:
        raise ParityError(str(error)) from None
    for path in reports:
        path.write_text(_report(backend, path.suffix, [verdict], None, None), encoding="utf-8")
    return Outcome(ExitStatus(verdict.status.exit_code), _text(backend, output_format, [verdict], width), (verdict,))


def record(arguments: Sequence[str]) -> int:
    """``parity-record``: the backend's own command line. Raises ParityError without a backend."""
    return int(_backend().record.main(list(arguments), "mlu-migrate parity-record"))


class _Backend:
    """The modules of ``mlu_backend.parity``, imported when a command needs them."""

    def __init__(self) -> None:
        for name in ("session", "record", "trace", "tolerance", "editmap", "report", "formats", "html", "findings"):
            setattr(self, name, importlib.import_module(f"mlu_backend.parity.{name}"))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _backend() -> _Backend:
    for package in ("torch", "safetensors"):
        if importlib.util.find_spec(package) is None:
            raise ParityError(f'parity needs {package}: pip install "mlu-migrate[backend]"; nothing was judged')
    try:
        return _Backend()
    except ImportError as error:
        raise ParityError(f"parity cannot start: {error}; nothing was judged") from None


def _copy(project: Path, migrated: pipeline.Run, work: Path) -> Path:
    place = work / "migrated"
    found, _ = tree.entries_of(project)
    results = {job.rel: file for job, file in zip(migrated.jobs, migrated.result.files, strict=True)}
    try:
        copying.copy(found, place, results, {})
    except copying.CopyError as error:
        raise ParityError(str(error)) from None
    return place


def _with_commands(entry: Entry, settings: Settings, paths: Sequence[str]) -> Entry:
    given = entry.candidate_command or command.migrated(entry.command, settings, paths)
    return replace(entry, candidate_command=given)


def _compare(
    backend: _Backend,
    project: Path,
    entry: Entry,
    result: RunResult,
    copy: Path | None,
    work: Path,
    limits: Any,
    talk: Talk,
) -> Any:
    place = entry.migrated or copy
    assert place is not None
    work.mkdir(parents=True, exist_ok=True)
    map_path = work / MAP
    map_path.write_text(json.dumps(editmap.edit_map(result, place), indent=1), encoding="utf-8")
    reference = entry.reference if entry.reference in REFERENCES else str(Path(entry.reference).absolute())
    try:
        plan = backend.session.Plan(
            original=project.absolute(),
            migrated=place.absolute(),
            command=entry.command,
            candidate_command=entry.candidate_command,
            work=work.absolute(),
            reference=reference,
            profile=entry.profile,
            level=entry.level,
            steps=entry.steps,
            seed=entry.seed,
            timeout=entry.timeout,
            limits=limits,
            edits=map_path.absolute(),
            cards=entry.cards,
        )
        verdict = backend.session.run(plan, talk=talk)
    except (backend.trace.TraceError, backend.editmap.EditMapError) as error:
        raise ParityError(str(error)) from None
    except OSError as error:
        raise ParityError(f"{entry.command[0]}: cannot run: {error.strerror or error}") from None
    failed = [file.path for file in result.files if file.status is FileStatus.FAILED]
    if failed:
        verdict.notes.append(
            f"not migrated, copied as they are: {', '.join(failed[:5])}{' ...' if len(failed) > 5 else ''}"
        )
    if verdict.status.exit_code and not _imports_torch_mlu(place):
        verdict.notes.append(
            "no Python file of the migrated copy imports torch_mlu, so the program has no device mlu; see the findings "
            f"of: mlu-migrate check {shlex.quote(str(project))}"
        )
    if entry.candidate_command != entry.command:
        verdict.notes.append(f"the candidate was run as: {shlex.join(entry.candidate_command)}")
    return verdict


def _imports_torch_mlu(folder: Path) -> bool:
    return any(path.is_file() and b"torch_mlu" in path.read_bytes() for path in folder.rglob("*.py"))


def _text(backend: _Backend, output_format: str, verdicts: Sequence[Any], width: int) -> str:
    if output_format == "json":
        return str(backend.formats.to_json(verdicts))
    if output_format == "junit":
        return str(backend.formats.junit(verdicts))
    return "\n".join(backend.report.terminal(v, width) for v in verdicts)


def _report(
    backend: _Backend, suffix: str, verdicts: Sequence[Any], result: RunResult | None, settings: Settings | None
) -> str:
    if suffix == ".json":
        return str(backend.formats.to_json(verdicts))
    if suffix == ".xml":
        return str(backend.formats.junit(verdicts))
    if suffix == ".html" and result is not None and settings is not None:
        from mlu_migrate.report import html

        return html.render(result, settings, settings.lang, parity=section(verdicts))
    return "\n".join(backend.report.markdown(v) for v in verdicts)


def section(verdicts: Sequence[Any]) -> str:
    """The parity section of the HTML report."""
    html: Any = importlib.import_module("mlu_backend.parity.html")
    return "".join(html.fragment(v) for v in verdicts)
