"""
The faults of ``faults.py``: how each is made to happen to a real process.

A fault fills a project, makes one run fail, and says how that run ended. What is left is looked at in ``faults.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CALL = b"import torch\nx = torch.ones(1).cuda()\n"
DONE = b"import torch\nimport torch_mlu  # noqa: F401\nx = torch.ones(1).mlu()\n"
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
COPY = ["p"]
WRITE = ["p", "-w", "--allow-dirty"]
FILES = 12
BETWEEN = "kill -9 between two renames"
# Runs our command line with one thing changed: what a fault in the middle of a run looks like from inside.
DRIVER = """
import os, signal, sys, time
from pathlib import Path
from mlu_migrate import atomic, cli, copying, engine, pipeline, pool
parent = os.getpid()
{change}
if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
"""
AT_RENAME = """
real, count = os.{function}, [0]
def counted(*arguments, **keywords):
    if os.getpid() == parent and {wanted}:
        count[0] += 1
        if count[0] == {number}:
            os.kill(parent, signal.{signal})
    return real(*arguments, **keywords)
os.{function} = counted
"""


@dataclass
class Place:
    """The folder a fault happens in. ``p`` is the project, ``p_mlu`` its copy."""

    folder: Path
    extra: dict[str, bytes] = field(default_factory=dict)  # hostile files, by path in the project

    @property
    def top(self) -> Path:
        return self.folder / "p"

    @property
    def copy(self) -> Path:
        return self.folder / "p_mlu"

    def names(self) -> list[str]:
        return [f"m{number}.py" for number in range(FILES)]

    def fill(self) -> None:
        self.top.mkdir(exist_ok=True)
        for name in self.names():
            (self.top / name).write_bytes(CALL)
        for name, data in self.extra.items():
            (self.top / name).write_bytes(data)


@dataclass(frozen=True)
class Ran:
    status: int
    err: str
    out: str = ""


@dataclass(frozen=True)
class Fault:
    """``happen`` makes the run fail and returns how it ended; ``needs_root`` for mounts and devices."""

    name: str
    how: str
    happen: Callable[[Place], Ran]
    arguments: list[str]
    needs_root: bool = False
    mount: str = ""  # options of a tmpfs that holds everything
    spared: str = ""  # the one file that may stay as it was while the others are migrated


def start(place: Path, arguments: list[str], change: str = "", **options: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "MLU_MIGRATE_CACHE_DIR": str(place / "cache"), "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "mlu_migrate", *arguments]
    if change:
        driver = Path(tempfile.mkdtemp(prefix="mlu-faults-")) / "drive.py"
        driver.write_text(DRIVER.format(change=change))
        command = [sys.executable, str(driver), *arguments]
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*command, "--no-cache", "--jobs", "2"],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def ended(process: subprocess.Popen[bytes]) -> Ran:
    out, err = process.communicate(timeout=300)
    return Ran(process.returncode, err.decode("utf-8", "replace"), out.decode("utf-8", "replace"))


def changed(change: str) -> Callable[[Place], Ran]:
    """A run of the fault's command line with something changed inside; see DRIVER."""
    return lambda place: ended(start(place.folder, ARGUMENTS[id(place)], change))


def limited(*limits: tuple[int, int]) -> Callable[[Place], Ran]:
    def before() -> None:
        for kind, value in limits:
            resource.setrlimit(kind, (value, value))

    return lambda place: ended(start(place.folder, ARGUMENTS[id(place)], preexec_fn=before))


ARGUMENTS: dict[int, list[str]] = {}  # of the fault that is happening at a place


def plain(prepare: Callable[[Place], None]) -> Callable[[Place], Ran]:
    """A run after something was done to the project."""

    def happen(place: Place) -> Ran:
        prepare(place)
        return ended(start(place.folder, ARGUMENTS[id(place)]))

    return happen


