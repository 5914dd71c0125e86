"""
The recorder: what one process does, event by event, without changing what it computes.

It is told of module calls, backward passes, optimizer steps, loss scaling, collectives, seeds and data loaders by the
patches in ``hooks``, takes the statistics of every tensor version once, and streams them to a ``trace.Writer``. The
file is opened with the first event, so launchers and data-loading workers leave nothing behind. A fault of the
recorder itself never reaches the program: it is counted and written down as a ``trouble`` event.

A call made while a backward pass runs is a recomputation (checkpointing) and gets phase ``r``, others ``f``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from mlu_backend.parity import nested
from mlu_backend.parity.naming import Modules, Sites
from mlu_backend.parity.options import Options
from mlu_backend.parity.statistics import NotMeasurable, measure, plain
from mlu_backend.parity.surroundings import (
    DTYPE,
    as_number,
    autocast_state,
    capturing,
    compiling,
    device_type,
    digest,
    hyperparameters,
    in_worker,
    no_dispatch_modes,
    random_states,
)
from mlu_backend.parity.trace import Kind, Writer

KEPT_BYTES = 256 << 20


_inside = threading.local()


def is_compiled(module: torch.nn.Module) -> bool:
    """
    Whether what a module does inside is compiled. Which of its parts then run as calls depends on graph breaks, so they
    are not recorded: the outside is what two runs have in common.
    """
    return getattr(module, "_compiled_call_impl", None) is not None or type(module).__name__ == "OptimizedModule"


def as_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose inside is not recorded, as that of a compiled one."""

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        before = getattr(_inside, "compiled", False)
        _inside.compiled = True
        try:
            return function(*args, **kwargs)
        finally:
            _inside.compiled = before

    return compiled


class Call:
    """A module call that has not returned yet."""

    __slots__ = ("id", "module", "path", "entries", "phase", "nth", "site", "focus")

    def __init__(self, id: int, module: torch.nn.Module, path: str, phase: str, nth: int) -> None:
        self.id, self.module, self.path, self.phase, self.nth = id, module, path, phase, nth
        self.entries: list[list[Any]] = []
        self.site: int | None = None
        self.focus: Any = None


