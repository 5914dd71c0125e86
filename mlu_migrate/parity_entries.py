"""
What ``mlu-migrate parity`` is asked to compare: the entries of pyproject.toml, and the checks that need no run.

All that can be seen to be wrong is said here, before a project is migrated and a program runs for minutes.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlu_migrate import tomlfile

LEVELS = ("step", "module", "op")
REFERENCES = ("emulated-cuda", "cpu")
PROFILES = ("exact", "mlu370", "mlu590")
SUFFIXES = (".md", ".json", ".html", ".xml")
_TEXTS = ("name", "reference", "profile", "level", "tolerance", "migrated")
_COMMANDS = ("command", "candidate-command")
_NUMBERS = {"steps": int, "seed": int, "timeout": float, "cards": int}


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
    found = tuple(_entry(row, f"{path}: parity entry {number}", project) for number, row in enumerate(rows, 1))
    names = [entry.name for entry in found if entry.name]
    for name in names:
        if names.count(name) > 1:
            raise ParityError(f"{path}: {names.count(name)} parity entries are named {name}")
    return found


def _entry(row: object, where: str, project: Path) -> Entry:
    if not isinstance(row, dict) or "command" not in row:
        raise ParityError(f"{where}: needs a command")
    known = (*_COMMANDS, *_TEXTS, *_NUMBERS)
    for key in row:
        if key not in known:
            raise ParityError(f"{where}: has no setting {key}{meant(key, known)}; the settings are {', '.join(known)}")
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
    if values.get("reference", "cpu") not in REFERENCES:
        values["reference"] = str(project / values["reference"])
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


def meant(word: str, known: Iterable[str]) -> str:
    """``, did you mean X?`` where something like it is known."""
    near = difflib.get_close_matches(word, list(known), 1, 0.7)
    return f", did you mean {near[0]}?" if near else ""


def check_folder(project: Path) -> None:
    """Raises ParityError where ``project`` is no folder."""
    if project.is_file():
        folder = shlex.quote(str(project.parent))
        raise ParityError(
            f"{project}: not a folder; give the one it lies in, and the command that runs the program: "
            f"mlu-migrate parity {folder} -- python {shlex.quote(project.name)}"
        )
    if not project.is_dir():
        raise ParityError(f"{project}: {'not a folder' if project.exists() else 'no such folder'}")


def check(project: Path, wanted: Sequence[Entry], keep: Path | None, reports: Sequence[Path]) -> None:
    """Raises ParityError for what can be seen to be wrong before anything runs."""
    check_folder(project)
    if not wanted:
        raise ParityError(
            f"nothing to run: give a command after --, or [[tool.mlu-migrate.parity]] in {project}/pyproject.toml"
        )
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise ParityError(f"{keep}: --keep needs a folder that is empty or not there")
    check_reports(reports, html=True)
    for entry in wanted:
        _check_entry(entry, project)


def _check_entry(entry: Entry, project: Path) -> None:
    for word, value, known in (("level", entry.level, LEVELS), ("profile", entry.profile, PROFILES)):
        if value not in known:
            raise ParityError(f"{word} must be one of {', '.join(known)}, not {value}")
    if entry.steps < 0 or (entry.timeout is not None and entry.timeout <= 0):
        raise ParityError("steps must not be negative, and timeout must be above 0 seconds")
    if entry.cards is not None and entry.cards < 1:
        raise ParityError(f"cards must be 1 or more, not {entry.cards}")
    if entry.reference not in REFERENCES and not Path(entry.reference).exists():
        words = " and ".join(REFERENCES)
        raise ParityError(
            f"reference {entry.reference}: there is no such file; give a trace made by parity-record, or one of the "
            f"words {words}{meant(entry.reference, REFERENCES)}"
        )
    if entry.migrated is not None and not entry.migrated.is_dir():
        raise ParityError(f"{entry.migrated}: no such folder")
    for command, place in ((entry.command, project), (entry.candidate_command, entry.migrated or project)):
        if command:
            _check_program(command, place)


def _check_program(command: Sequence[str], folder: Path) -> None:
    """The first word has to be a program, as the shell would find it from the project's folder."""
    word = command[0]
    if not word.strip():
        raise ParityError("the command is empty")
    if os.sep in word:
        found = os.access(folder / word, os.X_OK) and (folder / word).is_file()
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        found = shutil.which(word, path=path) is not None
    if not found:
        raise ParityError(f"{word}: cannot run: {_why_not(command, folder)}")


def _why_not(command: Sequence[str], folder: Path) -> str:
    word = command[0]
    if len(command) == 1 and len(word.split()) > 1:
        return f"the whole command is one word; write it without quotes: -- {word}"
    if re.match(r"\w+=", word):
        return f"to set a variable for a program write env in front: env {shlex.join(command)}"
    if word.endswith(".py"):
        return f"that is no program; write python in front: python {shlex.join(command)}"
    if (folder / word).is_file():
        shell = f"it is not executable; write: bash {shlex.join(command)}"
        return shell if os.sep in word else f"a file of the project is run as ./{word}, or as: bash {word}"
    return "no such program" + ("" if os.sep not in word else f" in {folder}")


def folders(wanted: Sequence[Entry]) -> list[str]:
    """A folder name for the runs of each entry, made of its name; never the same, and never a way out of the place."""
    found: list[str] = []
    for number, entry in enumerate(wanted, 1):
        name = re.sub(r"[^\w.-]+", "-", entry.name).strip("-.")[:80] or f"run-{number}"
        found.append(f"{name}-{number}" if name in (*found, "migrated") else name)
    return found


def titles(wanted: Sequence[Entry]) -> list[str]:
    """What each entry is called in the report: its name; without one, its command where there are several."""
    return [entry.name or (shlex.join(entry.command) if len(wanted) > 1 else "") for entry in wanted]


def check_reports(reports: Sequence[Path], *, html: bool) -> None:
    for path in reports:
        if path.suffix not in SUFFIXES or (path.suffix == ".html" and not html):
            known = SUFFIXES if html else [s for s in SUFFIXES if s != ".html"]
            raise ParityError(f"{path}: a report ends in one of {' '.join(known)}")
        if not path.absolute().parent.is_dir():
            raise ParityError(f"{path}: its folder is not there")
        if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise ParityError(f"{path}: cannot be written{': it is a folder' if path.is_dir() else ''}")


def overridden(entry: Entry, values: Mapping[str, Any]) -> Entry:
    """An entry with the options given on the command line, where they were given."""
    return replace(entry, **{name: value for name, value in values.items() if value is not None})
