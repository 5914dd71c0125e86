"""
Writing files so that a reader, a crash or a full disk never sees half a file.

A file is written beside its place and renamed over it. Mode bits stay. A link is followed only to a file inside the
given root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PREFIX = ".mlu-migrate-tmp-"


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
    try:
        for path, data in items:
            ready.append(_prepare(path, data, root, None, durable=False))
            paths.append(path)
    except BaseException:
        _discard(ready)
        raise
    with signals_held():
        for index, item in enumerate(ready):
            try:
                os.replace(item.temporary, item.target)
            except OSError as error:
                _discard(ready[index:])
                reason = f"{error.strerror or error} ({index} of {len(ready)} files were already written)"
                raise WriteError(item.target, reason) from None
    return paths


def resolve_inside(path: Path, root: Path) -> Path:
    """The real place of ``path``. Raises WriteError if that is not inside ``root`` or cannot be found out."""
    try:
        target = path.resolve()
        inside = target.is_relative_to(root.resolve())
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
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
        handle, temporary = tempfile.mkstemp(prefix=_PREFIX, dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:  # thousands of files would wait for the disk; a power cut is then the file system's matter
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, _default_mode() if mode is None else mode)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise WriteError(path, error.strerror or str(error)) from None
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


def _discard(items: Iterable[_Ready]) -> None:
    for item in items:
        with contextlib.suppress(OSError):
            item.temporary.unlink()
