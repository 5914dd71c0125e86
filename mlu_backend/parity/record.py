"""
``python -m mlu_backend.parity.record OUT [options] -- COMMAND...``: run a program and write a trace of it.

OUT is a folder, or one file if its name ends in ``.zip``. The program's output and exit status are its own.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlu_backend.parity import inject, trace
from mlu_backend.parity.options import LEVELS, ROUTES, Options
from mlu_backend.parity.wording import counted


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    ``status``: exit status of the program, None when it ran out of time. ``trace``: where the records are, of so many
    ``tensors``, optimizer ``steps`` and ``processes`` that computed something.
    """

    status: int | None
    seconds: float
    trace: Path
    output: str
    tensors: int
    steps: int
    processes: int


def record(
    command: Sequence[str],
    options: Options,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str],
    timeout: float | None = None,
    label: str = "",
    capture_output: bool = False,
) -> Outcome:
    """
    Run ``command`` recorded. An existing trace in ``options.out`` is replaced. A command that cannot be started raises
    OSError; a program that fails does not raise, its status is in the outcome. With ``capture_output`` the last 64 KiB
    the program printed are in the outcome instead of on the terminal.
    """
    target = Path(options.out).absolute()
    packed = target.suffix == ".zip"
    folder = Path(tempfile.mkdtemp(prefix="mlu-parity-")) if packed else target
    if not packed:
        _make_empty(folder)
    options = replace(options, out=str(folder))
    trace.write_meta(
        folder,
        label=label,
        command=list(command),
        level=options.level,
        route=options.route,
        seed=options.seed,
        steps=options.steps,
        root=options.root,
    )
    started = time.monotonic()
    status, output = _run(command, cwd, inject.environment(options, env), timeout, capture_output)
    seconds = round(time.monotonic() - started, 3)
    files, steps = _mentioned(folder)
    rows = [count for place in folder.glob("p*/") if (count := trace.rows_in(place))]
    trace.write_meta(folder, status=status, seconds=seconds, sources=_sources(files, options.root))
    if packed:
        trace.pack(folder, target)
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(status, time.monotonic() - started, target, output, sum(rows), steps, len(rows))


