"""
The migrated copy of a tree (design 2.1).

Everything is copied but version control, virtual environments and caches: data and its folders, links as links,
mode bits, with shared blocks where the file system has them. A new copy is built beside its place and appears by
one rename. A copy that is already there is refreshed file by file; what we put there is known from
``.mlu-migrate-base.zip`` in its root, which also holds the texts that a three-way merge starts from. A file that no
longer is what we wrote was edited by hand: it is never overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlu_migrate import atomic, copystate, gitinfo
from mlu_migrate.copystate import BASE, JOURNAL, State, was_read
from mlu_migrate.model import FileResult
from mlu_migrate.report import printable
from mlu_migrate.tree import Entry

LARGE = 1024**3  # bytes of a copy that are worth a word
_FICLONE = 0x40049409


class CopyError(RuntimeError):
    """A copy that was not made, or not finished. The text is for the user and says what is on disk."""


@dataclass(slots=True)
class Copied:
    """What was done, by paths in the copy."""

    root: Path
    fresh: bool
    kept: list[str] = field(default_factory=list)  # edited by hand, left as they are
    merged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)  # merged, with conflict marks in them
    removed: list[str] = field(default_factory=list)  # gone from the original, so gone from the copy
    problems: list[str] = field(default_factory=list)  # not copied, with the reason


def default_place(path: Path) -> Path:
    """
    Where the copy of a folder or file goes when the user does not say: beside it, with ``_mlu`` at the end of its
    name.
    """
    real = Path(os.path.abspath(path))
    if path.is_dir():
        return real.with_name(f"{real.name}_mlu")
    return real.with_name(f"{real.stem}_mlu{real.suffix}")


def refuse_overlap(source: Path, place: Path) -> None:
    """Raises CopyError if one of source and place lies in the other."""
    one, other = source.resolve(), place.resolve()
    if one == other:
        raise CopyError(f"{place}: the output is the input; use -w to rewrite in place")
    if source.is_dir() and other.is_relative_to(one):
        raise CopyError(f"{place}: the output lies inside the input {source}; choose another place with -o")
    if one.is_relative_to(other) and place.is_dir() and source.is_dir():
        raise CopyError(f"{place}: the input {source} lies inside the output; choose another place with -o")


def check(place: Path, *, force: bool, merge: bool) -> None:
    """
    Raises CopyError if the copy must not be written at ``place``: something else is there, or files in it were
    edited by hand. Cheap enough to ask before the work is done.
    """
    _look(place, force=force, merge=merge)


def _look(place: Path, *, force: bool, merge: bool) -> tuple[State, list[str]] | None:
    """
    What an earlier run left and which of it was edited since; None where the place is free. Raises as
    :func:`check`.
    """
    if not os.path.lexists(place):
        return None
    if not place.is_dir():
        raise CopyError(f"{place} exists and is no folder")
    if not any(place.iterdir()):
        return None
    state = copystate.read(place)
    if state is None:
        if force:
            return State(), []
        raise CopyError(
            f"{place} exists and holds no report of an earlier run; move it away, choose another place with -o, "
            "or use --force"
        )
    edited = copystate.edited(place, state)
    if edited and not (merge or force):
        names = ", ".join(printable(name) for name in edited[:5])
        more = f" and {len(edited) - 5} more" if len(edited) > 5 else ""
        raise CopyError(
            f"{place}: edited by hand since the last run: {names}{more}. Use --merge to bring the new changes into "
            "them, or --force to refresh the rest and keep them"
        )
    return state, edited


def copy(
    entries: Sequence[Entry],
    place: Path,
    results: Mapping[str, FileResult],
    reports: Mapping[str, bytes],
    *,
    force: bool = False,
    merge: bool = False,
    talk: Callable[[str], None] = lambda text: None,
) -> Copied:
    """
    Make or refresh the copy at ``place``. ``results`` are the files that were looked at, ``reports`` go into the
    root; both by path in the copy. Raises CopyError; a new copy is then not there at all, an old one is complete
    but for the files still to refresh.
    """
    earlier = _look(place, force=force, merge=merge)
    _refuse_clashes(entries, place)
    total = sum(entry.size for entry in entries if stat.S_ISREG(entry.mode))
    if total > LARGE:
        talk(f"copying {total / 1024**3:.1f} GB to {place}")
    try:
        if earlier is None:
            return _make(entries, place, results, reports)
        return _refresh(entries, place, results, reports, *earlier, merge=merge)
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        raise CopyError(f"{place}: {where}{reason}") from None


def _make(
    entries: Sequence[Entry], place: Path, results: Mapping[str, FileResult], reports: Mapping[str, bytes]
) -> Copied:
    """A copy where none is: built beside its place, then renamed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    _sweep(place)
    staging = place.parent / f".{place.name}.partial-{os.getpid()}"
    done = Copied(place, fresh=True)
    try:
        staging.mkdir()
        folders: list[tuple[Path, int]] = []
        for entry in entries:
            _put(entry, staging / entry.rel, results.get(entry.rel), done, folders)
        for name, data in reports.items():
            (staging / name).write_bytes(data)
        copystate.write(staging / BASE, entries, results, {}, {}, None)
        for folder, mode in reversed(folders):
            os.chmod(folder, mode)
        with atomic.signals_held():
            if place.exists():
                place.rmdir()
            os.rename(staging, place)
    except BaseException:
        _remove_tree(staging)
        raise
    return done


