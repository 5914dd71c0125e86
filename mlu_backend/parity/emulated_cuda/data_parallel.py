"""
DataParallel: the copies between GPUs that torch does in C++, and only where it is built with CUDA.

The replicas run one after the other in the thread of the program instead of each in a thread of its own. What they
compute is the same, and the order in which they are recorded is too.

Source: torch 2.13, torch/csrc/cuda/comm.cpp.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch


def install() -> None:
    """Give torch the functions it was built without."""
    for function in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        if not hasattr(torch._C, function.__name__):
            setattr(torch._C, function.__name__, function)
    torch.cuda.nccl.is_available = lambda tensors: False
    threads: Any = types.SimpleNamespace(Thread=_InTurn, Lock=threading.Lock)
    sys.modules["torch.nn.parallel.parallel_apply"].threading = threads  # type: ignore[attr-defined]


class _InTurn:
    """A thread that does all its work when it is started."""

    def __init__(self, target: Callable[..., None], args: Sequence[Any]) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        """Work."""
        self._target(*self._args)

    def join(self) -> None:
        """Nothing is left to wait for."""


def _card(index: int | None) -> torch.device:
    """A card by its ordinal, -1 for the CPU, None for the current card."""
    if index is None:
        index = torch.mlu.current_device()  # type: ignore[attr-defined]
    return torch.device("cpu") if index < 0 else torch.device("mlu", index)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """A copy on each device; on the first the tensor itself, where it is on a card."""
    (copies,) = zip(*_broadcast_coalesced([tensor], devices, 0), strict=True)
    return list(copies)


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    for place in out:
        if place.shape != tensor.shape:
            raise RuntimeError(f"Expected all output tensors to have shape {tuple(tensor.shape)}")
        place.copy_(tensor)
    return out


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """For each device the tensors on it. Those of the first device are the tensors themselves."""
    with torch._C.DisableTorchFunction():
        first = _card(devices[0])
        if any(t.device.type == "mlu" and t.device != first for t in tensors):
            raise RuntimeError(f"all tensors must be on devices[0]: {devices[0]}")
        here = [t if t.device == first else t.to(first) for t in tensors]
        return [here, *([t.to(_card(index)) for t in tensors] for index in devices[1:])]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[Any] | None = None,
) -> list[torch.Tensor]:
    """A part on each device."""
    with torch._C.DisableTorchFunction():
        parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
        return [part.to(_card(index)) for part, index in zip(parts, devices, strict=False)]


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Sequence[Any] | None = None
) -> Sequence[torch.Tensor]:
    with torch._C.DisableTorchFunction():
        for place, part in zip(out, tensor.split([o.size(dim) for o in out], dim), strict=True):
            place.copy_(part)
    return out


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    """The tensors of all devices, one after the other on one of them."""
    with torch._C.DisableTorchFunction():
        where = _card(destination)
        return torch.cat([t.to(where) for t in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        for place, tensor in zip(out.split([t.size(dim) for t in tensors], dim), tensors, strict=True):
            place.copy_(tensor)
    return out
