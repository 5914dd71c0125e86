"""
Operator-level recording: every ATen call with the statistics of its inputs and outputs and the line that made it.

Used for programs without modules, for ``--level op``, and inside the one module call that a divergence was found in.
Views and allocations compute nothing and are left out.

What an operator writes to and does not read (the memory that ``normal_`` or ``fill_`` fills, ``out=``) is no input: it
may never have been written before. What it changed in place is measured anew, because autograd counts the new version
of a tensor only after the operator has returned to us.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mlu_backend.parity import nested, truth

if TYPE_CHECKING:
    from mlu_backend.parity.capture import Recorder

_NOTHING_COMPUTED = {
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::empty_like",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::detach",
    "aten::detach_",
    "aten::alias",
    "aten::_local_scalar_dense",
    "aten::lift_fresh",
    "aten::record_stream",
    "aten::set_.source_Storage",
    "aten::resize_",
    "aten::is_pinned",
    "aten::_to_copy.no",
    "aten::is_same_size",
}


_OVERWRITES = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_")
_OVERWRITES += ("copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_")


@functools.cache
def written(func: Any) -> tuple[frozenset[str], bool]:
    """The arguments an operator writes to without reading, as ``nested.arguments`` names them; if it writes at all."""
    short = func.name().partition("::")[2].partition(".")[0]
    arguments = func._schema.arguments
    changed = [(str(n), a) for n, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    names = {a.name for _, a in changed if a.kwarg_only}
    if short in _OVERWRITES:
        names |= {number for number, a in changed if not a.kwarg_only}
    return frozenset(names), bool(changed)


class OperatorMode(TorchDispatchMode):
    """
    Records operators while active. With ``keep`` the tensors are kept whole. ``wanted`` false passes everything
    through, which lets a mode stay on the stack when leaving out of order would be wrong.
    """

    of_the_recorder = True

    def __init__(self, recorder: Recorder, keep: bool = False, backward: bool = False) -> None:
        super().__init__()
        self.recorder = recorder
        self.keep = keep
        self.backward = backward
        self.wanted = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """
        Torch would wrap us so that dynamo is imported with the first operator, which takes seconds; we need no
        wrapping.
        """
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        recorder = self.recorder
        if not self.wanted or name in _NOTHING_COMPUTED or func.is_view or not recorder.ready():
            return func(*args, **kwargs)
        entries: list[list[Any]] = []
        random = torch.Tag.nondeterministic_seeded in func.tags
        exact = None
        overwritten, writes = written(func)
        with recorder._quiet():
            named = nested.arguments(args, kwargs)
            entries = self._measure((n, t) for n, t in named if n.partition(".")[0] not in overwritten)
            if self.keep and not random:
                exact = truth.of_operator(func, args, kwargs)
        result = func(*args, **kwargs)
        with recorder._quiet():
            recorder.operator(
                name,
                entries,
                self._measure(self._made(func, args, kwargs, result), fresh=writes),
                random=random,
                backward=torch._C._current_graph_task_id() != -1,
                site=recorder.site(3),
                truth=truth.against(exact, result),
            )
        return result

    def _made(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """What an operator returned; of one that returns nothing, what it wrote to."""
        if result is not None or not written(func)[1]:
            yield from nested.tensors(result)
            return
        for number, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[number] if number < len(args) else kwargs.get(argument.name)
                yield from nested.tensors(value, argument.name)

    def _measure(self, named: Iterable[tuple[str, torch.Tensor]], fresh: bool = False) -> list[list[Any]]:
        entries = []
        for name, tensor in named:
            index = self.recorder.stat(tensor, fresh)
            if self.keep:
                self.recorder.keep(index, tensor)
            entries.append([name, index])
        return entries


class UntilModules(contextlib.AbstractContextManager["UntilModules"]):
    """
    Operator recording for programs that turn out to have no modules: on from the start, off for good as soon as a
    module with parameters is built. Until then what is recorded costs little, since programs build their model early.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.mode = OperatorMode(recorder)
        self.active = False

    def __enter__(self) -> UntilModules:
        self.mode.__enter__()
        self.active = True
        return self

    def stop(self) -> None:
        """Modules were found; operators are no longer recorded."""
        if not self.active:
            return
        self.active = False
        self.mode.wanted = False
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        if _get_current_dispatch_mode() is self.mode:
            self.mode.__exit__(None, None, None)

    def __exit__(self, *exc: object) -> None:
        self.stop()
