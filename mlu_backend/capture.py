"""
Recording operators on static tensors, and running them again into the same memory: what a device graph does.

While a recording is open every operator below autograd is noted with the tensors it was given and those it returned.
Running it again calls the same operators on the same tensors and writes the results over the first ones. A capture on
the card computes nothing; ours has to compute in order to know shapes, so memory that existed before is put back at the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

aten = torch.ops.aten

# Operators that need the result on the host, or whose result's size depends on values: a stream that records cannot
# wait.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique_dim",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::bincount",
    "aten::equal",
    "aten::is_nonzero",
}
# Stated limits of captures (tools/autogen_torch_api/api_support_lists/torch_api.yaml:138, 5143, 10625).
UNSUPPORTED_PREFIXES = ("aten::_foreach_lerp", "aten::_fused_adam", "torch_mlu::fused_adam")
EMPTY = {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided"}
WAIT_TEXT = "CNRT error: operation not permitted while a queue is capturing"


class CaptureError(RuntimeError):
    """Something a capture does not allow was tried."""


@dataclass
class Call:
    """One operator: how to call it and which fresh tensors its results are written to."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[torch.Tensor | None] = field(default_factory=list)

    def run(self) -> None:
        produced = self.function(*self.args, **self.kwargs)
        for target, item in zip(self.results, tree_iter(produced), strict=True):
            if target is not None:
                target.copy_(item)
            elif hasattr(item, "wait") and not isinstance(item, torch.Tensor):
                item.wait()


def tensors_in(*values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_iter(values) if isinstance(leaf, torch.Tensor))


def _storage(tensor: torch.Tensor) -> int | None:
    """What tells one piece of memory from another; None for a tensor without memory of its own (sparse)."""
    if tensor.layout is not torch.strided:
        return None
    return tensor.untyped_storage()._cdata


def _written(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The arguments an operator writes to, by its schema."""
    for position, argument in enumerate(function._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if argument.name in kwargs:
            yield from tensors_in(kwargs[argument.name])
        elif position < len(args):
            yield from tensors_in(args[position])


def _check(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: str) -> None:
    name = function._schema.name
    if not any(tensor.device.type == device for tensor in tensors_in(args, kwargs)):
        return
    if name in WAITING or (name == "aten::index" and _has_mask(args)):
        raise CaptureError(f"{WAIT_TEXT} ({name})")
    if name.startswith(UNSUPPORTED_PREFIXES) or (name.startswith("aten::rrelu_with_noise") and args[4:5] == (True,)):
        raise CaptureError(f"CNRT error: {name} is not supported while a queue is capturing")
    if name in ("aten::copy_", "aten::_to_copy"):
        _check_copy(name, args, kwargs)


def _has_mask(args: tuple[Any, ...]) -> bool:
    return any(index.dtype in (torch.bool, torch.uint8) for index in tensors_in(args[1:]))


def _check_copy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Between host and card only a copy that does not block, from or to pinned memory, can be recorded."""
    if name == "aten::copy_":
        target, source = args[0].device.type, args[1].device.type
        blocking = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        host = args[0] if target == "cpu" else args[1]
    else:
        wanted = kwargs.get("device")
        source = args[0].device.type
        target = source if wanted is None else torch.device(wanted).type
        blocking = not kwargs.get("non_blocking", False)
        host = args[0]
    if source == target or "cpu" not in (source, target):
        return
    if blocking or not host.is_pinned():
        raise CaptureError(f"{WAIT_TEXT} (copy from {source} to {target})")


class Recorder(TorchDispatchMode):
    """Notes operators while it is the active mode; ``restore`` then puts back the memory they wrote to."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.calls: list[Call] = []
        self._fresh: set[int] = set()
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        _check(func, args, kwargs, self.device)
        for tensor in _written(func, args, kwargs):
            self._keep(tensor)
        given = {_storage(tensor) for tensor in tensors_in(args, kwargs)}
        out = func(*args, **kwargs)
        results: list[torch.Tensor | None] = []
        for item in tree_iter(out):
            fresh = isinstance(item, torch.Tensor) and _storage(item) not in given
            if fresh:
                self._fresh.add(_storage(item))  # type: ignore[arg-type]
            results.append(item.detach() if fresh else None)
        if func._schema.name in EMPTY:
            # Nothing to compute again, but the memory has to stay where it is.
            results = [None for _ in results]
            self.calls.append(Call(_nothing, (out,), {}, [None]))
        elif any(item is not None for item in results) or func._schema.is_mutable or _has_work(out):
            self.calls.append(Call(func, args, kwargs, results))
        return out

    def _keep(self, tensor: torch.Tensor) -> None:
        key = _storage(tensor)
        if key is None or key in self._fresh or key in self._before:
            return
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        self._before[key] = (whole, whole.clone())

    def restore(self) -> None:
        """Memory that existed before the capture gets its old contents back."""
        for whole, copy in self._before.values():
            whole.copy_(copy)
        self._before.clear()

    def replay(self) -> None:
        """Run everything again, in order, into the recorded tensors."""
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
            for call in self.calls:
                call.run()


def _nothing(kept: Any) -> None:
    return None


def _has_work(out: Any) -> bool:
    return any(hasattr(item, "wait") and not isinstance(item, torch.Tensor) for item in tree_iter(out))


def dot(recorder: Recorder) -> str:
    """The recorded operators as a Graphviz drawing, arrows following memory."""
    lines = ["digraph capture {"]
    writers: dict[int, int] = {}
    for number, call in enumerate(recorder.calls):
        if call.function is _nothing:
            continue
        lines.append(f'  n{number} [label="{call.function._schema.name}"];')
        for tensor in tensors_in(call.args, call.kwargs):
            key = _storage(tensor)
            if key is not None and key in writers:
                lines.append(f"  n{writers[key]} -> n{number};")
        for tensor in [*_written(call.function, call.args, call.kwargs), *filter(_is_tensor, call.results)]:
            key = _storage(tensor)  # type: ignore[arg-type]
            if key is not None:
                writers[key] = number
    return "\n".join([*lines, "}"]) + "\n"


def _is_tensor(value: Any) -> bool:
    return value is not None
