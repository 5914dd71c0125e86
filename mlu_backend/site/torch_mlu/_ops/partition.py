"""Splitting rows by number and putting them together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def dynamic_partition(data: Tensor, partitions: Tensor, num_partitions: int) -> list[Tensor]:
    """Rows of ``data`` by the number in ``partitions``, in order: ``num_partitions`` tensors."""
    return [data[partitions == number] for number in range(num_partitions)]


def dynamic_stitch(indices: list[Tensor], data: list[Tensor]) -> Tensor:
    """Rows of all ``data`` at the places ``indices`` give; of two rows for one place the later wins."""
    rows = max((int(index.max()) for index in indices if index.numel()), default=-1) + 1
    shape = data[0].shape[indices[0].dim() :]
    merged = data[0].new_zeros((rows, *shape))
    for index, values in zip(indices, data, strict=True):
        merged[index.reshape(-1)] = values.reshape(-1, *shape)
    return merged


OPERATORS: dict[str, Callable[..., Any]] = {
    "dynamic_partition": dynamic_partition,
    "dynamic_stitch": dynamic_stitch,
}
