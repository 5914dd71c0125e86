"""
What a run remembers in the copy it made: digests of the files it wrote, sizes and times of those it copied, and the
texts that a three-way merge starts from. All of it lies in ``.mlu-migrate-base.zip`` in the root of the copy; where
that is missing, the digests of the JSON report do. While a copy is refreshed, a journal says what is about to be
written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import stat
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mlu_migrate import atomic, walk
from mlu_migrate.model import FileResult, FileStatus

REPORT = "mlu-migrate-report"
REPORTS = (f"{REPORT}.md", f"{REPORT}.json")
BASE = walk.OUTPUT_MARK
JOURNAL = ".mlu-migrate-journal.json"
OWN = frozenset({*REPORTS, BASE, JOURNAL, atomic.JOURNAL})


class Copyable(Protocol):
    """What is remembered of an entry of the copy."""

    @property
    def rel(self) -> str: ...
    @property
    def mode(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...


@dataclass(slots=True)
class State:
    """What an earlier run put into a copy: digests of migrated files, size and time of others, texts for merging."""

    digests: dict[str, set[str]] = field(default_factory=dict)
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)
    archive: Path | None = None

    def base(self, rel: str) -> bytes | None:
        if self.archive is None:
            return None
        try:
            with zipfile.ZipFile(self.archive) as file:
                return file.read(_member(rel).filename)
        except (KeyError, OSError, zipfile.BadZipFile):
            return None


def was_read(result: FileResult) -> bool:
    """Whether the result holds the bytes of the file, so that exactly these go into the copy."""
    return bool(result.source) or result.status in (FileStatus.CHANGED, FileStatus.UNCHANGED)


def edited(place: Path, state: State) -> list[str]:
    """
    Files of the copy that are no longer what we put there; a link in place of a file is one.

    Not counted: files deleted by hand, which come back, and files below a folder that was replaced by a link.
    """
    found = []
    links: dict[Path, bool] = {place: False}
    for rel in state.digests.keys() | state.stamps.keys():
        path = place / rel
        try:
            status = path.lstat()
        except OSError:
            continue
        if below_link(path.parent, links) or stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            found.append(rel)
        elif rel in state.digests:
            if _digest(path) not in state.digests[rel]:
                found.append(rel)
        elif (status.st_size, status.st_mtime_ns) != state.stamps[rel]:
            found.append(rel)
    return sorted(found)


def below_link(folder: Path, known: dict[Path, bool]) -> bool:
    """
    Whether a folder of the copy is a link or lies below one. ``known`` holds answers so far, that for the root
    among them.
    """
    answer = known.get(folder)
    if answer is None:
        answer = folder.is_symlink() or below_link(folder.parent, known)
        known[folder] = answer
    return answer


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
    return digest.hexdigest()


def read(place: Path) -> State | None:
    """What an earlier run left in the copy, or None where there is no report of ours."""
    report = _read_json(place / f"{REPORT}.json")
    if report is None or report.get("version") != 1 or (report.get("tool") or {}).get("name") != "mlu-migrate":
        return None
    state = State()
    for row in report.get("files", []):
        if isinstance(row, dict) and isinstance(row.get("sha256"), str) and _is_plain(row.get("path")):
            state.digests[row["path"]] = {row["sha256"]}
    with contextlib.suppress(OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError):
        with zipfile.ZipFile(place / BASE) as file:
            manifest = json.loads(file.read("manifest.json"))
        state.digests = {rel: set(digests) for rel, digests in manifest["files"].items() if _is_plain(rel)}
        state.stamps = {rel: (row[0], row[1]) for rel, row in manifest["copied"].items() if _is_plain(rel)}
        state.archive = place / BASE
    journal = _read_json(place / JOURNAL) or {}
    for rel, digest in journal.items():
        if rel in state.digests and isinstance(digest, str):
            state.digests[rel].add(digest)
        elif _is_plain(rel) and isinstance(digest, str):
            state.digests[rel] = {digest}
    return state


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _is_plain(rel: object) -> bool:
    """Whether a path read from a report stays inside the copy."""
    if not isinstance(rel, str) or not rel:
        return False
    parts = Path(rel).parts
    return not Path(rel).is_absolute() and ".." not in parts


def write_journal(place: Path, results: Mapping[str, FileResult], state: State) -> None:
    """Say what is about to be written, so that a run that is killed half way does not look like edits by hand."""
    coming = {rel: result.sha256 for rel, result in results.items() if was_read(result)}
    new = {rel: digest for rel, digest in coming.items() if digest not in state.digests.get(rel, ())}
    atomic.write(place / JOURNAL, json.dumps(new).encode("ascii"), root=place)


def write(
    path: Path,
    entries: Iterable[Copyable],
    results: Mapping[str, FileResult],
    kept: Mapping[str, set[str]],
    kept_stamps: Mapping[str, tuple[int, int]],
    retained: Mapping[str, bytes] | None,
) -> None:
    """``kept`` and ``retained``: digests and texts of an earlier run for files that were not written in this one."""
    files: dict[str, list[str]] = {rel: sorted(digests) for rel, digests in kept.items() if digests}
    copied: dict[str, tuple[int, int]] = dict(kept_stamps)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for entry in entries:
            if not stat.S_ISREG(entry.mode) or entry.rel in kept:
                continue
            result = results.get(entry.rel)
            if result is not None and was_read(result):
                files[entry.rel] = [result.sha256]
                file.writestr(_member(entry.rel), result.result)
            else:
                copied[entry.rel] = (entry.size, entry.mtime_ns)
        for rel, data in (retained or {}).items():
            file.writestr(_member(rel), data)
        file.writestr(_member(None), json.dumps({"files": files, "copied": copied}))


def _member(rel: str | None) -> zipfile.ZipInfo:
    """A zip entry without a date, so that equal copies have equal archives."""
    name = "manifest.json" if rel is None else f"files/{rel}".encode("utf-8", "backslashreplace").decode()
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    return member
