"""
Which files of a tree are looked at.

``.gitignore`` files, default excludes and globs limit what is read and rewritten. Links are never followed: their
targets are met where they lie, or lie outside and are none of our business. Nothing is opened here but
``.gitignore`` and the first bytes of files without a suffix.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    _Spec = tuple[
        str, GitIgnoreSpec
    ]  # patterns and the folder they are relative to: from the project root, "" or ending in a slash

PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")
VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"})
ENVIRONMENTS = frozenset({".venv", "venv", ".virtualenv", ".direnv", ".pixi"})
CACHES = frozenset(
    {
        "__pycache__",
        "__pypackages__",
        ".eggs",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".tox",
    }
)
FOREIGN = frozenset({"node_modules", "site-packages", "dist-packages", "buck-out"})
DEFAULT_EXCLUDES = VERSION_CONTROL | ENVIRONMENTS | CACHES | FOREIGN
OUTPUT_MARK = ".mlu-migrate-base.zip"  # lies in the root of every copy we made


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to look at. ``rel`` is its path from the top of the walk, with ``/``."""

    path: Path
    rel: str
    python: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that cannot be looked at and must not pass in silence."""

    path: Path
    rel: str
    reason: str
    failed: bool = False  # True: the user has to act, the run exits 2
    source: bytes = b""  # its bytes, where they were read


@dataclass(slots=True)
class Found:
    """What a walk met, both in order of path."""

    files: list[Candidate] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rules:
    """
    What a walk leaves out. Patterns are read as in ``.gitignore``, from the top of the walk or from the project
    root.
    """

    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    gitignore: bool = True


def expand(argument: str) -> list[Path]:
    """
    The paths a command line argument means: itself, or what it matches when it is a glob that the shell left alone.
    """
    path = Path(argument)
    if os.path.lexists(path) or not glob.has_magic(argument):
        return [path]
    return sorted(Path(item) for item in glob.glob(argument, recursive=True)) or [path]


def find(top: Path, root: Path, rules: Rules, handles: Callable[[Path], bool]) -> Found:
    """
    Files under the folder ``top`` that are Python or that ``handles`` says are of use.

    ``root`` is the project root, at or above ``top``: its ``.gitignore`` files count too, except where they ignore
    ``top`` itself, which the user asked for by name.
    """
    walker = _Walker(top, root, rules, handles)
    walker.folder(top, "", walker.outer_specs())
    walker.found.files.sort(key=lambda item: item.rel.split("/"))
    walker.found.refused.sort(key=lambda item: item.rel.split("/"))
    return walker.found


def single(
    path: Path, rel: str, rules: Rules, root: Path, handles: Callable[[Path], bool]
) -> Candidate | Refused | None:
    """
    A file named by the user: looked at whatever ``.gitignore`` and the default excludes say. None when a glob
    excludes it.
    """
    globs = (*(rules.exclude or ()), *rules.extend_exclude)
    if globs and (_spec(globs).match_file(rel) or _spec(globs).match_file(_relative(path, root))):
        return None
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return Refused(path, rel, error.strerror or str(error), failed=True)
    if not stat.S_ISREG(mode):
        return Refused(path, rel, "not a regular file", failed=True)
    if is_python(path):
        return Candidate(path, rel, True)
    if handles(path):
        return Candidate(path, rel, False)
    return Refused(path, rel, "not a kind of file that is migrated")


def is_python(path: Path) -> bool:
    """Whether a regular file is Python source, by its suffix or, without one, by its first line."""
    if path.suffix:
        return path.suffix.lower() in PYTHON_SUFFIXES
    try:
        with path.open("rb") as file:
            first = file.read(128)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first.split(b"\n", 1)[0]


def is_environment(path: Path) -> bool:
    """Whether a folder is a virtual or conda environment, whatever its name."""
    return (path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir()


def leads_out(link: Path, top: Path) -> bool:
    """Whether a link points outside ``top``, or in a circle."""
    try:
        return not link.resolve().is_relative_to(top.resolve())
    except (OSError, RuntimeError):
        return True


class _Walker:
    def __init__(self, top: Path, root: Path, rules: Rules, handles: Callable[[Path], bool]) -> None:
        self.top = top
        self.root = root
        self.rules = rules
        self.handles = handles
        self.found = Found()
        self.names = DEFAULT_EXCLUDES if rules.exclude is None else VERSION_CONTROL
        globs = (*(rules.exclude or ()), *rules.extend_exclude)
        self.globs = _spec(globs) if globs else None
        relative = _relative(top, root)
        self.prefix = "" if relative == "." else f"{relative}/"

    def outer_specs(self) -> list[_Spec]:
        """The ignore files from the project root to above the top, less those that ignore the top itself."""
        if not self.rules.gitignore:
            return []
        specs: list[_Spec] = []
        parts = self.prefix.rstrip("/").split("/") if self.prefix else []
        for depth in range(len(parts) + 1):
            base = "".join(f"{part}/" for part in parts[:depth])
            folder = self.root / base
            lines = _ignore_lines(folder / ".git" / "info" / "exclude") if depth == 0 else []
            if depth < len(parts):  # the top's own file is read when it is walked
                lines += _ignore_lines(folder / ".gitignore")
            if not lines:
                continue
            spec = _spec(lines)
            way = ["".join(f"{part}/" for part in parts[depth:end]) for end in range(depth + 1, len(parts) + 1)]
            if not any(spec.match_file(folder) for folder in way):
                specs.append((base, spec))
        return specs

    def folder(self, path: Path, rel: str, specs: list[_Spec]) -> None:
        """
        Walk one folder; ``rel`` ends in a slash, or is empty for the top. ``specs`` holds (prefix to add to paths,
        spec).
        """
        pending = [(path, rel, specs)]
        while pending:
            path, rel, specs = pending.pop()
            try:
                entries = sorted(os.scandir(path), key=lambda entry: entry.name)
            except OSError as error:
                self.found.refused.append(
                    Refused(path, rel.rstrip("/") or ".", error.strerror or str(error), failed=True)
                )
                continue
            if self.rules.gitignore and any(entry.name == ".gitignore" for entry in entries):
                lines = _ignore_lines(path / ".gitignore")
                if lines:
                    specs = [*specs, (f"{self.prefix}{rel}", _spec(lines))]
            for entry in entries:
                if self.wanted_folder(entry, rel, specs):
                    pending.append((Path(entry.path), f"{rel}{entry.name}/", specs))
                elif not entry.is_dir(follow_symlinks=False):
                    self.file(entry, rel, specs)

    def wanted_folder(self, entry: os.DirEntry[str], rel: str, specs: list[_Spec]) -> bool:
        if not entry.is_dir(follow_symlinks=False) or entry.name in self.names:
            return False
        name = f"{rel}{entry.name}/"
        if self.globs is not None and self.matches_globs(name):
            return False
        if self.ignored(name, specs):
            return False
        path = Path(entry.path)
        return not is_environment(path) and not (path / OUTPUT_MARK).exists() and not _is_build_output(path)

    def file(self, entry: os.DirEntry[str], rel: str, specs: list[_Spec]) -> None:
        path, name = Path(entry.path), f"{rel}{entry.name}"
        looks_python = entry.name.lower().endswith(PYTHON_SUFFIXES)
        if entry.is_symlink():
            if looks_python and leads_out(path, self.top) and not self.left_out(name, specs):
                self.found.refused.append(Refused(path, name, "a link out of the project, not followed"))
            return
        if not entry.is_file(follow_symlinks=False):
            if looks_python:
                self.found.refused.append(Refused(path, name, "not a regular file"))
            return
        python = looks_python or ("." not in entry.name and is_python(path))
        if (python or self.handles(path)) and not self.left_out(name, specs):
            self.found.files.append(Candidate(path, name, python))

    def left_out(self, name: str, specs: list[_Spec]) -> bool:
        return (self.globs is not None and self.matches_globs(name)) or self.ignored(name, specs)

    def matches_globs(self, name: str) -> bool:
        assert self.globs is not None
        return self.globs.match_file(name) or self.globs.match_file(self.prefix + name)

    def ignored(self, name: str, specs: Sequence[_Spec]) -> bool:
        """What the deepest ignore file with an opinion says."""
        full = self.prefix + name
        for base, spec in reversed(specs):
            include = spec.check_file(full[len(base) :]).include
            if include is not None:
                return include
        return False


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    good = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:  # git, too, goes on after a pattern it cannot read
            continue
        good.append(line)
    return GitIgnoreSpec.from_lines(good)


def _ignore_lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []


def _relative(path: Path, root: Path) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/")


def _is_build_output(path: Path) -> bool:
    """Whether this is what setuptools leaves behind: a copy of the package, not a package of that name."""
    if path.name != "build":
        return False
    return any(child.name.startswith(("lib.", "bdist.", "temp.")) or child.name == "lib" for child in _children(path))


def _children(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        return os.scandir(path)
    except OSError:
        return iter(())