class Recorder:
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
        self._seen: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}
        self._module_ids: dict[tuple[str, type], int] = {}
        self._site_ids: dict[tuple[str, int, str], int] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._call_id = 0
        self._optimizers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._leader: int | None = None
        self._hyperparameters: dict[int, Any] = {}
        self._scaled: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._scale: float | None = None
        self._states: set[str] = set()
        self._watched: set[int] = set()
        self._troubles: dict[str, int] = {}
        self._kept = 0
        self._began = False

    def _forked(self) -> None:
        """A forked child must not write to its parent's files."""
        self._writer = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._local = threading.local()
        self._reset()

    # -- state ---------------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether this thread's work is to be recorded now."""
        if self.stopped or getattr(self._local, "busy", False) or getattr(_inside, "compiled", False):
            return False
        if torch._C._get_tracing_state() is not None or in_worker() or compiling():
            return False
        return not capturing()

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Our own tensor work: unseen by autograd, by function modes and by ourselves; its faults stay here."""
        self._local.busy = True
        try:
            with torch._C.DisableTorchFunction(), torch.no_grad(), no_dispatch_modes():
                yield
        except Exception as error:  # the user's program must not see the recorder fail
            text = f"{type(error).__name__}: {error}"[:200]
            self._troubles[text] = self._troubles.get(text, 0) + 1
            if self._troubles[text] == 1 and self._writer is not None:
                self._writer.event(k="trouble", text=text)
        finally:
            self._local.busy = False

    @property
    def writer(self) -> Writer:
        """The writer, opened now if it was not."""
        if self._writer is None:
            with self._lock:
                if self._writer is None:
                    self._writer = Writer(Path(self.options.out))
                    self._header(self._writer)
                    atexit.register(self.close)
                    from multiprocessing import util

                    util.Finalize(None, self.close, exitpriority=-100)  # forked workers skip atexit
        return self._writer

    def _header(self, writer: Writer) -> None:
        from mlu_backend.parity.environment import describe

        writer.event(
            k="process",
            pid=os.getpid(),
            argv=list(getattr(sys, "argv", [])),
            rank=int(os.environ.get("RANK", "0") or 0),
            world=int(os.environ.get("WORLD_SIZE", "1") or 1),
            level=self.options.level,
            seed=self.options.seed,
            environment=describe(),
        )

    def close(self, reason: str = "exit") -> None:
        """Write the end. Idempotent."""
        if self._writer is None or self._pid != os.getpid() or self._writer.closed:
            return
        for function in self.at_close:
            function()
        with self._quiet():
            self._parameters("end")
            self._writer.event(k="end", reason=reason, steps=self.step, troubles=self._troubles)
            self._writer.close()
        self.stopped = True

    # -- tensors -------------------------------------------------------------------------------------------------------

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
            if known is not None and version >= 0 and known[1] == version and known[0]() is tensor:
                return known[2]
        try:
            dense = plain(tensor)
            device = dense.device.type
            stats = measure(dense)
        except (NotMeasurable, RuntimeError, NotImplementedError):
            device, stats = device_type(tensor), None
        kind = Kind(tuple(int(s) for s in tensor.shape), DTYPE.get(tensor.dtype, str(tensor.dtype)), device)
        index = self.writer.stat(kind, stats)
        if not fresh and version >= 0:
            if len(self._seen) > 20_000:
                self._seen = {k: v for k, v in self._seen.items() if v[0]() is not None}
            self._seen[key] = (weakref.ref(tensor), version, index)
        return index

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

    # -- module calls --------------------------------------------------------------------------------------------------

    @property
    def stack(self) -> list[Call]:
        """Open calls of this thread, outermost first."""
        found = getattr(self._local, "stack", None)
        if found is None:
            found = self._local.stack = []
        return found

    def named(self, original: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """At the level of steps: run a module, and learn the names of parameters from the outermost calls."""
        depth = getattr(self._local, "depth", 0)
        if depth == 0 and not self.modules.is_known(module):
            with self._quiet():
                self._begin()
                self._state(module, self.modules.path(module, None))
        self._local.depth = depth + 1
        try:
            return original(module, *args, **kwargs)
        finally:
            self._local.depth = depth

    def call(
        self, original: Callable[..., Any], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a module and record the call."""
        if self.found_modules is not None and next(module.parameters(), None) is not None:
            self.found_modules()
            self.found_modules = None
        call = None
        with self._quiet():
            call = self._enter(module, args, kwargs)
        if call is None:
            return original(module, *args, **kwargs)
        self.stack.append(call)
        failed = True
        before = getattr(_inside, "compiled", False)
        _inside.compiled = before or is_compiled(module)
        try:
            if call.focus is not None:
                with call.focus:
                    result = original(module, *args, **kwargs)
            else:
                result = original(module, *args, **kwargs)
            failed = False
        finally:
            _inside.compiled = before
            if self.stack and self.stack[-1] is call:
                self.stack.pop()
            if failed:
                with self._quiet():
                    self._leave(call, (), "raised")
        with self._quiet():
            self._leave(call, nested.tensors(result), None)
        return result

    def _enter(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        if (
            isinstance(module, torch.jit.ScriptModule)
            and self.stack
            and isinstance(self.stack[-1].module, torch.jit.ScriptModule)
        ):
            return None
        parent = self.stack[-1] if self.stack else None
        known = self.modules.is_known(module)
        path = self.modules.path(module, parent.module if parent else None)
        if not known and parent is None:
            self._begin()
            self._state(module, path)
        phase = "r" if torch._C._current_graph_task_id() != -1 else "f"
        nth = self._calls.get((path, phase), 0)
        self._calls[path, phase] = nth + 1
        self._call_id += 1
        call = Call(self._call_id, module, path, phase, nth)
        call.site = self.site(4)
        call.entries = self._entries(nested.arguments(args, kwargs), watch=True)
        focus = self.options.focus
        if focus and not focus.backward and phase == "f" and focus.path == path and focus.call == nth:
            from mlu_backend.parity.operators import OperatorMode

            call.focus = OperatorMode(self, keep=True)
        self.writer.event(k="enter", id=call.id, m=self._module(module, path), step=self.step)
        return call

    def _leave(self, call: Call, results: Iterable[tuple[str, torch.Tensor]], trouble: str | None) -> None:
        fields: dict[str, Any] = {}
        if call.phase != "f":
            fields["phase"] = call.phase
        if trouble:
            fields["trouble"] = trouble
        autocast = autocast_state()
        if autocast:
            fields["autocast"] = autocast
        if self.stack:
            fields["parent"] = self.stack[-1].id
        self.writer.event(
            k="call",
            id=call.id,
            m=self._module(call.module, call.path),
            n=call.nth,
            step=self.step,
            train=call.module.training,
            site=call.site,
            **{"in": call.entries},
            out=self._entries(results, watch=True),
            **fields,
        )

    def _module(self, module: torch.nn.Module, path: str) -> int:
        key = (path, type(module))
        known = self._module_ids.get(key)
        if known is None:
            known = self._module_ids[key] = len(self._module_ids)
            source = self.sites.source(getattr(type(module), "forward", None))
            self.writer.event(
                k="module",
                id=known,
                path=path,
                type=f"{type(module).__module__}.{type(module).__qualname__}",
                source=source,
                options=module.extra_repr()[:200],
                parameters=sum(1 for _ in module.parameters(recurse=False)),
            )
        return known

    # -- parameters, steps, losses -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._began:
            self._began = True
            self.random_state("start")

    def _state(self, root: torch.nn.Module, path: str) -> None:
        """All parameters and buffers of a root, before it first computes."""
        if path in self._states:
            return
        self._states.add(path)
        items = [[f"{path}.{name}", self.stat(p)] for name, p in root.named_parameters()]
        buffers = [[f"{path}.{name}", self.stat(b)] for name, b in root.named_buffers()]
        self.writer.event(k="state", root=path, step=self.step, parameters=items, buffers=buffers)

    def backward(self, roots: list[torch.Tensor]) -> None:
        """A backward pass is about to start from these tensors."""
        with self._quiet():
            entries = []
            for i, root in enumerate(roots):
                unscaled = self._scaled.get(id(root))
                index = unscaled[1] if unscaled is not None and unscaled[0]() is root else self.stat(root)
                entries.append([str(i), index])
            self.writer.event(k="loss", step=self.step, roots=entries, site=self.site(3))

    def gradients(self, results: Iterable[torch.Tensor | None]) -> None:
        """What ``torch.autograd.grad`` returned."""
        with self._quiet():
            entries = [[str(i), self.stat(g, fresh=True)] for i, g in enumerate(results) if g is not None]
            self.writer.event(k="autograd", step=self.step, out=entries, site=self.site(3))

    def _parameter_names(self, optimizer: torch.optim.Optimizer, number: int) -> Iterator[tuple[str, torch.Tensor]]:
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                yield self.modules.parameter(parameter, f"optimizer{number}.group{g}.{p}"), parameter

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Gradients as the optimizer is about to use them."""
        with self._quiet():
            self._begin()
            number = self._number(optimizer)
            items = [
                [name, self.stat(parameter.grad, fresh=True)]
                for name, parameter in self._parameter_names(optimizer, number)
                if parameter.grad is not None
            ]
            self.writer.event(
                k="grads", step=self.step, opt=number, items=items, scale=self._scale, type=type(optimizer).__name__
            )
            groups = [hyperparameters(group) for group in optimizer.param_groups]
            if self._hyperparameters.get(number) != groups:
                self._hyperparameters[number] = groups
                self.writer.event(
                    k="optimizer",
                    opt=number,
                    step=self.step,
                    type=type(optimizer).__name__,
                    groups=groups,
                    site=self.site(3),
                )

    def after_step(self, optimizer: torch.optim.Optimizer) -> bool:
        """An optimizer stepped. True when the program has made the steps it was asked for."""
        done = False
        with self._quiet():
            number = self._number(optimizer)
            if self.step == 0 or (self.options.every and (self.step + 1) % self.options.every == 0):
                items = [[n, self.stat(p, fresh=True)] for n, p in self._parameter_names(optimizer, number)]
                self.writer.event(k="parameters", step=self.step, opt=number, items=items)
            self.writer.event(
                k="step", step=self.step, opt=number, lr=[as_number(g.get("lr")) for g in optimizer.param_groups]
            )
            if number == self._leader:
                self.random_state("step")
                self.step += 1
                self._seen.clear()
                self._watched.clear()
                self._scaled.clear()
                self.writer.flush(force=False)
                done = 0 < self.options.steps <= self.step
        return done

    def _number(self, optimizer: torch.optim.Optimizer) -> int:
        known = self._optimizers.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1]
        number = len(self._optimizers)
        self._optimizers[id(optimizer)] = (weakref.ref(optimizer), number)
        if self._leader is None:
            self._leader = number
        return number

    def _parameters(self, when: str) -> None:
        for reference, number in list(self._optimizers.values()):
            optimizer = reference()
            if optimizer is not None:
                items = [[n, self.stat(p, fresh=True)] for n, p in self._parameter_names(optimizer, number)]
                self.writer.event(k="parameters", step=self.step, opt=number, items=items, when=when)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def scaled(self, loss: torch.Tensor, result: torch.Tensor) -> None:
        """A loss was multiplied by a scale: the loss is what is recorded when its backward pass starts."""
        with self._quiet():
            self._scaled[id(result)] = (weakref.ref(result), self.stat(loss))

    def scaler(self, what: str, **fields: Any) -> None:
        """A GradScaler was made or updated."""
        with self._quiet():
            self._scale = fields.get("scale", self._scale)
            self.writer.event(k="scaler", what=what, step=self.step, site=self.site(3), **fields)

    def collective(self, name: str, reduce: str | None, given: list[tuple[str, torch.Tensor]]) -> list[list[Any]]:
        """Inputs of a collective, before it runs."""
        entries: list[list[Any]] = []
        with self._quiet():
            entries = self._entries(given, watch=False)
        return entries

    def collected(
        self,
        name: str,
        reduce: str | None,
        size: int,
        entries: list[list[Any]],
        after: list[tuple[str, torch.Tensor]],
        site: int | None,
    ) -> None:
        """A collective has run."""
        with self._quiet():
            # Backends write into tensors without a new version.
            out = [[place, self.stat(tensor, fresh=True)] for place, tensor in after]
            self.writer.event(
                k="collective",
                name=name,
                reduce=reduce,
                size=size,
                step=self.step,
                out=out,
                site=site,
                **{"in": entries},
            )

    def seed(self, function: str, value: Any) -> None:
        """A generator is about to be seeded. The state it leaves tells whether the runs drew equally until here."""
        with self._quiet():
            before = digest(torch.get_rng_state().numpy().tobytes())
            self.writer.event(
                k="seed", step=self.step, site=self.site(3), function=function, value=value, before=before
            )

    def note(self, kind: str, **fields: Any) -> None:
        """An event that is only words: a data loader, the process group."""
        with self._quiet():
            self.writer.event(k=kind, step=self.step, site=self.site(3), **fields)

    def random_state(self, when: str) -> None:
        """Fingerprints of the states of all random generators."""
        self.writer.event(k="random", when=when, step=self.step, states=random_states())

    def operator(
        self,
        name: str,
        entries: list[list[Any]],
        out: list[list[Any]],
        *,
        random: bool,
        backward: bool,
        site: int | None,
        truth: dict[str, float] | None,
    ) -> None:
        """One operator ran. ``truth``: the error of its result against float64."""
        fields: dict[str, Any] = {}
        if self.stack:
            fields["call"] = self.stack[-1].id
        if random:
            fields["random"] = True
        if backward:
            fields["backward"] = True
        if truth:
            fields["truth"] = truth
        self.writer.event(k="op", name=name, step=self.step, site=site, **{"in": entries}, out=out, **fields)
