"""
The patch of ``collectives`` for functional collectives, which DTensor, tensor parallelism and pipelines are made of.

They are operators (``torch.ops._c10d_functional``), called by the functions of torch.distributed, by the backward
formulas of other collectives, and by programs. All of these call the operator as a packet, so that is what is patched;
dynamo and what it compiles go past it, as they do past the recorder. A result is there when it is waited for, which is
when it is recorded; one that nobody ever waits for is not.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from mlu_backend.parity import nested

if TYPE_CHECKING:
    from mlu_backend.parity.capture import Recorder

_COLLECTIVES = {
    f"{space}::{name}"
    for space in ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
    for name in (
        "all_gather_into_tensor",
        "all_gather_into_tensor_coalesced",
        "all_gather_into_tensor_out",
        "all_reduce",
        "all_reduce_",
        "all_reduce_coalesced",
        "all_reduce_coalesced_",
        "all_to_all_single",
        "batch_p2p_ops",
        "broadcast",
        "broadcast_",
        "irecv",
        "isend",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced",
        "reduce_scatter_tensor_out",
    )
}
_COMPLETE = {"_dtensor::shard_dim_alltoall"}
"""Their results need no waiting."""

_WRAPPERS = {"AsyncCollectiveTensor", "DTensor"}

_WAITS = {"_c10d_functional::wait_tensor", "c10d_functional::wait_tensor"}


def install(recorder: Recorder, inside: threading.local) -> None:
    """Patch the class of operators. ``inside.collective`` is set while a collective runs that is already recorded."""
    kind: Any = torch._ops.OpOverloadPacket
    original = kind.__call__
    watched = Watched(recorder, inside)

    @functools.wraps(original)
    def called(packet: Any, /, *args: Any, **kwargs: Any) -> Any:
        name = packet._qualified_op_name
        if name in _COLLECTIVES or name in _COMPLETE:
            return watched.collective(original, packet, args, kwargs)
        if name in _WAITS:
            return watched.wait(original, packet, args, kwargs)
        return original(packet, *args, **kwargs)

    kind.__call__ = called


class Watched:
    """Collectives that were called, by the memory of each result that was not waited for."""

    def __init__(self, recorder: Recorder, inside: threading.local) -> None:
        self._recorder = recorder
        self._inside = inside
        self._waiting: dict[int, Callable[[], None]] = {}

    def collective(
        self, original: Callable[..., Any], packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run one, and see to it that it is recorded."""
        recorder, inside = self._recorder, self._inside
        if getattr(inside, "collective", False) or not recorder.ready():
            return original(packet, *args, **kwargs)
        given = list(nested.arguments(args, kwargs))
        if not _are_numbers(given):
            return original(packet, *args, **kwargs)
        told = _told(packet, args, kwargs)
        name = packet._qualified_op_name.partition("::")[2]
        reduce = _reduction(told)
        entries = recorder.collective(name, reduce, given)
        site = recorder.site(3)
        inside.collective = True  # function modes come back to us
        try:
            result = original(packet, *args, **kwargs)
        finally:
            inside.collective = False
        size = _group_size(told)
        made = [(place or "0", tensor) for place, tensor in nested.tensors(result)]
        memories = [m for m in (_memory(tensor) for _, tensor in made) if m]

        def done() -> None:
            for memory in memories:
                self._waiting.pop(memory, None)
            recorder.collected(name, reduce, size, entries, made, site)

        if packet._qualified_op_name in _COMPLETE or not memories:
            done()
        else:  # what waits holds the results, so that their memory is not given away
            self._waiting.update(dict.fromkeys(memories, done))
        return result

    def wait(self, original: Callable[..., Any], packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Wait for a result, and record its collective. One call waits for all results of a coalesced one."""
        result = original(packet, *args, **kwargs)
        if self._waiting and isinstance(result, torch.Tensor) and self._recorder.ready():
            done = self._waiting.get(_memory(result))
            if done is not None:
                done()
        return result


def _are_numbers(given: list[tuple[str, torch.Tensor]]) -> bool:
    """Whether this is a run; a trace of one hands fake tensors through."""
    return all(type(t) in (torch.Tensor, torch.nn.Parameter) or type(t).__name__ in _WRAPPERS for _, t in given)


def _memory(tensor: torch.Tensor) -> int:
    """Where a tensor lies, 0 for one that lies nowhere. Its views lie there too."""
    with torch._C.DisableTorchFunction():
        return int(tensor.untyped_storage().data_ptr())


def _told(packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name."""
    schema = getattr(packet, packet.overloads()[0])._schema
    return {**{known.name: value for known, value in zip(schema.arguments, args, strict=False)}, **kwargs}


def _reduction(told: dict[str, Any]) -> str | None:
    for name in ("reduce_op", "reduceOp"):
        if name in told:
            return str(told[name]).upper()
    return None


def _group_size(told: dict[str, Any]) -> int:
    if isinstance(told.get("group_size"), int):
        return int(told["group_size"])
    group = told.get("group_name", told.get("group"))
    try:
        if isinstance(group, str):
            group = torch.distributed.distributed_c10d._resolve_process_group(group)
        return int(torch.distributed.get_world_size(group))
    except (RuntimeError, ValueError, TypeError, AttributeError):
        return 0
