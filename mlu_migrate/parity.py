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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlu_migrate import command, copying, editmap, gathering, pipeline, tomlfile, tree
from mlu_migrate.model import ExitStatus, FileStatus, RunResult
from mlu_migrate.settings import Options, Settings

LEVELS = ("step", "module", "op")
PROFILES = ("exact", "mlu370", "mlu590")
SUFFIXES = (".md", ".json", ".html", ".xml")
MAP = "edit-map.json"
_TEXTS = ("name", "reference", "profile", "level", "tolerance", "migrated")
_COMMANDS = ("command", "candidate-command")
_NUMBERS = {"steps": int, "seed": int, "timeout": float, "cards": int}

Talk = Callable[[str], None]


class ParityError(ValueError):
    """Wrong use; the text is one line for the user and the exit status is 2."""


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One comparison. ``reference``: ``emulated-cuda``, ``cpu`` or the path of a trace. ``timeout`` in seconds for
    each run. ``candidate_command`` is for the migrated program; empty: ``command`` with the device's names replaced.
    """

    command: tuple[str, ...]
    name: str = ""
    migrated: Path | None = None
    reference: str = "emulated-cuda"
    steps: int = 0
    seed: int | None = 0
    profile: str = "exact"
    level: str = "module"
    tolerance: Path | None = None
    timeout: float | None = None
    cards: int | None = None
    candidate_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """``text`` is for the terminal, ``verdicts`` are the backend's records, ``result`` is what the migration found."""

    status: ExitStatus
    text: str
    verdicts: tuple[Any, ...]
    result: RunResult | None = None


def entries(project: Path) -> tuple[Entry, ...]:
    """The named comparisons of the project's pyproject.toml. Raises ParityError for a malformed one."""
    path = project / "pyproject.toml"
    if not path.is_file():
        return ()
    try:
        table = tomlfile.read(path).get("tool", {}).get("mlu-migrate", {})
    except (OSError, tomlfile.TomlError, AttributeError) as error:
        raise ParityError(f"{path}: {error}") from None
    rows = table.get("parity", []) if isinstance(table, dict) else []
    if not isinstance(rows, list):
        raise ParityError(f"{path}: parity entries are written [[tool.mlu-migrate.parity]]")
    return tuple(_entry(row, f"{path}: parity entry {number}", project) for number, row in enumerate(rows, 1))


def _entry(row: object, where: str, project: Path) -> Entry:
    if not isinstance(row, dict) or "command" not in row:
        raise ParityError(f"{where}: needs a command")
    unknown = sorted(set(row) - {*_COMMANDS, *_TEXTS, *_NUMBERS})
    if unknown:
        raise ParityError(f"{where}: has no setting {unknown[0]}")
    values: dict[str, Any] = {}
    for key in _COMMANDS:
        if key in row:
            values[key.replace("-", "_")] = words_of(row[key], where)
    for name in _TEXTS:
        if name in row:
            values[name] = str(row[name])
    for name, kind in _NUMBERS.items():
        if name in row:
            if isinstance(row[name], bool) or not isinstance(row[name], (int, float)):
                raise ParityError(f"{where}: {name} must be a number")
            values[name] = kind(row[name])
    for name in ("tolerance", "migrated"):
        if name in values:
            values[name] = project / values[name]
    return Entry(**values)


