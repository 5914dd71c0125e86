"""
Compiles the C++ parts against the installed torch, on first use, and keeps the results.

A library is known by a hash of its sources, its flags, the torch version, the Python version and the compiler, and is
kept under ``MLU_BACKEND_BUILD_DIR`` or the user's cache folder. Processes that need the same library wait for one
build (a file lock); the finished file is renamed into place, so a build that is killed leaves nothing that looks done.

``core_library``, ``cncl_library`` and ``support_library`` answer the path of a library that is ready to load;
``python -m mlu_backend build`` makes all three ahead of time, for images and CI.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CSRC = Path(__file__).with_name("csrc")
BUILD_DIR = "MLU_BACKEND_BUILD_DIR"
LAYOUT = 1  # of the cache folder; a change makes old folders invisible

APART = ("cncl", "support")  # sources starting with these words are libraries of their own


class BuildError(RuntimeError):
    """The device could not be compiled; the message says what is missing or what the compiler said."""


@dataclass(frozen=True)
class Library:
    """One shared library: the module name Python loads it by, and what goes into it."""

    name: str
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    python: bool  # links against torch's Python half


def _sources(prefix: str | None) -> tuple[Path, ...]:
    found = sorted(CSRC.glob("*.cpp"))
    if prefix is None:
        return tuple(path for path in found if not path.name.startswith(APART))
    return tuple(path for path in found if path.name.startswith(prefix))


def library(part: str) -> Library:
    """``core``, ``cncl`` or ``support``."""
    headers = tuple(sorted(CSRC.glob("*.h")))
    if part == "core":
        own = tuple(path for path in headers if not path.name.startswith(APART))
        return Library("_mlu_core", _sources(None), own, True)
    return Library(f"_mlu_{part}", _sources(part), headers, part == "cncl")


@cache
def compiler() -> str:
    """The C++ compiler: ``CXX``, else the first of g++, c++, clang++ on the path."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    for name in wanted:
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(
        f"mlu_backend has to compile its device once and found no C++ compiler (looked for {', '.join(wanted)}). "
        "Install one: the Debian and Ubuntu package is g++ (apt-get install g++), on Fedora gcc-c++. "
        "CXX names another compiler."
    )


@cache
def _ninja() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "ninja"
    found = str(beside) if beside.is_file() else shutil.which("ninja")
    if not found:
        raise BuildError(
            "mlu_backend builds with ninja and found none; pip install ninja (Debian package: ninja-build)"
        )
    return found


def _python_headers() -> str:
    folder = sysconfig.get_path("include")
    if not (Path(folder) / "Python.h").is_file():
        raise BuildError(
            f"Python.h is not in {folder}, and mlu_backend has to compile against it. "
            "Install the headers of this Python: the Debian and Ubuntu package is python3-dev."
        )
    return folder


def _flags() -> list[str]:
    return [
        "-std=c++20",
        "-O1",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-plt",
        "-DNDEBUG",
        "-DAT_PER_OPERATOR_HEADERS",
        "-Wall",
        "-Wno-unused-function",
        "-Wno-unknown-pragmas",
        "-Wno-deprecated-declarations",
    ]


def _key(target: Library) -> str:
    # torch's version without importing torch: start-up asks for the key before anything is loaded.
    torch_version = sys.modules["torch"].__version__ if "torch" in sys.modules else _torch_version()
    parts = [
        str(LAYOUT),
        torch_version,
        platform.python_implementation(),
        sysconfig.get_config_var("SOABI") or platform.python_version(),
        platform.machine(),
        " ".join(_flags()),
        target.name,
    ]
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in (*target.sources, *target.headers):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch")


def cache_root() -> Path:
    """Where built libraries are kept."""
    given = os.environ.get(BUILD_DIR)
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("mlu-migrate") / "device"


def _path(target: Library) -> Path:
    return cache_root() / _key(target) / f"{target.name}.so"


def built(part: str) -> bool:
    """Whether the library is there and need not be compiled."""
    return _path(library(part)).is_file()


def ensure(part: str) -> Path:
    """
    The path of the library, compiled first if need be.

    Raises ``BuildError`` without a compiler, without Python's headers, or when compiling fails.
    """
    target = library(part)
    if not target.sources:
        raise BuildError(f"mlu_backend has no C++ sources for {part}: the installation in {CSRC} is incomplete")
    final = _path(target)
    if final.is_file():
        return final
    compiler()
    from filelock import FileLock

    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(final.parent / f"{target.name}.lock")):
        if not final.is_file():
            _compile(part, target, final)
    return final


def core_library() -> Path:
    """The device itself."""
    return ensure("core")


def cncl_library() -> Path:
    """The collectives; only distributed programs need them."""
    return ensure("cncl")


