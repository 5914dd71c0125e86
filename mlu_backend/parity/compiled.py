"""
What is compiled. Which of its parts then run as calls depends on graph breaks, so they are not recorded: the outside is
what two runs have in common.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

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
            return function(*args, **kwargs)
        finally:
            inside.compiled = before

    return compiled
