"""Where text goes: results to stdout, talk and progress to stderr. The only place besides cli.py that prints."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import TextIO

from mlu_migrate.report.layout import width_of_terminal

PROGRAM = "mlu-migrate"
_BAR = 24
_PATIENCE = 1.5  # seconds a run may take before it shows how far it is


class Interrupted(BaseException):
    """
    Somebody wants the run to end: Ctrl-C or TERM. Not an Exception, so that nothing on the way takes it for a
    fault.
    """


def interruptible() -> None:
    """Let Ctrl-C and TERM raise Interrupted, so that what is half done is cleared away."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)


def use_safe_streams() -> None:
    """Let a file name that is no text, or a terminal that is not UTF-8, cost a few escapes and not the run."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@dataclass(slots=True)
class Output:
    """What the user wants to hear."""

    quiet: bool = False
    verbose: bool = False
    begun: float = field(default_factory=time.monotonic)
    _shown: float = 0.0
    _bar: bool = False

    @property
    def width(self) -> int:
        """Columns of the terminal, within reason."""
        return width_of_terminal()

    def colour(self, stream: TextIO | None = None) -> bool:
        """Whether escape codes are welcome on a stream, stdout by default."""
        stream = stream or sys.stdout
        if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
            return False
        return stream.isatty() or os.environ.get("FORCE_COLOR", "") not in ("", "0")

    def result(self, text: str) -> None:
        """Text that was asked for."""
        self.clear()
        sys.stdout.write(text)
        sys.stdout.flush()

    def result_bytes(self, data: bytes) -> None:
        """Bytes that were asked for, such as a diff, whatever their encoding."""
        self.clear()
        sys.stdout.flush()
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            buffer.write(data)
            buffer.flush()

    def talk(self, text: str) -> None:
        """A line about the run."""
        if not self.quiet:
            self._stderr(text)

    def detail(self, text: str) -> None:
        """A line for the curious."""
        if self.verbose:
            self._stderr(text)

    def error(self, text: str) -> None:
        """One line about what went wrong; always shown."""
        self._stderr(f"{PROGRAM}: error: {' '.join(text.splitlines())}")

    def progress(self, done: int, total: int) -> None:
        """Draw the bar on a terminal, once a run proves to be a long one."""
        if self.quiet or not sys.stderr.isatty():
            return
        now = time.monotonic()
        if done >= total:
            self.clear()
        elif now - self.begun > _PATIENCE and now - self._shown > 0.1:
            full = _BAR * done // max(total, 1)
            sys.stderr.write(f"\r[{'#' * full}{'.' * (_BAR - full)}] {done}/{total} files")
            sys.stderr.flush()
            self._shown, self._bar = now, True

    def clear(self) -> None:
        """Take the bar away."""
        if self._bar:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._bar = False

    def _stderr(self, text: str) -> None:
        self.clear()
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
