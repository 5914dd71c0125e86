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


def run_eagerly() -> None:
    """
    Run eagerly what the program compiles. Compiled code rounds elsewhere (what is fused stays in float32) and draws
    other random numbers, which is no matter of a migration. The wrappers are made all the same, and the recorder treats
    their inside as compiled.
    """
    original = torch.compile

    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda found: compile(found, **options)
        if not isinstance(model, torch.nn.Module):
            return as_compiled(model)
        made = original(model, backend="eager")
        made.forward = model.__call__
        return made

    def compile_in_place(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        self._compiled_call_impl = self._call_impl  # type: ignore[assignment]

    torch.compile = compile  # type: ignore[assignment]
    torch.nn.Module.compile = compile_in_place  # type: ignore[method-assign]