def _without_privilege() -> None:
    """Let mode bits count for root as well: give up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    if ROOT:
        library = ctypes.CDLL(None)
        for capability in (1, 2):
            library.prctl(24, capability, 0, 0, 0)


def denied(name: str, bits: int) -> Callable[[Place], Ran]:
    def happen(place: Place) -> Ran:
        path = place.top / name
        mode = path.stat().st_mode
        path.chmod(bits)
        try:
            return ended(start(place.folder, ARGUMENTS[id(place)], preexec_fn=_without_privilege))
        finally:
            path.chmod(mode)

    return happen


def filled(place: Place) -> Ran:
    """Leave a few pages of the small disk."""
    with (place.folder / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    with (place.folder / "ballast").open("rb+") as file:
        file.truncate(max(0, file.seek(0, 2) - 5 * 4096))
    try:
        return ended(start(place.folder, ARGUMENTS[id(place)]))
    finally:
        (place.folder / "ballast").unlink()


def read_only(place: Place) -> Ran:
    subprocess.run(["mount", "-o", "remount,ro", str(place.folder)], check=True)
    try:
        return ended(start(place.folder, ARGUMENTS[id(place)]))
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(place.folder)], check=True)


def long_path(place: Place) -> None:
    """Deep enough that the name of the copy, three letters longer, passes what a path may have."""
    here = os.getcwd()
    try:
        os.chdir(place.top)
        length = len("p")
        while length + 201 < 3900:
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
            length += 201
        name = "x" * min(4095 - length - 1 - len(".py"), 240) + ".py"
        Path(name).write_bytes(CALL)
    finally:
        os.chdir(here)


def changing(place: Place) -> Ran:
    """A file that somebody appends to all the time."""
    stop = threading.Event()

    def append() -> None:
        with (place.top / "m0.py").open("ab", buffering=0) as file:
            while not stop.wait(0.0005):
                file.write(b"# more\n")

    thread = threading.Thread(target=append)
    thread.start()
    try:
        return ended(start(place.folder, ARGUMENTS[id(place)]))
    finally:
        stop.set()
        thread.join()


def two_runs(place: Place) -> Ran:
    running = [start(place.folder, ARGUMENTS[id(place)]) for _ in range(2)]
    one, other = (ended(process) for process in running)
    return Ran(max(one.status, other.status), f"statuses {one.status} and {other.status}. {one.err}{other.err}")


def links(place: Place) -> None:
    (place.top / "loop.py").symlink_to("loop.py")
    (place.top / "folder").symlink_to(".")
    (place.top / "one").symlink_to("two")
    (place.top / "two").symlink_to("one")


def special(place: Place) -> None:
    os.mkfifo(place.top / "pipe.py")
    if ROOT:
        os.mknod(place.top / "zero.py", 0o20666, os.makedev(1, 5))


def settings(place: Place, text: str) -> None:
    (place.top / "pyproject.toml").write_text(f"[tool.mlu-migrate]\n{text}\n")


def extra(name: str, data: bytes, more: str = "") -> Callable[[Place], None]:
    def prepare(place: Place) -> None:
        place.extra[name] = data
        (place.top / name).write_bytes(data)
        if more:
            settings(place, more)

    return prepare


def _at(function: str, number: int, name: str, wanted: str = "True") -> Callable[[Place], Ran]:
    return changed(AT_RENAME.format(function=function, number=number, signal=name, wanted=wanted))


_MODULE = "str(arguments[-1]).endswith('.py')"  # the rename of a source file, not of the journal
_CRASH = """
before = engine.migrate
def crash(source, *arguments, **keywords):
    if b"poison" in source:
        os.kill(os.getpid(), signal.SIGSEGV)
    return before(source, *arguments, **keywords)
engine.migrate = crash
"""
_EAT = """
pool.MEMORY_BYTES = 300 * 1024**2
before = engine.migrate
def eat(source, *arguments, **keywords):
    if b"poison" in source:
        bytearray(1024**3)
    return before(source, *arguments, **keywords)
engine.migrate = eat
"""
_HANG = """
before = engine.migrate
def hang(source, *arguments, **keywords):
    while b"poison" in source:
        time.sleep(1)
    return before(source, *arguments, **keywords)
