"""Tensors inside nested arguments, with a name for each place that is the same in both runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

MAX_DEPTH = 8
MAX_TENSORS = 512

Parts = Callable[[Any], Iterable[tuple[Any, Any]]]


def tensors(
    value: Any, name: str = "", depth: int = 0, inside: tuple[int, ...] = (), parts: Parts | None = None
) -> Iterator[tuple[str, torch.Tensor]]:
    """
    Name and tensor of everything reachable through tuples, lists, mappings and dataclasses. A container that holds
    itself is gone through once; ``inside`` are the identities of those around. ``parts``: another way to take a value
    apart.
    """
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if depth >= MAX_DEPTH or value is None or isinstance(value, (str, bytes, int, float, bool)):
        return
    if id(value) in inside:
        return
    inside = (*inside, id(value))
    for key, item in (parts or _parts)(value):
        yield from tensors(item, f"{name}.{key}" if name else str(key), depth + 1, inside, parts)


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, (tuple, list)):
        return enumerate(value[:MAX_TENSORS])
    if isinstance(value, Mapping):
        return list(value.items())[:MAX_TENSORS]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((part.name, getattr(value, part.name, None)) for part in dataclasses.fields(value))
    return ()


def arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a call."""
    for i, value in enumerate(args[:MAX_TENSORS]):
        if isinstance(value, torch.Tensor):  # nearly always, so without a generator of its own
            yield str(i), value
        else:
            yield from tensors(value, str(i), 1)
    if kwargs:
        yield from tensors(kwargs)


def saved(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a checkpoint, all of them however many there are: mappings within mappings, and whole modules."""
    return tensors(value, parts=_parts_of_checkpoint)


def _parts_of_checkpoint(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, torch.nn.Module):
        return list(value.state_dict().items())
    return list(value.items()) if isinstance(value, Mapping) else _parts(value)
