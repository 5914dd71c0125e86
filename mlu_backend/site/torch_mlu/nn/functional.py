"""
``max_unpool2d`` on the card.

The card's own kernel takes indices local to the pooling window; ours takes torch's, which is what our max_pool2d gives,
so that pooling and unpooling fit together as they do on the card.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_mlu import _MLUC

DType = int


def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """A partial inverse of ``max_pool2d``; see :class:`torch.nn.MaxUnpool2d`."""
    return _MLUC._replaced["functional.max_unpool2d"](input, indices, kernel_size, stride, padding, output_size)


def apply_functional_patch() -> None:
    """Route ``torch.nn.functional.max_unpool2d`` through the function above, once a process."""
    kept = _MLUC._replaced
    if "functional.max_unpool2d" not in kept:
        kept["functional.max_unpool2d"] = torch.nn.functional.max_unpool2d
        torch.nn.functional.max_unpool2d = max_unpool2d
