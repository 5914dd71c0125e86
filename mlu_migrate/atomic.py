"""
Writing files so that a reader, a crash or a full disk never sees half a file.

A file is written beside its place and renamed over it. Mode bits stay. A link is followed only to a file inside the
given root. Before many files are renamed a journal in the root says which: a run that is killed between two renames
is brought to its end by the next one, see :func:`recover`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PREFIX = ".mlu-migrate-tmp-"
JOURNAL = ".mlu-migrate-pending.json"


class WriteError(OSError):
    """A file that was not written. ``filename`` is its path and ``strerror`` the reason, for the user."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(None, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


@dataclass(frozen=True, slots=True)
class _Ready:
    temporary: Path
    target: Path


def write(path: Path, data: bytes, *, root: Path | None = None, mode: int | None = None) -> None:
    """
    Put ``data`` at ``path``, whole or not at all.

    An existing file keeps its mode bits unless ``mode`` is given; a new one gets ``mode`` or what the umask leaves.
    With ``root``, a path that leads out of it, through links or ``..``, is refused. Raises WriteError.
    """
    ready = _prepare(path, data, root, mode, durable=True)
    try:
        os.replace(ready.temporary, ready.target)
    except OSError as error:
        _discard([ready])
        raise WriteError(path, error.strerror or str(error)) from None


def write_all(items: Iterable[tuple[Path, bytes]], *, root: Path | None = None) -> list[Path]:
    """
    Put many files in place, as nearly together as a file system allows.

    All are first written beside their places, so that a full disk or a missing permission is met before anything
    changed; then all are renamed, with signals held back. Returns the paths in order. Raises WriteError, and then
    no file has changed, except where a rename itself fails: the text then says how many were in place.
    """
    ready: list[_Ready] = []
    paths: list[Path] = []
    swept: set[Path] = set()
    journal: Path | None = None
    try:
        for path, data in items:
            if path.parent not in swept:
                _sweep(path.parent)
                swept.add(path.parent)
            ready.append(_prepare(path, data, root, None, durable=False))
            paths.append(path)
        if root is not None and len(ready) > 1:
            journal = _write_journal(ready, root)
    except BaseException:
        _discard(ready)
        raise
    with signals_held(), _removed_after(journal):
        for index, item in enumerate(ready):
            try:
                os.replace(item.temporary, item.target)
            except OSError as error:
                _discard(ready[index:])
                reason = f"{error.strerror or error} ({index} of {len(ready)} files were already written)"
                raise WriteError(item.target, reason) from None
    return paths


def recover(root: Path) -> int:
    """
    Finish the renames of a run that was killed in the middle of them; returns how many were left.

    A file that was changed since is left as it is. Whatever the journal says, only files of ours inside ``root`` are
    moved, each to a place in its own folder. Raises WriteError.
    """
    path = root / JOURNAL
    try:
        if path.is_symlink():
            return 0
        data = json.loads(path.read_text("utf-8"))
        if int(data["pid"]) != os.getpid() and _is_running(int(data["pid"])):
            return 0
        rows = [(str(row[0]), str(row[1]), row[2]) for row in data["files"]]
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, TypeError, LookupError, OverflowError):
        rows = []
    count = 0
    for name, new, digest in rows:
        if not new.startswith(PREFIX) or os.path.basename(new) != new or "\0" in new:
            continue
        target = resolve_inside(root / name, root)
        temporary = target.with_name(new)
        if temporary.is_symlink() or not temporary.is_file():
            continue
        try:
            if _digest(target) == digest:
                os.replace(temporary, target)
                count += 1
            else:
                temporary.unlink()
        except OSError as error:
            raise WriteError(target, error.strerror or str(error)) from None
    with contextlib.suppress(OSError):
        path.unlink()
    return count


def resolve_inside(path: Path, root: Path) -> Path:
    """The real place of ``path``. Raises WriteError if that is not inside ``root`` or cannot be found out."""
    try:
        target = path.resolve()
        inside = target.is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, before Python 3.13; a null byte
        raise WriteError(path, f"cannot be resolved: {error}") from None
    if not inside:
        raise WriteError(path, "leads out of the project, not written")
    return target


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Hold back Ctrl-C and TERM until the block is done. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    names = [signal.SIGINT, signal.SIGTERM]
    before = {name: signal.signal(name, lambda number, frame: pending.append(number)) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
        for number in pending:
            signal.raise_signal(number)


def _prepare(path: Path, data: bytes, root: Path | None, mode: int | None, *, durable: bool) -> _Ready:
    target = resolve_inside(path, root) if root is not None else path
    temporary: str | None = None
    try:
        if root is None and path.is_symlink():
            target = path.resolve()
        if mode is None:
            mode = _existing_mode(target)
        handle, temporary = tempfile.mkstemp(prefix=f"{PREFIX}{os.getpid()}-", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:  # thousands of files would wait for the disk; a power cut is then the file system's matter
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, _default_mode() if mode is None else mode)
    except BaseException as error:  # Ctrl-C among them
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, OSError):
            raise WriteError(path, error.strerror or str(error)) from None
        raise
    return _Ready(Path(temporary), target)


def _existing_mode(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _write_journal(ready: Iterable[_Ready], root: Path) -> Path | None:
    """Say which files are about to be renamed, and what is there now. None where a root cannot hold it."""
    top = root.resolve()
    rows = [(os.path.relpath(item.target.resolve(), top), item.temporary.name, _digest(item.target)) for item in ready]
    path = root / JOURNAL
    if path.is_symlink():
        raise WriteError(path, "a link in the place of our journal, not written")
    write(path, json.dumps({"pid": os.getpid(), "files": rows}).encode("ascii"))
    return path


@contextlib.contextmanager
def _removed_after(journal: Path | None) -> Iterator[None]:
    try:
        yield
    finally:
        if journal is not None:
            with contextlib.suppress(OSError):
                journal.unlink()


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _sweep(folder: Path) -> None:
    """Remove what killed runs have left beside files."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            pid = entry.name.removeprefix(PREFIX).partition("-")[0]
            if entry.name.startswith(PREFIX) and pid.isdigit() and not _is_running(int(pid)):
                os.unlink(entry.path)


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _discard(items: Iterable[_Ready]) -> None:
    for item in items:
        with contextlib.suppress(OSError):
            item.temporary.unlink()