def _put(entry: Entry, target: Path, result: FileResult | None, done: Copied, folders: list[tuple[Path, int]]) -> None:
    mode = stat.S_IMODE(entry.mode)
    if stat.S_ISDIR(entry.mode):
        target.mkdir(exist_ok=True)
        folders.append((target, mode))
        return
    problem = _unreadable(entry)
    if problem is not None:
        done.problems.append(f"{entry.rel}: {problem}")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(entry.mode):
        os.symlink(os.readlink(entry.path), target)
    elif result is not None and was_read(result):
        target.write_bytes(result.result)
        if result.output is None:
            shutil.copystat(entry.path, target)
        os.chmod(target, mode)
    else:
        _copy_file(entry.path, target)


def _unreadable(entry: Entry) -> str | None:
    """
    Why an entry cannot be copied from where it is, or None. What goes wrong at the other end is no matter of one
    file.
    """
    try:
        if stat.S_ISREG(entry.mode):
            entry.path.open("rb").close()
        else:
            entry.path.lstat()
    except FileNotFoundError:
        return "vanished during the run"
    except OSError as error:
        return error.strerror or str(error)
    return None


def _copy_file(source: Path, target: Path) -> None:
    """Bytes, mode bits and times of a regular file; blocks are shared where the file system can."""
    if not _reflink(source, target):
        shutil.copyfile(source, target, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)


def _reflink(source: Path, target: Path) -> bool:
    if sys.platform != "linux":
        return False
    import fcntl

    with source.open("rb") as read, target.open("wb") as write:
        try:
            fcntl.ioctl(write.fileno(), _FICLONE, read.fileno())
        except OSError:
            return False
    return True


def _refresh(
    entries: Sequence[Entry],
    place: Path,
    results: Mapping[str, FileResult],
    reports: Mapping[str, bytes],
    state: State,
    edited_by_hand: Sequence[str],
    *,
    merge: bool,
) -> Copied:
    """A copy where one is: files that are as we left them are brought up to date, edited ones are kept or merged."""
    edited = set(edited_by_hand)
    done = Copied(place, fresh=False)
    copystate.write_journal(place, results, state)
    folders: list[tuple[Path, int]] = []
    writes: list[tuple[Path, bytes]] = []
    modes: list[tuple[Path, Entry, FileResult]] = []
    retained: dict[str, bytes] = {}
    linked: set[str] = set()  # folders that were replaced by links since, and what is below them: not ours to write
    for entry in entries:
        target = place / entry.rel
        if entry.rel.rpartition("/")[0] in linked or (stat.S_ISDIR(entry.mode) and target.is_symlink()):
            if entry.rel.rpartition("/")[0] not in linked:
                done.kept.append(entry.rel)
            linked.add(entry.rel)
            continue
        result = results.get(entry.rel)
        if entry.rel in edited:
            old = state.base(entry.rel)
            new = result.result if result is not None and was_read(result) else None
            text = _merged(target, old, new, done, entry.rel) if merge and old is not None and new is not None else None
            if text is None:
                done.kept.append(entry.rel)
                if old is not None:
                    retained[entry.rel] = old
            else:
                writes.append((target, text))
        elif stat.S_ISREG(entry.mode) and result is not None and was_read(result) and _is_plain_file(target):
            if target.read_bytes() != result.result:
                writes.append((target, result.result))
            modes.append((target, entry, result))
        elif not _is_current(entry, target, state):
            _clear(target, entry)
            _put(entry, target, result, done, folders)
    atomic.write_all(writes, root=place)
    for target, entry, result in modes:
        if result.output is None:
            shutil.copystat(entry.path, target)
        os.chmod(target, stat.S_IMODE(entry.mode))
    for folder, mode in reversed(folders):
        os.chmod(folder, mode)
    _remove_gone(place, entries, state, edited, done)
    for name, data in reports.items():
        atomic.write(place / name, data, root=place)
    unwritten = linked.union(done.kept)
    kept = {rel: state.digests.get(rel, set()) for rel in unwritten}
    stamps = {rel: state.stamps[rel] for rel in unwritten if rel in state.stamps}
    for rel in linked:
        old = state.base(rel)
        if old is not None:
            retained[rel] = old
    handle, name = tempfile.mkstemp(prefix=".mlu-migrate-tmp-", dir=place)
    os.close(handle)
    copystate.write(Path(name), entries, results, kept, stamps, retained)
    os.chmod(name, 0o644)
    os.replace(name, place / BASE)
    with contextlib.suppress(FileNotFoundError):
        (place / JOURNAL).unlink()
    return done


