"""
What a run is about: the files below the paths that were given, which of them are read, and by what names reports call
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlu_migrate import baseline, gitinfo, walk
from mlu_migrate.model import FileResult, FileStatus
from mlu_migrate.settings import Options, Settings, project_root

LARGEST = 100 * 1024 * 1024  # bytes; a larger file is data, whatever its name


@dataclass(frozen=True, slots=True)
class Target:
    """One path the user named. ``prefix`` is put before the paths of its files in reports, "" or ending in a slash."""

    path: Path
    directory: bool
    prefix: str

    def report_path(self, rel: str) -> str:
        """The path in reports of a file of this target."""
        return f"{self.prefix}{rel}"


@dataclass(frozen=True, slots=True)
class Job:
    """One file of the run. ``rel`` is its path inside its target, ``rooted`` its path from the project root."""

    target: Target
    path: Path
    rel: str
    root: Path
    rooted: str
    python: bool

    @property
    def shown(self) -> str:
        """The path in reports."""
        return self.target.report_path(self.rel)


def targets_of(paths: Sequence[Path]) -> tuple[Target, ...]:
    """
    What the arguments mean for report paths.

    With one folder paths are relative to it. A file keeps its name from the current folder where it is below that,
    so that an editor finds it, and several folders stand before the paths of their files.
    """
    if len(paths) == 1 and paths[0].is_dir():
        return (Target(paths[0], True, ""),)
    targets = []
    for path in paths:
        directory = path.is_dir()
        shown = _from_here(path, alone=len(paths) == 1)
        if directory:
            targets.append(Target(path, True, "" if shown == "." else f"{shown}/"))
        else:
            targets.append(Target(path, False, shown.removesuffix(path.name)))
    return tuple(targets)


def _from_here(path: Path, *, alone: bool) -> str:
    """
    The path from the current folder where it is below that; else as it was given, or only its name if it is alone.
    """
    relative = os.path.relpath(path.absolute())
    if not relative.startswith(os.pardir):
        return Path(relative).as_posix()
    return path.name if alone else path.as_posix().lstrip("/")


def handler(settings: Settings) -> Callable[[Path], bool]:
    """Says of a path that is no Python whether it is migrated. With ``configs = "off"`` only notebooks are."""

    def handles(path: Path) -> bool:
        from mlu_migrate import nonpython  # only now: a run over Python alone does without

        return (settings.configs != "off" or path.suffix == ".ipynb") and nonpython.handles(path)

    return handles


def gather(
    targets: Sequence[Target], settings: Settings, options: Options, since: str | None, left_out: bool
) -> tuple[list[Job], list[FileResult | None], list[Path]]:
    """The jobs in order, results for those that are decided already, and the roots of the projects they belong to."""
    rules = walk.Rules(options.exclude, options.extend_exclude, options.gitignore)
    handles = handler(settings)
    jobs: list[Job] = []
    results: list[FileResult | None] = []
    roots: list[Path] = []
    seen: set[str] = set()
    for target in targets:
        root = project_root(Path(os.path.abspath(target.path)))
        if root not in roots:
            roots.append(root)
        if target.directory:
            found = walk.find(target.path, root, rules, handles)
            if left_out:
                found.refused += _left_out(target.path, root, found, handles)
        else:
            found = walk.Found()
            single = walk.single(target.path, target.path.name, rules, root, handles)
            if isinstance(single, walk.Candidate):
                found.files.append(single)
            elif single is not None:
                found.refused.append(single)
        prefix = _prefix(target.path if target.directory else target.path.parent, root)
        changed = {path.resolve() for path in gitinfo.changed_since(target.path, since)} if since else None
        entries: list[walk.Candidate | walk.Refused] = [*found.files, *found.refused]
        for entry in sorted(entries, key=lambda item: item.rel.split("/")):
            place = os.path.abspath(entry.path)
            if place in seen or (changed is not None and entry.path.resolve() not in changed):
                continue
            seen.add(place)
            python = isinstance(entry, walk.Refused) or entry.python
            job = Job(target, entry.path, entry.rel, root, prefix + entry.rel, python)
            jobs.append(job)
            if isinstance(entry, walk.Refused):
                status = FileStatus.FAILED if entry.failed else FileStatus.SKIPPED
                results.append(FileResult(job.shown, status, entry.reason, entry.source))
            else:
                results.append(None)
    return jobs, results, roots


def _prefix(folder: Path, root: Path) -> str:
    """What to put before a path inside the folder to have it from the root."""
    relative = baseline.relative(folder, root)
    return "" if relative == "." else f"{relative}/"


def _left_out(top: Path, root: Path, found: walk.Found, handles: Callable[[Path], bool]) -> list[walk.Refused]:
    """Files with something to migrate in them that ignore files or globs keep out of ``found``."""
    from mlu_migrate.prefilter import mentions

    known = {item.rel for item in found.files} | {item.rel for item in found.refused}
    everything = walk.find(top, root, walk.Rules(gitignore=False), handles)
    reason = "left out by .gitignore or an exclude, not migrated"
    refused = []
    for item in everything.files:
        if item.rel in known or not item.python:
            continue
        data = read(item.path)
        if isinstance(data, bytes) and mentions(data):
            refused.append(walk.Refused(item.path, item.rel, reason, source=data))
    return refused


def read(path: Path) -> bytes | str:
    """The bytes of a file, or the reason why there are none."""
    try:
        for _ in range(3):
            with path.open("rb") as file:
                before = os.fstat(file.fileno())
                if before.st_size > LARGEST:
                    return f"larger than {LARGEST // 1024**2} MiB"
                data = file.read()
                after = os.fstat(file.fileno())
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and len(
                data
            ) == after.st_size:
                return data
    except FileNotFoundError:
        return "vanished during the run"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return "kept changing while it was read"