def words_of(command: object, where: str) -> tuple[str, ...]:
    """The words of a command given as text or as a list. Raises ParityError."""
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise ParityError(f"{where}: the command cannot be read: {error}") from None
    if not words:
        raise ParityError(f"{where}: the command is empty")
    return tuple(words)


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
    _check(project, wanted, keep, reports)
    backend = _backend()
    work = Path(tempfile.mkdtemp(prefix="mlu-parity-")) if keep is None else keep
    try:
        work.mkdir(parents=True, exist_ok=True)
        talk(f"migrating {project}")
        migrated = pipeline.run(gathering.targets_of([project]), settings, options, talk=talk)
        copy = _copy(project, migrated, work) if any(e.migrated is None for e in wanted) else None
        verdicts = [
            _compare(
                backend,
                project,
                _with_commands(entry, settings, [job.rel for job in migrated.jobs]),
                migrated.result,
                copy,
                work / (entry.name or f"run-{number}"),
                talk,
            )
            for number, entry in enumerate(wanted, 1)
        ]
    finally:
        if keep is None:
            shutil.rmtree(work, ignore_errors=True)
    for path in reports:
        path.write_text(_report(backend, path.suffix, verdicts, migrated.result, settings), encoding="utf-8")
        talk(f"report written to {path}")
    status = max((ExitStatus(v.status.exit_code) for v in verdicts), default=ExitStatus.FAILURE)
    return Outcome(status, _text(backend, output_format, verdicts, width), tuple(verdicts), migrated.result)


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
    _check_reports(reports, html=False)
    backend = _backend()
    try:
        limits = backend.tolerance.load(tolerance) if tolerance else ()
        verdict = backend.session.compare(reference, candidate, profile=profile, limits=limits, edits=edits)
    except (backend.trace.TraceError, backend.tolerance.ToleranceError, backend.editmap.EditMapError) as error:
        raise ParityError(str(error)) from None
    for path in reports:
        path.write_text(_report(backend, path.suffix, [verdict], None, None), encoding="utf-8")
    return Outcome(ExitStatus(verdict.status.exit_code), _text(backend, output_format, [verdict], width), (verdict,))


def record(arguments: Sequence[str]) -> int:
    """``parity-record``: the backend's own command line. Raises ParityError without a backend."""
    return int(_backend().record.main(list(arguments)))


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


def _check(project: Path, wanted: Sequence[Entry], keep: Path | None, reports: Sequence[Path]) -> None:
    if not project.is_dir():
        raise ParityError(f"{project}: {'not a folder' if project.exists() else 'no such folder'}")
    if not wanted:
        raise ParityError(
            f"nothing to run: give a command after --, or [[tool.mlu-migrate.parity]] in {project}/pyproject.toml"
        )
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise ParityError(f"{keep}: --keep needs a folder that is empty or not there")
    _check_reports(reports, html=True)
    for entry in wanted:
        for word, value, known in (("level", entry.level, LEVELS), ("profile", entry.profile, PROFILES)):
            if value not in known:
                raise ParityError(f"{word} must be one of {', '.join(known)}, not {value}")
        if entry.steps < 0 or (entry.timeout is not None and entry.timeout <= 0):
            raise ParityError("steps must not be negative, and timeout must be above 0 seconds")
        if entry.reference not in ("emulated-cuda", "cpu") and not Path(entry.reference).exists():
            raise ParityError(
                f"reference {entry.reference}: must be emulated-cuda, cpu or a trace; there is no such file"
            )
        if entry.migrated is not None and not entry.migrated.is_dir():
            raise ParityError(f"{entry.migrated}: no such folder")


def _check_reports(reports: Sequence[Path], *, html: bool) -> None:
    for path in reports:
        if path.suffix not in SUFFIXES or (path.suffix == ".html" and not html):
            known = SUFFIXES if html else [s for s in SUFFIXES if s != ".html"]
            raise ParityError(f"{path}: a report ends in one of {' '.join(known)}")
        if not path.absolute().parent.is_dir():
            raise ParityError(f"{path}: its folder is not there")


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
    backend: _Backend, project: Path, entry: Entry, result: RunResult, copy: Path | None, work: Path, talk: Talk
) -> Any:
    place = entry.migrated or copy
    assert place is not None
    work.mkdir(parents=True, exist_ok=True)
    map_path = work / MAP
    map_path.write_text(json.dumps(editmap.edit_map(result, place), indent=1), encoding="utf-8")
    reference = (
        entry.reference if entry.reference in ("emulated-cuda", "cpu") else str(Path(entry.reference).absolute())
    )
    try:
        limits = backend.tolerance.load(entry.tolerance) if entry.tolerance else ()
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
    except (backend.trace.TraceError, backend.tolerance.ToleranceError, backend.editmap.EditMapError) as error:
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
    verdict.title = entry.name
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


def overridden(entry: Entry, values: Mapping[str, Any]) -> Entry:
    """An entry with the options given on the command line, where they were given."""
    return replace(entry, **{name: value for name, value in values.items() if value is not None})
