"""
The patches of ``hooks`` for torch.distributed: what goes into a collective and what comes out of it.

The results of a collective that was started with ``async_op=True`` are there when its work is waited for, so that is
when they are recorded; those of coalesced ones when all were issued, or when that is waited for. Object collectives
send pickled bytes, which differ between equal runs (addresses, names of temporary folders), and are left out.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from mlu_backend.parity import functional_collectives, nested

if TYPE_CHECKING:
    from mlu_backend.parity.capture import Recorder

_COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_reduce_coalesced",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "_all_gather_base",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "_reduce_scatter_base",
    "all_to_all",
    "all_to_all_single",
    "send",
    "recv",
)
_STARTED = ("isend", "irecv")
"""Always asynchronous; ``batch_isend_irecv`` calls them."""

_OF_OBJECTS = (
    "broadcast_object_list",
    "all_gather_object",
    "gather_object",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)

_inside = threading.local()


def install(recorder: Recorder) -> None:
    """Patch torch.distributed, where there is one."""
    dist = torch.distributed
    if not dist.is_available():
        return
    core = dist.distributed_c10d
    pending = Pending(recorder)
    for name in (*_COLLECTIVES, *_STARTED):
        original = getattr(core, name, None)
        if original is not None:
            _replace(dist, core, name, _recorded(recorder, pending, name, original))
    for name in _OF_OBJECTS:
        original = getattr(core, name, None)
        if original is not None:
            _replace(dist, core, name, _unrecorded(original))
    pending.watch(core.Work)
    if hasattr(core, "_coalescing_manager"):
        _replace(dist, core, "_coalescing_manager", _coalescing(recorder, pending, core._coalescing_manager))
    functional_collectives.install(recorder, _inside)
    start = core.init_process_group

    @functools.wraps(start)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        start(*args, **kwargs)
        if recorder.ready():
            recorder.note("world", rank=dist.get_rank(), size=dist.get_world_size(), backend=str(dist.get_backend()))

    _replace(dist, core, "init_process_group", init_process_group)


class Pending:
    """Collectives that were started and not waited for. Holds each work, so that its identity is not given away."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._works: dict[int, tuple[Any, Callable[[], None]]] = {}
        recorder.at_close.append(self.finish)

    def add(self, work: Any, record: Callable[[], None]) -> None:
        """``record`` is called once, when ``work`` is done."""
        self._works[id(work)] = (work, record)

    def watch(self, kind: Any) -> None:
        """Patch the class of works. What it says is passed on before anything is recorded."""
        for name in ("wait", "synchronize"):
            setattr(kind, name, self._watched(getattr(kind, name)))
        asked = kind.is_completed

        @functools.wraps(asked)
        def is_completed(work: Any) -> bool:
            done = bool(asked(work))
            if done:
                self._done(work)
            return done

        kind.is_completed = is_completed

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def waited(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            self._done(work)
            return result

        return waited

    def _done(self, work: Any) -> None:
        found = self._works.pop(id(work), None)
        if found is not None and self._recorder.ready():
            found[1]()

    def finish(self) -> None:
        """Those that nobody waited for are recorded at the end of the program if they are done."""
        for work, _ in list(self._works.values()):
            work.is_completed()


def _replace(package: Any, core: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(core, name, function)
    if hasattr(package, name):
        setattr(package, name, function)


def _recorded(recorder: Recorder, pending: Pending, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if not recorder.ready() or getattr(_inside, "collective", False):
            return original(*args, **kwargs)
        reduce = _reduce_name(args, kwargs)
        named = list(nested.arguments(args, kwargs))
        entries = recorder.collective(name, reduce, named)
        site = recorder.site(2)
        _inside.collective = True  # function modes come back to us by the public name
        try:
            result = original(*args, **kwargs)
        finally:
            _inside.collective = False
        size = _group_size(args, kwargs)

        def done() -> None:
            recorder.collected(name, reduce, size, entries, named, site)

        coalesced = getattr(_inside, "coalesced", None)
        if coalesced is not None:
            coalesced.append(done)
        elif isinstance(result, torch.distributed.Work):
            pending.add(result, done)
        else:
            done()
        return result

    return collective


def _coalescing(recorder: Recorder, pending: Pending, original: Callable[..., Any]) -> Callable[..., Any]:
    """What is called inside this context runs at its end, or later still where its works are to be waited for."""

    @functools.wraps(original)
    @contextlib.contextmanager
    def manager(*args: Any, **kwargs: Any) -> Iterator[Any]:
        before = getattr(_inside, "coalesced", None)
        issued: list[Callable[[], None]] = []
        _inside.coalesced = issued
        try:
            with original(*args, **kwargs) as made:
                yield made
        finally:
            _inside.coalesced = before

        def done() -> None:
            for record in issued:
                record()

        works = [work for work in getattr(made, "works", ()) if work is not None]
        if works:
            pending.add(works[-1], done)
        elif recorder.ready():
            done()

    return manager


def _unrecorded(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        before = getattr(_inside, "collective", False)
        _inside.collective = True
        try:
            return original(*args, **kwargs)
        finally:
            _inside.collective = before

    return collective


def _reduce_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    kinds = tuple(
        k
        for k in (getattr(torch.distributed, "ReduceOp", None), getattr(torch.distributed.ReduceOp, "RedOpType", None))
        if k
    )
    for value in (*args, *kwargs.values()):
        if isinstance(value, kinds):
            return str(value).rsplit(".", 1)[-1].strip("<>: 0123456789")
    return None


def _group_size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    group = kwargs.get("group") or next((a for a in args if isinstance(a, torch.distributed.ProcessGroup)), None)
    try:
        return int(torch.distributed.get_world_size(group))
    except (RuntimeError, ValueError):
        return 0
