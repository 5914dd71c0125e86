"""
Work on many files in processes that may die.

A file that crashes the interpreter, eats the memory or never ends costs itself and nothing else: its worker is
replaced and the run goes on. Results come in the order of the input. Large files are started first, so that the
last worker does not sit on one alone.

The standard pools do not fit: a dead worker breaks ``concurrent.futures`` altogether and hangs
``multiprocessing.Pool``, and neither has a time limit for one item.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

P = TypeVar("P")
R = TypeVar("R")

BATCH_BYTES = 128 * 1024
BATCH_ITEMS = 64
MEMORY_BYTES = 4 * 1024**3  # address space a worker may take beyond what it starts with
_ORPHAN_CHECK = 5.0  # seconds between looks whether the parent is still there


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """What became of one item: a value, or the reason why there is none. ``seconds`` is the time inside the worker."""

    value: R | None = None
    reason: str | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    assigned: deque[int] = field(default_factory=deque)
    deadline: float = 0.0


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    work: Callable[[Any, P], R],
    context: object,
    items: Sequence[P],
    sizes: Sequence[int],
    *,
    jobs: int = 0,
    seconds: float = 60.0,
) -> Iterator[Outcome[R]]:
    """
    Yield the outcome of ``work(context, item)`` for every item, in order, as soon as those before it are known.

    ``work`` is a module-level function and everything else can be pickled. ``sizes`` are bytes: they order and
    batch the items, and each MiB adds a sixth of ``seconds`` to an item's time limit. An exception in ``work`` is
    an outcome too.
    """
    if not items:
        return
    run_ = _Run(work, context, items, sizes, jobs or processors(), seconds)
    try:
        yield from run_.outcomes()
    finally:
        run_.stop()


class _Run(Generic[P, R]):
    def __init__(
        self,
        work: Callable[[Any, P], R],
        context: object,
        items: Sequence[P],
        sizes: Sequence[int],
        jobs: int,
        seconds: float,
    ) -> None:
        self.work, self.context = work, context
        self.items, self.sizes, self.seconds = items, sizes, seconds
        # Linux forks: rules are imported once, a worker starts in milliseconds, and there are no threads yet.
        self.start: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self.todo = deque(sorted(range(len(items)), key=lambda index: -sizes[index]))
        self.limit = min(jobs, 1 + sum(sizes) // BATCH_BYTES, len(items))
        self.workers: list[_Worker] = []
        self.done: dict[int, Outcome[R]] = {}
        self.retried: set[int] = set()

    def outcomes(self) -> Iterator[Outcome[R]]:
        for index in range(len(self.items)):
            while index not in self.done:
                self.step()
            yield self.done.pop(index)

    def step(self) -> None:
        """Hand out work, then wait for the next answer, death or deadline."""
        while len(self.workers) < self.limit and len(self.todo) > sum(not w.assigned for w in self.workers):
            self.workers.append(self.hire())
        for worker in list(self.workers):
            if not worker.assigned and self.todo:
                self.assign(worker)
        busy = [worker for worker in self.workers if worker.assigned]
        if not busy:
            return
        patience = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
        ready = set(wait([w.pipe for w in busy] + [w.process.sentinel for w in busy], patience))
        for worker in busy:
            if worker.pipe in ready or worker.process.sentinel in ready:
                self.listen(worker)
            elif worker.deadline <= time.monotonic():
                self.give_up(worker)

    def hire(self) -> _Worker:
        ours, theirs = self.start.Pipe()
        process = self.start.Process(target=_serve, args=(theirs, os.getpid(), self.work, self.context), daemon=True)
        if self.start.get_start_method() == "fork":
            process.start()
        else:
            with _harmless_folder():
                process.start()
        theirs.close()
        return _Worker(process, ours)

    def assign(self, worker: _Worker) -> None:
        size = 0
        fair = -(-len(self.todo) // (2 * self.limit))
        while self.todo and len(worker.assigned) < min(BATCH_ITEMS, fair) and (size == 0 or size < BATCH_BYTES):
            if self.todo[0] in self.retried and worker.assigned:
                break  # an item that killed a worker gets the next one to itself
            index = self.todo.popleft()
            size += self.sizes[index] + 1
            worker.assigned.append(index)
            if index in self.retried:
                break
        self.restart_clock(worker)
        try:
            worker.pipe.send([(index, self.items[index]) for index in worker.assigned])
        except OSError:
            self.bury(worker)

    def restart_clock(self, worker: _Worker) -> None:
        if worker.assigned:
            allowance = 1 + self.sizes[worker.assigned[0]] / (6 * 1024 * 1024)
            worker.deadline = time.monotonic() + self.seconds * allowance

    def listen(self, worker: _Worker) -> None:
        try:
            while worker.assigned and worker.pipe.poll():
                index, outcome = worker.pipe.recv()
                self.done[index] = outcome
                worker.assigned.remove(index)
                self.restart_clock(worker)
        except (EOFError, OSError):
            self.bury(worker)
            return
        if not worker.process.is_alive():
            self.bury(worker)

    def bury(self, worker: _Worker) -> None:
        """A worker died. The item it was at gets one more try, alone; the items after it go back in the queue."""
        worker.process.join(5)
        code = worker.process.exitcode
        self.dismiss(worker)
        if not worker.assigned:
            return
        culprit = worker.assigned.popleft()
        self.todo.extendleft(reversed(worker.assigned))
        if culprit in self.retried:
            self.done[culprit] = Outcome(reason=_death(code))
        else:
            self.retried.add(culprit)
            self.todo.appendleft(culprit)

    def give_up(self, worker: _Worker) -> None:
        """A worker is over the time limit."""
        culprit = worker.assigned.popleft()
        self.todo.extendleft(reversed(worker.assigned))
        worker.process.kill()
        worker.process.join(5)
        self.dismiss(worker)
        self.done[culprit] = Outcome(reason=f"took longer than {self.seconds:g} s and was given up")

    def dismiss(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()

    def stop(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(OSError):
                worker.pipe.send(None)
            worker.pipe.close()
        for worker in self.workers:
            if worker.assigned:
                worker.process.kill()
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()
        self.workers.clear()


@contextlib.contextmanager
def _harmless_folder() -> Iterator[None]:
    """
    Be in the folder of the standard library for a moment. A spawned Python looks for modules in the folder it is
    started in before anywhere else, and a project may have a ``multiprocessing.py``. It stays there: items are bytes
    or absolute paths.
    """
    before = Path.cwd()
    os.chdir(Path(os.__file__).parent)
    try:
        yield
    finally:
        os.chdir(before)


def _serve(pipe: Connection, parent: int, work: Callable[[Any, P], R], context: object) -> None:
    """The life of a worker: answer each item of each batch, until told to stop or left alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.disable()  # the run says in one line what happened to the file
    _die_with(parent)
    _limit_memory()
    while True:
        while not pipe.poll(_ORPHAN_CHECK):
            if os.getppid() != parent:
                return
        try:
            batch = pipe.recv()
        except (EOFError, OSError):
            return
        if batch is None:
            return
        for index, item in batch:
            begun = time.perf_counter()
            try:
                outcome: Outcome[R] = Outcome(value=work(context, item))
            except MemoryError:
                outcome = Outcome(reason="ran out of memory")
            except RecursionError:
                outcome = Outcome(reason="nested too deeply")
            except Exception as error:
                outcome = Outcome(reason=f"internal error: {type(error).__name__}: {_one_line(error)}")
            outcome = Outcome(outcome.value, outcome.reason, time.perf_counter() - begun)
            try:
                pipe.send((index, outcome))
            except (BrokenPipeError, ConnectionResetError):
                return


def _die_with(parent: int) -> None:
    """
    Let the kernel end this worker with its parent.

    A forked worker has copies of the parent's pipe ends, so a large answer to a parent that was killed would wait for a
    reader for ever. A worker writes no files, so nothing is left half done.
    """
    if sys.platform != "linux":
        return  # spawned workers hold no such copies: sending fails at once
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)


def _limit_memory() -> None:
    """Let a runaway file raise MemoryError here before it takes the machine down."""
    if sys.platform != "linux":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"the process working on it was ended by {signal.Signals(-code).name}"
    return f"the process working on it ended with status {code}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
