"""Tensors inside nested arguments, with a name for each place that is the same in both runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

MAX_DEPTH = 8
MAX_TENSORS = 512


def tensors(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of everything reachable through tuples, lists, mappings and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth >= MAX_DEPTH or value is None or isinstance(value, (str, bytes, int, float, bool)):
        return
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value[:MAX_TENSORS]):
            yield from tensors(item, f"{name}.{i}" if name else str(i), depth + 1)
    elif isinstance(value, Mapping):
        for key, item in list(value.items())[:MAX_TENSORS]:
            yield from tensors(item, f"{name}.{key}" if name else str(key), depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield from tensors(getattr(value, part.name, None), f"{name}.{part.name}" if name else part.name, depth + 1)


def arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a call."""
    yield from tensors(args)
    if kwargs:
        yield from tensors(kwargs)
