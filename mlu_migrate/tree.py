"""What there is to copy of a tree, seen without following links."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from mlu_migrate import atomic, walk
from mlu_migrate.copystate import OWN

_NEVER = walk.VERSION_CONTROL | walk.ENVIRONMENTS | walk.CACHES


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to copy: a file, link or folder. ``rel`` is its path in the copy, with ``/``."""

    path: Path
    rel: str
    mode: int
    size: int
    mtime_ns: int


def entries_of(top: Path, prefix: str = "") -> tuple[list[Entry], list[str]]:
    """All that is copied of a folder, folders before what is in them, and what is not, with reasons."""
    found: list[Entry] = []
    problems: list[str] = []
    pending = [(top, prefix)]
    while pending:
        folder, rel = pending.pop()
        try:
            items = sorted(os.scandir(folder), key=lambda item: item.name)
        except OSError as error:
            problems.append(f"{rel or '.'}: {error.strerror or error}")
            continue
        for item in items:
            if item.name in _NEVER or (not rel and item.name in OWN) or item.name.startswith(atomic.PREFIX):
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except OSError:
                problems.append(f"{rel}{item.name}: vanished during the run")
                continue
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFDIR:
                if walk.is_environment(Path(item.path)):
                    continue
                pending.append((Path(item.path), f"{rel}{item.name}/"))
            elif kind not in (stat.S_IFREG, stat.S_IFLNK):
                problems.append(f"{rel}{item.name}: a pipe, socket or device, not copied")
                continue
            path = Path(item.path)
            found.append(Entry(path, f"{rel}{item.name}", status.st_mode, status.st_size, status.st_mtime_ns))
    found.sort(key=lambda entry: entry.rel.split("/"))
    return found, problems


def folder_entry(path: Path, rel: str) -> Entry:
    """The top folder of a target as it goes into an output folder. Raises OSError."""
    status = path.stat()
    return Entry(path, rel, status.st_mode, status.st_size, status.st_mtime_ns)


def single_entry(path: Path) -> Entry:
    """A file as it goes into an output folder, a link followed. Raises OSError."""
    status = path.stat()
    return Entry(path, path.name, status.st_mode, status.st_size, status.st_mtime_ns)
