"""
The recorder: what one process does, event by event, without changing what it computes.

It is told of module calls, backward passes, optimizer steps, loss scaling, collectives, seeds and data loaders by the
patches in ``hooks``, takes the statistics of every tensor version once (``measuring``), and streams them to a
``trace.Writer``. Steps and losses are in ``training``; here are module calls, and events that are only told.

A call made while a backward pass runs is a recomputation (checkpointing) and gets phase ``r``, others ``f``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from mlu_backend.parity import nested, truth
from mlu_backend.parity.compiled import inside, is_compiled, operators_unwatched
from mlu_backend.parity.surroundings import autocast_state, described, digest
from mlu_backend.parity.training import Training


class Call:
    """A module call that has not returned yet."""

    __slots__ = ("id", "module", "path", "entries", "phase", "nth", "site", "focus", "exact")

    def __init__(self, id: int, module: torch.nn.Module, path: str, phase: str, nth: int) -> None:
        self.id, self.module, self.path, self.phase, self.nth = id, module, path, phase, nth
        self.entries: list[list[Any]] = []
        self.site: int | None = None
        self.focus: Any = None
        self.exact: Any = None


class Recorder(Training):
    """Records one process."""

    def _reset(self) -> None:
        super()._reset()
        self._module_ids: dict[tuple[str, type], int] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._call_id = 0

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
            call = self._enter(original, module, args, kwargs)
        if call is None:
            return original(module, *args, **kwargs)
        self.stack.append(call)
        failed = True
        before = getattr(inside, "compiled", False)
        inside.compiled = before or is_compiled(module)
        try:
            if call.focus is not None:
                with call.focus:
                    result = original(module, *args, **kwargs)
            elif inside.compiled and not before:
                with operators_unwatched():
                    result = original(module, *args, **kwargs)
            else:
                result = original(module, *args, **kwargs)
            failed = False
        finally:
            inside.compiled = before
            if self.stack and self.stack[-1] is call:
                self.stack.pop()
            if failed:
                with self._quiet():
                    self._leave(call, (), "raised")
        with self._quiet():
            self._leave(call, nested.tensors(result), None)
        return result

    def _enter(
        self, original: Callable[..., Any], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
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
            call.exact = truth.of_module(original, module, args, kwargs)
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
        elif threading.current_thread() is not threading.main_thread():
            fields["thread"] = True
        results = list(results)
        entries = self._entries(results, watch=True)
        if call.focus is not None:
            for (_, index), (_, tensor) in zip(entries, results, strict=True):
                self.keep(index, tensor)
            fields["exact"] = [[name, self._keep_exact(call, name, t)] for name, t in nested.tensors(call.exact)]
        self.writer.event(
            k="call",
            id=call.id,
            m=self._module(call.module, call.path),
            n=call.nth,
            step=self.step,
            train=getattr(call.module, "training", None),  # frozen scripts have none
            site=call.site,
            **{"in": call.entries},
            out=entries,
            **fields,
        )

    def _keep_exact(self, call: Call, name: str, tensor: torch.Tensor) -> str:
        key = f"exact.{call.id}.{name}"
        self.writer.tensor(key, tensor)
        return key

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
                options=described(module),
                parameters=sum(1 for _ in module.parameters(recurse=False)),
            )
        return known

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