def _mentioned(folder: Path) -> tuple[set[str], int]:
    """The program's own files that events name, and how many optimizer steps there are."""
    names: set[str] = set()
    steps = 0
    for file in folder.glob("p*/events.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            steps += line.startswith('{"k":"step"')
            if line.startswith(('{"k":"site"', '{"k":"module"', '{"k":"process"')):
                with contextlib.suppress(ValueError):  # the process was killed while it wrote
                    names.update(_files(json.loads(line)))
    return names, steps


def _sources(names: Iterable[str], root: str | None) -> dict[str, str]:
    """Digests of the program's own files that were seen running: two runs with equal ones ran the same program."""
    if root is None:
        return {}
    found = {}
    for name in sorted(names):
        path = Path(root, name)
        if path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def _files(event: dict[str, Any]) -> Iterator[str]:
    if event["k"] == "process":
        yield from event["argv"][:1]
    elif event["k"] == "site":
        yield event["file"]
    elif event.get("source"):
        yield event["source"][0]


def _make_empty(folder: Path) -> None:
    """Remove an earlier trace, and nothing that is not one."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / "meta.json").is_file():
            raise FileExistsError(f"{folder} is not empty and holds no trace")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _run(
    command: Sequence[str], cwd: Path | None, env: Mapping[str, str], timeout: float | None, capture: bool
) -> tuple[int | None, str]:
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(env),
            stdout=log if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            stdin=subprocess.DEVNULL if capture else None,
            start_new_session=capture,
        )
        try:
            status: int | None = child.wait(timeout)
        except subprocess.TimeoutExpired:
            _stop(child, capture)
            status = None
        except BaseException:
            _stop(child, capture)
            raise
        size = log.seek(0, 2) if capture else 0
        log.seek(max(0, size - 65536))
        return status, log.read().decode("utf-8", "replace") if capture else ""


def _stop(child: subprocess.Popen[bytes], group: bool) -> None:
    """End the program and, where it leads a session of its own, everything it started."""
    import os

    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            if group:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)
        except ProcessLookupError:
            return
        try:
            child.wait(5)
            if not group:
                return
        except subprocess.TimeoutExpired:
            continue


PROGRAM = "python -m mlu_backend.parity.record"


def parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """The options of this command."""
    p = argparse.ArgumentParser(
        prog=program,
        usage=f"{program} OUT [options] -- COMMAND...",
        description="Run a program and write a trace of it, for parity-compare or for parity --reference. The "
        "program's output and exit status are its own; 124 when it ran out of time, 2 for wrong use.",
        allow_abbrev=False,
    )
    p.add_argument("out", metavar="OUT", help="trace folder, or one file if it ends in .zip")
    p.add_argument("--level", choices=LEVELS, default="module", help="what is recorded (default module)")
    p.add_argument("--steps", type=int, default=0, metavar="N", help="end the program after N optimizer steps")
    p.add_argument("--every", type=int, default=10, metavar="N", help="parameters every N steps (default 10)")
    p.add_argument("--seed", type=int, default=None, metavar="N", help="seed all generators at the start")
    p.add_argument("--root", default=".", metavar="DIR", help="project folder, for names of files (default .)")
    p.add_argument(
        "--route",
        choices=ROUTES,
        default="none",
        help="emulated-cuda: run GPU code on the emulated device, without a GPU",
    )
    p.add_argument("--timeout", type=float, default=None, metavar="SECONDS", help="end the program then")
    return p


def main(argv: Sequence[str], program: str = PROGRAM) -> int:
    """The command line. Returns the program's status, 124 when it ran out of time, 2 for wrong use."""
    import os

    p = parser(program)
    cut = list(argv).index("--") if "--" in argv else len(argv)
    try:
        args, command = p.parse_args(argv[:cut]), list(argv[cut + 1 :])
        if not command:
            p.error("the command of the program comes after --, as in: -- python train.py")
        if args.steps < 0 or args.every < 1 or (args.timeout is not None and args.timeout <= 0):
            p.error("steps must not be negative, every must be 1 or more, and timeout above 0 seconds")
    except SystemExit as ended:
        return int(ended.code or 0)
    options = Options(
        out=args.out,
        root=str(Path(args.root).resolve()),
        level=args.level,
        every=args.every,
        steps=args.steps,
        seed=args.seed,
        route=args.route,
    )
    try:
        _check_place(Path(args.out).absolute())
        outcome = record(command, options, env=os.environ, timeout=args.timeout)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.strerror and error.filename else str(error)
        print(f"{program}: cannot record: {what}", file=sys.stderr)
        return 2
    print(f"{program}: {_told(outcome, args.out)}", file=sys.stderr)
    if outcome.status is None:
        print(
            f"{program}: the program did not end within {args.timeout:g} s; the trace holds what it did until then",
            file=sys.stderr,
        )
        return 124
    return outcome.status if outcome.status >= 0 else 128 - outcome.status


def _check_place(target: Path) -> None:
    """Raises OSError where a trace could not be written when the program has ended."""
    import os

    if target.suffix == ".zip" and target.is_dir():
        raise IsADirectoryError(f"{target}: is a folder, and a name that ends in .zip is for a file")
    if target.suffix != ".zip" and target.exists() and not target.is_dir():
        raise FileExistsError(f"{target}: is a file; a trace is a folder, or a file whose name ends in .zip")
    parent = next(folder for folder in target.parents if folder.exists())
    if (target.suffix == ".zip" and parent != target.parent) or not os.access(parent, os.W_OK):
        raise FileNotFoundError(f"{target.parent}: no such folder, or not to be written to")


def _told(outcome: Outcome, name: str) -> str:
    """What a trace holds, in a line."""
    if not outcome.tensors:
        return f"nothing was recorded in {name}: no module was called, and nothing computed that is compared"
    counts = ((outcome.tensors, "tensor"), (outcome.steps, "optimizer step"), (outcome.processes, "process"))
    return f"recorded in {name}: {', '.join(counted(*count) for count in counts)}, {_shown(size(outcome.trace))}"


def size(path: Path) -> int:
    """Bytes of a trace: of the file, or of all files in the folder."""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def _shown(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
