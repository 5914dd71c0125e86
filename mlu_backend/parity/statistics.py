"""
Statistics of a tensor in one pass: what a record keeps instead of the tensor.

The C++ part of the emulated device has them fused (``mlu_backend.core.stats``); the functions here are the same in
plain torch, for machines without it. Norm, minimum, maximum and mean are over finite elements, in double. The checksum
is equal bit for bit in both: with ``u_i`` the bits of element i (row-major) as an unsigned number,

    checksum = sum_i (u_i + 1) * ((2 i + 1) * 0x9E3779B97F4A7C15)    modulo 2**64

It depends on order, costs one multiplication an element, and needs nothing but wrapping integer arithmetic, so it can
run on the device the tensor lives on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

SAMPLES = 16
CHUNK = 1 << 20
_WEIGHT = 0x9E3779B97F4A7C15 - (1 << 64)  # as a signed 64-bit number
_MASK = (1 << 64) - 1
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_LOW = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF}
_positions: dict[tuple[int, str], torch.Tensor] = {}


class Stats(NamedTuple):
    """
    What is kept of one tensor. ``sample`` holds up to 16 elements at fixed, evenly spread places (all of a smaller
    tensor).
    """

    norm: float
    min: float
    max: float
    mean: float
    nonfinite: int
    checksum: int
    sample: tuple[float, ...] = ()


class NotMeasurable(Exception):
    """The tensor has no elements that can be read: fake, meta, or inside a transform."""


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """
    The dense numbers of ``tensor`` as a detached tensor of a real dtype: the shard a distributed tensor has here, what
    a functional collective brings (which is waited for), the values of a sparse or nested one, both parts of a complex
    one.
    Raises NotMeasurable where there are none.
    """
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        tensor = local
    if tensor.is_nested:
        tensor = tensor.values()
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not _ordinary(tensor):
        tensor = _awaited(tensor)
    if tensor.device.type == "meta":
        raise NotMeasurable(tensor.device.type)
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = _sparse_values(tensor)
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor


def _awaited(tensor: torch.Tensor) -> torch.Tensor:
    """The result inside an AsyncCollectiveTensor. The program finds it there when it waits itself."""
    functional = sys.modules.get("torch.distributed._functional_collectives")
    kind = getattr(functional, "AsyncCollectiveTensor", None)
    if functional is None or kind is None or type(tensor) is not kind:
        raise NotMeasurable(type(tensor).__name__)
    found: torch.Tensor = functional.wait_tensor(tensor.elem)  # type: ignore[attr-defined]
    if type(found) is not torch.Tensor:
        raise NotMeasurable(type(found).__name__)
    return found


def _ordinary(tensor: torch.Tensor) -> bool:
    kind = type(tensor)
    return isinstance(
        tensor, (torch.nn.Parameter, torch.nn.Buffer if hasattr(torch.nn, "Buffer") else torch.nn.Parameter)
    ) or (kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__)


def _sparse_values(tensor: torch.Tensor) -> torch.Tensor:
    """Indices would differ in order only until coalesced, so the sum over equal places is what is compared."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        return tensor.values().detach()
    values = getattr(tensor, "values", None)
    if values is None:
        raise NotMeasurable(str(tensor.layout))
    return values().detach()


def checksum(tensor: torch.Tensor) -> int:
    """The checksum of a dense tensor, unsigned."""
    return _signed_checksum(plain(tensor)) & _MASK


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1)


def _signed_checksum(tensor: torch.Tensor) -> int:
    flat = _flat(tensor)
    total = 0
    for start in range(0, flat.numel(), CHUNK):
        total += int(_chunk_checksum(flat[start : start + CHUNK], start))
    return total


def _chunk_checksum(flat: torch.Tensor, start: int) -> torch.Tensor:
    size = flat.element_size()
    bits = flat.view(_BITS[size]).to(torch.int64)
    if size in _LOW:
        bits = bits & _LOW[size]
    index = torch.arange(start, start + flat.numel(), dtype=torch.int64, device=flat.device)
    return ((bits + 1) * ((index * 2 + 1) * _WEIGHT)).sum()


def measure_in_torch(tensor: torch.Tensor) -> dict[str, float | int]:
    """Norm, min, max, mean, non-finite count and checksum of a dense tensor, in plain torch, in chunks."""
    flat = _flat(tensor)
    squares = total = 0.0
    low, high, bad, check, count = float("inf"), float("-inf"), 0, 0, flat.numel()
    for start in range(0, count, CHUNK):
        part = flat[start : start + CHUNK]
        check += int(_chunk_checksum(part, start))
        numbers = part.to(torch.float64) if part.device.type != "mps" else part.cpu().to(torch.float64)
        if part.is_floating_point():
            finite = torch.isfinite(numbers)
            wrong = numbers.numel() - int(finite.sum())
            if wrong:
                bad += wrong
                numbers = numbers[finite]
        if numbers.numel():
            squares += float(torch.dot(numbers, numbers))
            total += float(numbers.sum())
            smallest, largest = torch.aminmax(numbers)
            low, high = min(low, float(smallest)), max(high, float(largest))
    good = count - bad
    return {
        "norm": squares**0.5,
        "min": low if good else 0.0,
        "max": high if good else 0.0,
        "mean": total / good if good else 0.0,
        "nonfinite": bad,
        "checksum": check & _MASK,
    }


def _fused() -> Callable[[torch.Tensor], tuple[Any, ...]] | None:
    """The C++ pass, where the emulated device is loaded in this process; looked up late because it loads after us."""
    core = sys.modules.get("mlu_backend.core")
    if core is None or not core.loaded():
        return None
    found: Callable[[torch.Tensor], tuple[Any, ...]] = core.extension().stats
    return found


def measure(tensor: torch.Tensor) -> Stats:
    """Statistics and sample of a tensor on any device; NotMeasurable where it has no readable elements."""
    return measure_plain(plain(tensor))


def measure_plain(dense: torch.Tensor) -> Stats:
    """Statistics and sample of what ``plain`` answers."""
    fused = _fused()
    if fused is not None and dense.device.type in ("cpu", "mlu"):
        return Stats._make(fused(dense))
    return Stats(**measure_in_torch(dense), sample=sample(dense))  # type: ignore[arg-type]


def sample(dense: torch.Tensor) -> tuple[float, ...]:
    """Up to 16 elements of a dense tensor at evenly spread row-major places, as Python numbers."""
    count = dense.numel()
    if count == 0:
        return ()
    if count <= SAMPLES:
        return tuple(float(v) for v in dense.reshape(-1).tolist())
    key = (count, str(dense.device))
    places = _positions.get(key)
    if places is None:
        if len(_positions) > 4096:
            _positions.clear()
        places = torch.tensor([i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)], device=dense.device)
        _positions[key] = places
    return tuple(float(v) for v in torch.take(dense, places).tolist())
