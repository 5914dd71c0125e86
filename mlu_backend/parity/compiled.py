"""
What is compiled. Which of its parts then run as calls depends on graph breaks, so they are not recorded: the outside is
what two runs have in common.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

inside = threading.local()
"""``compiled`` is true in a thread that is inside of something compiled."""


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether what a module does inside is compiled."""
    return getattr(module, "_compiled_call_impl", None) is not None or type(module).__name__ == "OptimizedModule"


def as_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose inside is not recorded, as that of a compiled one."""

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        before = getattr(inside, "compiled", False)
        inside.compiled = True
        try:
            with operators_unwatched():
                return function(*args, **kwargs)
        finally:
            inside.compiled = before

    return compiled


@contextlib.contextmanager
def operators_unwatched() -> Iterator[None]:
    """The recorder's own dispatch mode off the stack, where it is on top: dynamo would trace into it, and fail."""
    mode: Any = _get_current_dispatch_mode()
    if not getattr(mode, "of_the_recorder", False):
        yield
        return
    mode.__exit__(None, None, None)
    try:
        yield
    finally:
        if mode.wanted:
            mode.__enter__()