engine.migrate = hang
"""


def poisoned(change: str, more: str = "") -> Callable[[Place], Ran]:
    def happen(place: Place) -> Ran:
        extra("bad.py", b"# poison\n" + CALL, more)(place)
        return changed(change)(place)

    return happen


# Sources that bring libcst or a regular expression to its knees.
SOURCES = {
    "10,000 nested parentheses": b"y = " + b"(" * 10_000 + b"1" + b")" * 10_000,
    "3,000 nested brackets": b"y = " + b"[" * 3_000 + b"]" * 3_000,
    "20,000 chained calls": b"y = x" + b".cuda()" * 20_000,
    "a sum of 20,000 terms": b"y = " + b" + ".join([b"torch.cuda.device_count()"] * 20_000),
    "one line of 5 MB": b"y = '" + b"cuda " * 1_000_000 + b"'",
    "100,000 lines": b"".join(b"def f%d(x):\n    return x\n" % n for n in range(50_000)),
}


def faults() -> list[Fault]:
    """Every fault, in the order of the table."""
    rows = [
        Fault("kill -9 while the copy is built", "copy", _at("chmod", 6, "SIGKILL"), COPY),
        Fault("kill -9 before the first rename", "-w", _at("replace", 1, "SIGKILL", _MODULE), WRITE),
        Fault(BETWEEN, "-w", _at("replace", 7, "SIGKILL", _MODULE), WRITE),
        Fault("kill -9 while files are prepared", "-w", _at("chmod", 6, "SIGKILL"), WRITE),
        Fault("Ctrl-C while the copy is built", "copy", _at("chmod", 6, "SIGINT"), COPY),
        Fault("TERM while the copy is built", "copy", _at("chmod", 6, "SIGTERM"), COPY),
        Fault("Ctrl-C while files are prepared", "-w", _at("chmod", 6, "SIGINT"), WRITE),
        Fault("TERM between two renames", "-w", _at("replace", 7, "SIGTERM", _MODULE), WRITE),
        Fault("disk full", "copy", filled, COPY, True, "size=1m"),
        Fault("disk full", "-w", filled, WRITE, True, "size=1m"),
        Fault("file size limit (RLIMIT_FSIZE)", "copy", limited((resource.RLIMIT_FSIZE, 200)), COPY),
        Fault("file size limit (RLIMIT_FSIZE)", "-w", limited((resource.RLIMIT_FSIZE, 60)), WRITE),
        Fault("read-only disk", "copy", read_only, COPY, True, "size=4m"),
        Fault("read-only disk", "-w", read_only, WRITE, True, "size=4m"),
        Fault("a file that may not be read", "copy", denied("m3.py", 0), COPY, spared="m3.py"),
        Fault("a file that may not be read", "-w", denied("m3.py", 0), WRITE, spared="m3.py"),
        Fault("a folder that may not be written", "-w", denied(".", 0o555), WRITE),
        Fault("path too long for the copy", "copy", plain(long_path), COPY),
        Fault(
            "names that differ in case only, on a file system that ignores case (simulated)",
            "copy",
            lambda place: (extra("M1.py", CALL)(place), changed("copying._ignores_case = lambda place: True")(place))[
                1
            ],
            COPY,
        ),
        Fault(
            "name with a newline and one that is no text",
            "copy",
            plain(
                lambda place: (extra("two\nlines.py", CALL)(place), extra(os.fsdecode(b"\xff.py"), CALL)(place), None)[
                    2
                ]
            ),
            COPY,
        ),
        Fault("pipe and device with Python names", "copy", plain(special), COPY),
        Fault("pipe and device with Python names", "-w", plain(special), WRITE),
        Fault("links in a circle", "copy", plain(links), COPY),
        Fault("links in a circle", "-w", plain(links), WRITE),
        Fault("file that changes all the time", "copy", changing, COPY, spared="m0.py"),
        Fault("file that changes all the time", "-w", changing, WRITE, spared="m0.py"),
        Fault("two runs at once", "copy", two_runs, COPY),
        Fault("two runs at once", "-w", two_runs, WRITE),
        Fault("a worker runs out of memory", "copy", poisoned(_EAT), COPY),
        Fault("a worker hangs", "copy", poisoned(_HANG, "file-timeout = 1.5"), COPY),
        Fault("a worker crashes", "copy", poisoned(_CRASH), COPY),
        Fault("a worker crashes", "-w", poisoned(_CRASH), WRITE),
    ]
    for name, source in SOURCES.items():
        rows.append(Fault(name, "copy", plain(extra("hostile.py", CALL + source + b"\n")), COPY))
    return rows