def support_library() -> Path:
    """The operator counter behind ``--support``."""
    return ensure("support")


def _jobs() -> int:
    given = os.environ.get("MAX_JOBS")
    if given and given.isdigit():
        return max(1, int(given))
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _escape(text: str) -> str:
    return text.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _units(target: Library, folder: Path) -> list[Path]:
    """
    Write a few files that include all sources, and answer them.

    Reading torch's headers is most of the work of a source, and those that bind to Python read the most: these stay
    together, the others are spread by size, over no more units than there are processors.
    """
    bound = [path for path in target.sources if b"pybind11" in path.read_bytes()]
    items = [bound] if bound else []
    items += [[path] for path in target.sources if path not in bound]
    items.sort(key=lambda item: -sum(path.stat().st_size + 20_000 * (item is bound) for path in item))
    heaps: list[list[Path]] = [[] for _ in range(min(len(items), max(2, min(_jobs(), 8))))]
    weights = [0] * len(heaps)
    for item in items:
        lightest = weights.index(min(weights))
        heaps[lightest] += item
        weights[lightest] += sum(path.stat().st_size + 20_000 * (item is bound) for path in item)
    units = []
    for number, heap in enumerate(heaps):
        unit = folder / f"unit{number}.cpp"
        unit.write_text("".join(f'#include "{path}"\n' for path in sorted(heap)), encoding="utf-8")
        units.append(unit)
    return units


def _ninja_file(target: Library, folder: Path) -> str:
    from torch.utils import cpp_extension

    includes = [f"-I{path}" for path in cpp_extension.include_paths()] + [f"-I{_python_headers()}"]
    links = [f"-L{path}" for path in cpp_extension.library_paths()]
    rpath = [f"-Wl,-rpath,{path}" for path in cpp_extension.library_paths()]
    libraries = ["-lc10", "-ltorch_cpu", "-ltorch"] + (["-ltorch_python"] if target.python else [])
    define = [f"-DTORCH_EXTENSION_NAME={target.name}"]

    def joined(words: Sequence[str]) -> str:
        return " ".join(f"'{word}'" if " " in word else word for word in words)

    lines = [
        "ninja_required_version = 1.5",
        f"cxx = {_escape(compiler())}",
        f"flags = {joined([*_flags(), *define, *includes])}",
        f"links = {joined([*links, *rpath, *libraries])}",
        "rule compile",
        "  command = $cxx -MMD -MF $out.d $flags -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "rule link",
        "  command = $cxx -shared $in $links -o $out",
    ]
    objects = []
    for path in _units(target, folder):
        made = f"{path.stem}.o"
        objects.append(made)
        lines.append(f"build {made}: compile {_escape(str(path))}")
    lines.append(f"build {target.name}.so: link {' '.join(objects)}")
    lines.append(f"default {target.name}.so")
    return "\n".join(lines) + "\n"


def _compile(part: str, target: Library, final: Path) -> None:
    started = time.monotonic()
    print(
        f"mlu_backend: compiling the emulated device ({part}, {len(target.sources)} files, once for this torch) ...",
        end="",
        file=sys.stderr,
        flush=True,
    )
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=final.parent))
    try:
        (work / "build.ninja").write_text(_ninja_file(target, work), encoding="utf-8")
        done = subprocess.run(
            [_ninja(), "-C", str(work), f"-j{_jobs()}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            print(" failed", file=sys.stderr)
            raise BuildError(f"mlu_backend could not compile its device ({part}):\n{_essence(done.stdout)}")
        os.replace(work / f"{target.name}.so", final)
    except BaseException:
        if sys.exc_info()[0] is not BuildError:
            print(" stopped", file=sys.stderr)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _sweep(final)
    print(f" {time.monotonic() - started:.0f} s, kept in {final.parent}", file=sys.stderr, flush=True)


def _essence(output: str) -> str:
    """The errors in a compiler's output, with what surrounds them; all of it if it is short."""
    lines = output.splitlines()
    if len(lines) <= 60:
        return output
    kept = [line for line in lines if "error" in line.lower()]
    return "\n".join(kept[:40] or lines[-40:])


def _sweep(final: Path) -> None:
    """Remove what killed builds left beside a finished library. The caller holds the lock."""
    for left in final.parent.glob(f"{final.stem}.*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)


def main(argv: Sequence[str]) -> int:
    """``python -m mlu_backend build``: compile everything now. Prints the paths."""
    if argv:
        print(f"mlu_backend build takes no arguments, got: {' '.join(argv)}", file=sys.stderr)
        return 2
    try:
        for part in ("core", *APART):
            if library(part).sources:
                print(ensure(part))
    except BuildError as error:
        print(f"mlu_backend: {error}", file=sys.stderr)
        return 2
    return 0
