"""The table by which ``__torch_function__`` is tested: it has to know the tensor methods of this device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_mlu import _MLUC


@functools.lru_cache(None)
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """torch's table with ``Tensor.mlu`` and ``Tensor.is_mlu`` in it."""
    original = _MLUC._replaced.get("overrides.get_testing_overrides", torch.overrides.get_testing_overrides)
    table = dict(original())
    table[torch.Tensor.mlu] = lambda self, device=None, non_blocking=False, memory_format=None: -1
    table[torch.Tensor.is_mlu.__get__] = lambda self: -1
    return table


def apply_torch_overrides_patch() -> None:
    """Replace ``torch.overrides.get_testing_overrides``, once a process."""
    kept = _MLUC._replaced
    if "overrides.get_testing_overrides" not in kept:
        kept["overrides.get_testing_overrides"] = torch.overrides.get_testing_overrides
        torch.overrides.get_testing_overrides = get_testing_overrides
