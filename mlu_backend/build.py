"""
Compiles the C++ half against the installed torch, on first use, and keeps the result.

The library is known by a hash of its sources, its flags, the torch version and the Python version, and is kept under
``MLU_BACKEND_BUILD_DIR`` or the user's cache folder. Processes that need it wait for one build (a file lock); the
finished file is renamed into place, so a build that is killed leaves nothing that looks done.

``core_library`` answers the path of the library, ready to load; ``python -m mlu_backend build`` makes it ahead of time,
for images and CI. It is one library, although not every program needs all of it (collectives, shared memory, the
operator counter): reading torch's headers is most of the work, and a library of its own would read them again. Measured
on 2 cores: one library 31 s of processor time, four 56 s.
"""

from __future__ import annotations

import hashlib
import importlib.util
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
NAME = "_mlu_core"  # of the library and of the Python module it is loaded as


class BuildError(RuntimeError):
    """The device could not be compiled; the message says what is missing or what the compiler said."""


@dataclass(frozen=True)
class Library:
    """The shared library: the module name Python loads it by, and what goes into it."""

    name: str
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]


def library() -> Library:
    """The device, as its sources are now."""
    return Library(NAME, tuple(sorted(CSRC.glob("*.cpp"))), tuple(sorted(CSRC.glob("*.h"))))


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


def built() -> bool:
    """Whether the library is there and need not be compiled."""
    return _path(library()).is_file()


def core_library() -> Path:
    """
    The path of the library, compiled first if need be.

    Raises ``BuildError`` without a compiler, without Python's headers, or when compiling fails.
    """
    target = library()
    if not target.sources:
        raise BuildError(f"mlu_backend has no C++ sources: the installation in {CSRC} is incomplete")
    final = _path(target)
    if final.is_file():
        return final
    compiler()
    from filelock import FileLock

    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(final.parent / f"{target.name}.lock")):
        if not final.is_file():
            _compile(target, final)
    return final


def _jobs() -> int:
    given = os.environ.get("MAX_JOBS")
    if given and given.isdigit():
        return max(1, int(given))
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _escape(text: str) -> str:
    return text.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _spread(sources: Sequence[Path], heaps: int) -> list[list[Path]]:
    """The sources in so many heaps of about equal size."""
    made: list[list[Path]] = [[] for _ in range(heaps)]
    weights = [0] * heaps
    for path in sorted(sources, key=lambda path: -path.stat().st_size):
        lightest = weights.index(min(weights))
        made[lightest].append(path)
        weights[lightest] += path.stat().st_size
    return made


def _heaps(sources: Sequence[Path], jobs: int) -> list[list[Path]]:
    """
    Which sources are compiled together on so many processors.

    Those that bind to Python or to torch's process groups read the most headers, so they stay together until there are
    processors to spare. More than four units make nothing faster: the collectives are one source.
    """
    texts = {path: path.read_bytes() for path in sources}
    groups = [path for path in sources if path.name.startswith("cncl")]
    bound = [path for path in sources if b"/pybind" in texts[path] and path not in groups]
    rest = [path for path in sources if path not in bound and path not in groups]
    if jobs == 1:
        heaps = [[*groups, *bound, *rest]]
    elif jobs == 2:
        heaps = [[*groups, *bound], rest]
    else:
        heaps = [groups, bound, *_spread(rest, 1 if jobs == 3 else 2)]
    return [sorted(heap) for heap in heaps if heap]


def _units(target: Library, folder: Path) -> list[Path]:
    """Write a few files that include all sources, and answer them."""
    units = []
    for number, heap in enumerate(_heaps(target.sources, _jobs())):
        unit = folder / f"unit{number}.cpp"
        unit.write_text("".join(f'#include "{path}"\n' for path in heap), encoding="utf-8")
        units.append(unit)
    return units


def _torch_folder() -> Path:
    # Found without importing torch, which takes longer than linking.
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError("mlu_backend is compiled against torch, and torch is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _ninja_file(target: Library, folder: Path) -> str:
    torch = _torch_folder()
    headers = [torch / "include", torch / "include" / "torch" / "csrc" / "api" / "include", _python_headers()]
    includes = [f"-I{path}" for path in headers]
    links = [f"-L{torch / 'lib'}", f"-Wl,-rpath,{torch / 'lib'}"]
    libraries = ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    define = [f"-DTORCH_EXTENSION_NAME={target.name}"]

    def joined(words: Sequence[str]) -> str:
        return " ".join(f"'{word}'" if " " in word else word for word in words)

    lines = [
        "ninja_required_version = 1.5",
        f"cxx = {_escape(compiler())}",
        f"flags = {joined([*_flags(), *define, *includes])}",
        f"links = {joined([*links, *libraries])}",
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


def _compile(target: Library, final: Path) -> None:
    started = time.monotonic()
    print(
        f"mlu_backend: compiling the emulated device ({len(target.sources)} files, once for this torch) ...",
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
            raise BuildError(f"mlu_backend could not compile its device:\n{_essence(done.stdout)}")
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
    """``python -m mlu_backend build``: compile now. Prints the path."""
    if argv:
        print(f"mlu_backend build takes no arguments, got: {' '.join(argv)}", file=sys.stderr)
        return 2
    try:
        print(core_library())
    except BuildError as error:
        print(f"mlu_backend: {error}", file=sys.stderr)
        return 2
    return 0
