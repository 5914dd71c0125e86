"""
Runs a program on the emulated device, as plain Python would run it.

The program gets a process of its own: ``PYTHONPATH`` names the folder of our ``torch_mlu``, a few ``MLU_EMULATOR_*``
variables say what the card is, and nothing else differs. So ``sys.argv``, ``__main__``, ``sys.path[0]``, tracebacks,
exit codes and signals are Python's own, and whatever the program starts (workers, ``torchrun``, other scripts) inherits
the device. A child started with ``python -I`` or ``-E`` ignores ``PYTHONPATH`` and does not see it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from mlu_backend import on_python_path

USAGE = """\
usage: python -m mlu_backend [--cards N] [--profile exact|mlu370|mlu590] [--support[=FILE.json]] SCRIPT [ARGUMENTS...]
       python -m mlu_backend [options] -m MODULE [ARGUMENTS...]
       python -m mlu_backend [options] -- COMMAND [ARGUMENTS...]
       python -m mlu_backend build     compile the device now, for images and CI
       python -m mlu_backend doctor    what is installed and which torch_mlu would be used

Runs a PyTorch program on an emulated MLU. `import torch_mlu` works in it and in all its children.
A script that is itself called build or doctor is run as ./build or ./doctor.
"""

PROFILES = ("exact", "mlu370", "mlu590")
MAX_CARDS = 16  # torch_mlu/csrc/framework/core/device_utils.h:42
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class UsageError(Exception):
    """The command line makes no sense; the text says why."""


def environment(
    cards: int | None = None, profile: str | None = None, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a program that is to find the emulated device; ``base`` defaults to this process's."""
    if cards is not None and not 0 <= cards <= MAX_CARDS:
        raise UsageError(f"--cards must be between 0 and {MAX_CARDS}, got {cards}")
    if profile is not None and profile not in PROFILES:
        raise UsageError(f"--profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    env = dict(os.environ if base is None else base)
    env["PYTHONPATH"] = on_python_path(env.get("PYTHONPATH"))
    if cards is not None:
        env["MLU_EMULATOR_CARDS"] = str(cards)
    if profile is not None:
        env["MLU_EMULATOR_PROFILE"] = profile
    return env


def command(argv: Sequence[str]) -> list[str]:
    """The process to start for ``SCRIPT ...``, ``-m MODULE ...`` or ``-- COMMAND ...``."""
    if not argv:
        raise UsageError("nothing to run: give a script, -m MODULE or -- COMMAND")
    first, rest = argv[0], list(argv[1:])
    if first == "--":
        if not rest:
            raise UsageError("nothing to run after --")
        return [_program(rest[0]), *rest[1:]]
    if first in ("-m", "-c"):
        if not rest:
            raise UsageError(f"{first} needs a {'module name' if first == '-m' else 'program text'}")
        return [sys.executable, first, *rest]
    if first.startswith("-") and first != "-":
        raise UsageError(f"unknown option {first}")
    return [sys.executable, first, *rest]


def _program(name: str) -> str:
    """``torchrun`` lies beside the interpreter and need not be on PATH; what PATH knows comes first."""
    if os.path.dirname(name) or shutil.which(name):
        return name
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    return beside or name


def run(
    argv: Sequence[str],
    cards: int | None = None,
    profile: str | None = None,
    support: str | bool | None = None,
) -> int:
    """
    Run a program on the emulated device and return its exit status (128 + N for a program ended by signal N).

    ``argv``: ``["train.py", ...]``, ``["-m", "module", ...]`` or ``["--", "command", ...]``. ``support``: true prints
    the operator support table to stderr afterwards, a path writes it there as JSON as well. A wrong command line or a
    command that cannot be started raises UsageError.
    """
    todo, env = command(argv), environment(cards, profile)
    if not support:
        return _status(_supervise(todo, env))
    from mlu_backend import support as recorder

    report = support if isinstance(support, str) else None
    return recorder.run(env, report, lambda prepared: _status(_supervise(todo, prepared)))


def _status(code: int) -> int:
    return 128 - code if code < 0 else code


def _supervise(todo: Sequence[str], env: Mapping[str, str]) -> int:
    """Start, hand on the signals we receive, wait. Ctrl-C at a terminal reaches the child by itself."""
    try:
        child = subprocess.Popen(list(todo), env=dict(env))
    except OSError as error:
        raise UsageError(f"cannot start {todo[0]}: {error.strerror or error}") from error

    def forward(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and _same_terminal():
            return
        child.send_signal(number)

    restore = _install(forward)
    try:
        return child.wait()
    finally:
        restore()


def _same_terminal() -> bool:
    """True where the terminal delivers Ctrl-C to the whole foreground group, hence to the child too."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _install(handler: Callable[[int, FrameType | None], None]) -> Callable[[], None]:
    previous: dict[int, object] = {}
    for name in FORWARDED:
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            previous[number] = signal.signal(number, handler)
        except ValueError:  # not the main thread: signals go to whoever installed handlers there
            break

    def restore() -> None:
        for number, old in previous.items():
            signal.signal(number, old)  # type: ignore[arg-type]

    return restore


def _options(argv: Sequence[str]) -> tuple[dict[str, object], list[str]]:
    """Our own options, which come before the program; all that follows is the program's."""
    found: dict[str, object] = {}
    rest = list(argv)
    while rest:
        name, _, value = rest[0].partition("=")
        if name not in ("--cards", "--profile", "--support"):
            break
        rest.pop(0)
        if name == "--support":
            found["support"] = value or True
            continue
        if not value:
            if not rest:
                raise UsageError(f"{name} needs a value")
            value = rest.pop(0)
        if name == "--profile":
            found["profile"] = value
            continue
        try:
            found["cards"] = int(value)
        except ValueError:
            raise UsageError(f"--cards needs a number, got {value!r}") from None
    return found, rest


def main(argv: Sequence[str]) -> int:
    """The command line of ``python -m mlu_backend``."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    try:
        options, rest = _options(argv)
        if not options and rest[0] == "build":
            from mlu_backend import build

            return build.main(rest[1:])
        if not options and rest[0] == "doctor":
            from mlu_backend import doctor

            return doctor.main(rest[1:])
        if options.get("support"):
            return run(rest, **options)  # type: ignore[arg-type]
        todo, env = command(rest), environment(options.get("cards"), options.get("profile"))  # type: ignore[arg-type]
        return _become(todo, env)
    except UsageError as error:
        print(f"mlu_backend: {error}", file=sys.stderr)
        return 2


def _become(todo: Sequence[str], env: Mapping[str, str]) -> int:
    """Replace this process, so that its parent sees the program's own status and signals. Elsewhere: wait for it."""
    if os.name != "posix":
        return _supervise(todo, env)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(todo[0], list(todo), dict(env))
    except OSError as error:
        raise UsageError(f"cannot start {todo[0]}: {error.strerror or error}") from error
