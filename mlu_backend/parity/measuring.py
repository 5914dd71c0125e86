"""
The part of the recorder that measures: which thread is recorded, where records go, and the numbers of tensor versions.

The file is opened with the first event, so launchers and data-loading workers leave nothing behind. A fault of the
recorder itself never reaches the program: it is counted and written down as a ``trouble`` event.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from mlu_backend.parity.compiled import inside
from mlu_backend.parity.naming import Modules, Sites
from mlu_backend.parity.options import Options
from mlu_backend.parity.statistics import NotMeasurable, measure_plain, plain
from mlu_backend.parity.surroundings import (
    DTYPE,
    address,
    as_length,
    capturing,
    compiling,
    device_type,
    identity,
    in_worker,
    no_dispatch_modes,
    shape_of,
)
from mlu_backend.parity.trace import Kind, Writer
from mlu_backend.parity.transforms import Outside, entered, is_wrapped, unwrapped

KEPT_BYTES = 256 << 20


class _Quiet:
    """See ``Measuring._quiet``. Entered several times a module call, so without what contextlib costs."""

    __slots__ = ("_functions", "_gradients", "_measuring", "_modes", "_transforms")

    def __init__(self, measuring: Measuring) -> None:
        self._measuring = measuring

    def __enter__(self) -> None:
        self._measuring._local.busy = True
        self._transforms = None if entered() is None else Outside()
        if self._transforms is not None:
            self._transforms.__enter__()
        self._functions = torch._C.DisableTorchFunction()
        self._functions.__enter__()
        self._gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self._modes = no_dispatch_modes()
        self._modes.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        try:
            self._modes.__exit__(None, None, None)
            torch._C._set_grad_enabled(self._gradients)
            self._functions.__exit__(None, None, None)
            if self._transforms is not None:
                self._transforms.__exit__(None, None, None)
            if isinstance(error, Exception):  # the user's program must not see the recorder fail
                self._measuring._trouble(error)
                return True
            return False
        finally:
            self._measuring._local.busy = False


class Measuring:
    """Records one process. ``ready`` is asked before anything else is called."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.sites = Sites(options.root)
        self.modules = Modules()
        self.step = 0
        self.stopped = False
        self.paused = False
        self.found_modules: Callable[[], None] | None = None
        self.at_close: list[Callable[[], None]] = []
        self._writer: Writer | None = None
        self._pid = os.getpid()
        self._local = threading.local()
        self._lock = threading.RLock()
        self._reset()
        os.register_at_fork(after_in_child=self._forked)

    def _reset(self) -> None:
        self._seen: dict[int, tuple[weakref.ref[torch.Tensor], int, int, int]] = {}
        self._site_ids: dict[tuple[str, int, str], int] = {}
        self._watched: set[int] = set()
        self._troubles: dict[str, int] = {}
        self._kept = 0
        self._kinds: dict[tuple[torch.Size, torch.dtype, str], Kind] = {}

    def _forked(self) -> None:
        """A forked child must not write to its parent's files."""
        self._writer = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._local = threading.local()
        self._reset()

    def ready(self) -> bool:
        """Whether this thread's work is to be recorded now."""
        if self.stopped or getattr(self._local, "busy", False) or getattr(inside, "compiled", False):
            return False
        if torch._C._get_tracing_state() is not None or in_worker() or compiling():
            return False
        return not capturing()

    def _quiet(self) -> _Quiet:
        """Our own tensor work: unseen by autograd, by function modes and by ourselves; its faults stay here."""
        return _Quiet(self)

    def _trouble(self, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}"[:200]
        self._troubles[text] = self._troubles.get(text, 0) + 1
        if self._troubles[text] == 1 and self._writer is not None:
            self._writer.event(k="trouble", text=text)

    @property
    def writer(self) -> Writer:
        """The writer, opened now if it was not."""
        if self._writer is None:
            with self._lock:
                if self._writer is None:
                    self._writer = Writer(Path(self.options.out))
                    self._header(self._writer)
                    self._writer.flush()  # a process that is killed soon leaves word that it was there
                    atexit.register(self.close)
                    from multiprocessing import util

                    util.Finalize(None, self.close, exitpriority=-100)  # forked workers skip atexit
        return self._writer

    def _header(self, writer: Writer) -> None:
        from mlu_backend.parity.environment import describe

        self._identity = identity()
        writer.event(
            k="process",
            pid=os.getpid(),
            argv=list(getattr(sys, "argv", [])),
            rank=int(os.environ.get("RANK", "0") or 0),
            identity=self._identity,
            world=int(os.environ.get("WORLD_SIZE", "1") or 1),
            level=self.options.level,
            seed=self.options.seed,
            environment=describe(),
        )

    def _identify(self) -> None:
        """A spawned process runs its main module, which may seed and so begin the record, before it knows its place."""
        writer, found = self.writer, identity()
        if found != self._identity:
            self._identity = found
            writer.event(k="identity", identity=found)

    def replaced(self) -> None:
        """The program is about to put another in its place, which runs nothing that was registered for the end."""
        if self._writer is not None and self._pid == os.getpid() and not self._writer.closed:
            with self._quiet():
                self.last_words()
                self._writer.event(k="end", reason="exec", steps=self.step, troubles=self._troubles)
                self._writer.flush()

    def last_words(self) -> None:
        """Events that belong at the end."""

    def close(self, reason: str = "exit") -> None:
        """Write the end. Idempotent."""
        if self._writer is None or self._pid != os.getpid() or self._writer.closed:
            return
        for function in self.at_close:
            function()
        with self._quiet():
            self.last_words()
            self._writer.event(k="end", reason=reason, steps=self.step, troubles=self._troubles)
            self._writer.close()
        self.stopped = True

    def stat(self, tensor: torch.Tensor, fresh: bool = False) -> int:
        """The number of this tensor version's statistics, taken now if they were not."""
        key = id(tensor)
        version = -1
        if fresh:
            self._seen.pop(key, None)
        else:
            try:
                version = tensor._version
            except RuntimeError:  # inference tensors have none
                version = -1
            known = self._seen.get(key)
            if (
                known is not None
                and version >= 0
                and known[1] == version
                and known[0]() is tensor
                and known[3] == address(tensor)
            ):
                return known[2]
        measured = unwrapped(tensor) if is_wrapped(tensor) else tensor
        try:
            dense = plain(measured)
            device = dense.device.type
            stats = measure_plain(dense)
        except (NotMeasurable, RuntimeError, NotImplementedError):
            device, stats = device_type(tensor), None
        index = self.writer.stat(self._kind(measured, device), stats)
        if not fresh and version >= 0:
            if len(self._seen) > 20_000:
                self._seen = {k: v for k, v in self._seen.items() if v[0]() is not None}
            self._seen[key] = (weakref.ref(tensor), version, index, address(tensor))
        return index

    def _kind(self, tensor: torch.Tensor, device: str) -> Kind:
        shape = shape_of(tensor)
        key = (shape, tensor.dtype, device)
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) > 20_000:
                self._kinds.clear()
            lengths = tuple(as_length(s) for s in shape)
            found = self._kinds[key] = Kind(lengths, DTYPE.get(tensor.dtype, str(tensor.dtype)), device)
        return found

    def keep(self, index: int, tensor: torch.Tensor) -> None:
        """Keep the whole tensor beside its statistics, within a bound."""
        try:
            dense = plain(tensor)
        except (NotMeasurable, RuntimeError):
            return
        size = dense.numel() * dense.element_size()
        if self._kept + size <= KEPT_BYTES:
            self._kept += size
            self.writer.tensor(str(index), dense)

    def _entries(self, named: Iterable[tuple[str, torch.Tensor]], watch: bool) -> list[list[Any]]:
        entries = []
        for name, tensor in named:
            index = self.stat(tensor)
            entries.append([name, index])
            if watch:
                self._watch(tensor, index)
        return entries

    def _watch(self, tensor: torch.Tensor, index: int) -> None:
        """Record the gradient of this tensor version when it comes."""
        if index in self._watched or not tensor.requires_grad or tensor.is_leaf:
            return
        self._watched.add(index)

        def arrived(gradient: torch.Tensor | None) -> None:
            if gradient is not None and not self.stopped and not self.paused:
                with self._quiet():
                    self.writer.event(k="grad", of=index, s=self.stat(gradient, fresh=True), step=self.step)

        with torch.enable_grad():
            tensor.register_hook(arrived)

    def site(self, depth: int = 2) -> int | None:
        """The number of the place in the user's code that is running."""
        here = self.sites.here(depth)
        if here is None:
            return None
        known = self._site_ids.get(here)
        if known is None:
            known = self._site_ids[here] = len(self._site_ids)
            self.writer.event(k="site", id=known, file=here[0], line=here[1], function=here[2])
        return known
