"""
Inside ``torch.func`` transforms (``vmap``, ``grad``, ...) tensors are wrapped and every new tensor is wrapped too. The
recorder steps out of all transforms while it works, and measures what is inside the wrappers: for ``vmap`` the whole
batch.
"""

from __future__ import annotations

from typing import Any

import torch

_functorch: Any = torch._C._functorch  # type: ignore[attr-defined]
entered = _functorch.peek_interpreter_stack
"""The innermost transform this thread is in, None outside of all."""

is_wrapped = _functorch.is_functorch_wrapped_tensor


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor inside all wrappers."""
    while is_wrapped(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


class Outside:
    """A region outside of the transforms that are running."""

    __slots__ = ("_stack",)

    def __enter__(self) -> None:
        self._stack: list[Any] = []
        while entered() is not None:
            self._stack.append(_functorch.pop_dynamic_layer_stack())

    def __exit__(self, *error: object) -> None:
        while self._stack:
            _functorch.push_dynamic_layer_stack(self._stack.pop())