def _is_plain_file(path: Path) -> bool:
    """Whether a regular file is there; a link to one may lead out of the copy."""
    return path.is_file() and not path.is_symlink()


def _merged(target: Path, old: bytes, new: bytes, done: Copied, rel: str) -> bytes | None:
    """The hand-edited text with what changed upstream, or None where it stays as it is."""
    if old == new:
        return None
    with tempfile.TemporaryDirectory(prefix="mlu-migrate-merge-") as folder:
        base, theirs = Path(folder, "base"), Path(folder, "new")
        base.write_bytes(old)
        theirs.write_bytes(new)
        try:
            text, conflicts = gitinfo.merge_text(
                target, base, theirs, ("edited by hand", "migrated before", "migrated now")
            )
        except gitinfo.GitError as error:
            done.problems.append(f"{rel}: not merged: {error}")
            return None
    (done.conflicts if conflicts else done.merged).append(rel)
    return text


def _is_current(entry: Entry, target: Path, state: State) -> bool:
    """Whether the copy of a file that is not looked into is still the same as its original."""
    try:
        status = target.lstat()
    except OSError:
        return False
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.mode):
        return False
    if stat.S_ISDIR(entry.mode):
        return True
    if stat.S_ISLNK(entry.mode):
        return os.readlink(target) == os.readlink(entry.path)
    return state.stamps.get(entry.rel) == (entry.size, entry.mtime_ns) and status.st_size == entry.size


def _clear(target: Path, entry: Entry) -> None:
    """Make room for an entry of another kind. A folder in the way is only removed when it is empty."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        target.unlink()
    elif target.is_dir() and not stat.S_ISDIR(entry.mode):
        target.rmdir()


def _remove_gone(place: Path, entries: Sequence[Entry], state: State, edited: set[str], done: Copied) -> None:
    """Take out what we put there and the original no longer has. Edited files stay."""
    now = {entry.rel for entry in entries}
    links = {place: False}
    for rel in sorted((state.digests.keys() | state.stamps.keys()) - now):
        target = place / rel
        if rel in edited:
            done.kept.append(rel)
        elif copystate.below_link(target.parent, links):
            continue
        elif target.is_file() or target.is_symlink():
            target.unlink()
            done.removed.append(rel)


def _refuse_clashes(entries: Sequence[Entry], place: Path) -> None:
    """Names that differ in case only would overwrite each other where the file system does not tell them apart."""
    seen: dict[str, str] = {}
    for entry in entries:
        other = seen.setdefault(entry.rel.casefold(), entry.rel)
        if other != entry.rel and _ignores_case(place):
            raise CopyError(f"{place}: the file system cannot hold both {other} and {entry.rel}")


def _ignores_case(place: Path) -> bool:
    folder = next(parent for parent in (place, *place.parents) if parent.is_dir())
    with tempfile.NamedTemporaryFile(prefix=".mlu-migrate-Case-", dir=folder) as probe:
        path = Path(probe.name)
        return path.with_name(path.name.swapcase()).exists()


def _sweep(place: Path) -> None:
    """Remove what runs that were killed left half built beside the place."""
    for path in _partials(place):
        pid = path.name.rpartition("-")[2]
        if pid.isdigit() and not _is_running(int(pid)):
            _remove_tree(path)


def _partials(place: Path) -> Iterator[Path]:
    start = f".{place.name}.partial-"
    with contextlib.suppress(OSError):
        yield from [path for path in place.parent.iterdir() if path.name.startswith(start)]


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove_tree(path: Path) -> None:
    for folder, names, _ in os.walk(path):
        for name in [".", *names]:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(folder, name), 0o700)
    shutil.rmtree(path, ignore_errors=True)
