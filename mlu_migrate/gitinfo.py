"""
What git knows about the files of a run. Only asks; never changes the repository, and runs no hook or monitor it
configures.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "-c", f"core.hooksPath={os.devnull}")

_LFS = re.compile(r"git-lfs (clean -- %f|smudge -- %f|filter-process)")


class GitError(RuntimeError):
    """Git is missing, refused, or does not know what was asked. The text is one line for the user."""


def toplevel(path: Path) -> Path | None:
    """The root of the checkout that holds ``path``, or None outside git (or without git)."""
    folder = path if path.is_dir() else path.parent
    try:
        return Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    except GitError:
        return None


def changed_since(folder: Path, revision: str) -> set[Path]:
    """
    Files of the checkout that differ from ``revision``, committed or not, and files git does not track yet. Deleted
    ones are left out. Raises GitError.
    """
    top = toplevel(folder)
    if top is None:
        raise GitError(f"--since needs a git checkout, and {folder} is not in one")
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except GitError:
        raise GitError(f"--since: git knows no revision {revision} here") from None
    named = _git(
        top,
        *_unfiltered(top),
        "diff",
        "--name-only",
        "--no-renames",
        "--diff-filter=d",
        "-z",
        commit.decode("ascii"),
        "--",
    )
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z")
    return {top / os.fsdecode(name) for name in (named + new).split(b"\0") if name}


def uncommitted(folder: Path) -> list[str]:
    """Tracked files of the checkout with changes that are not committed, from its root. Raises GitError outside git."""
    top = toplevel(folder)
    if top is None:
        raise GitError(f"{folder} is not in a git checkout")
    entries = _git(top, *_unfiltered(top), "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames").split(
        b"\0"
    )
    return [os.fsdecode(entry[3:]) for entry in entries if entry]


def untracked(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Those of ``paths`` that git does not track, so that it could not bring them back. Raises GitError."""
    top = toplevel(folder)
    if top is None:
        return list(paths)
    tracked = {top.resolve() / os.fsdecode(name) for name in _git(top, "ls-files", "-z").split(b"\0") if name}
    return [path for path in paths if path.resolve() not in tracked]


def merge_text(current: Path, base: Path, new: Path, labels: tuple[str, str, str]) -> tuple[bytes, int]:
    """
    Three-way merge of texts: what is in ``current``, with the changes from ``base`` to ``new`` brought in.

    Returns the merged bytes and the number of conflicts, which are marked in them as git does. Raises GitError
    where git is missing or the files are no text.
    """
    command = ["merge-file", "-p", "--diff3"]
    for label in labels:
        command += ["-L", label]
    process = _start(current.parent, (*command, str(current), str(base), str(new)))
    if process.returncode < 0 or process.returncode > 127:
        raise GitError(_reason(process))
    return process.stdout, process.returncode


def _unfiltered(top: Path) -> tuple[str, ...]:
    """
    Arguments that switch off the filter programs of the repository's own configuration, which git would run to
    compare files. Those of git-lfs stay, and those the user has configured for all repositories.
    """
    try:
        listed = _git(top, "config", "-z", "--show-scope", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$")
    except GitError:
        return ()  # none
    parts = listed.decode("utf-8", "surrogateescape").split("\0")
    found: list[str] = []
    for scope, entry in zip(parts[::2], parts[1::2]):
        key, _, program = entry.partition("\n")
        if scope in ("local", "worktree") and not _LFS.fullmatch(program):
            found += ["-c", f"{key}=", "-c", f"{key.rpartition('.')[0]}.required=false"]
    return tuple(found)


def _git(folder: Path, *arguments: str) -> bytes:
    process = _start(folder, arguments)
    if process.returncode:
        raise GitError(_reason(process))
    return process.stdout


def _start(folder: Path, arguments: Iterable[str]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
    ):  # set while a hook runs, for another folder than ours perhaps
        environment.pop(name, None)
    try:
        return subprocess.run(
            ["git", *_QUIET, *arguments], cwd=folder, env=environment, capture_output=True, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror or error}") from None


def _reason(process: subprocess.CompletedProcess[bytes]) -> str:
    lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"git: {lines[-1] if lines else f'status {process.returncode}'}"
