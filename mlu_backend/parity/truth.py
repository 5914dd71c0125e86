"""
What a computation gives in float64 on the CPU: the judge between two sides that are both inexact.

Of single operators, and of a module call as a whole. Where the question cannot be asked (random numbers, custom
kernels, tensors too large, code that names its device) there is no answer, and the limits decide alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from mlu_backend.parity import metrics, nested
from mlu_backend.parity.statistics import NotMeasurable, plain

LARGEST = 4 << 20
"""Elements of a tensor that is converted."""

_CANNOT = (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, AssertionError, NotMeasurable)


def of_operator(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the operator gives for these inputs; None where it cannot be asked."""
    if not any(t.is_floating_point() for _, t in nested.arguments(args, kwargs)):
        return None
    try:
        return func(*_in_double(args), **{k: _in_double(v) for k, v in kwargs.items()})
    except _CANNOT:
        return None


def of_module(call: Callable[..., Any], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """
    What a copy of the module gives, ``call(copy, *inputs)``, without autocast; None where it cannot be asked or draws
    random numbers. To be called before the module runs, which may change its buffers.
    """
    if not any(t.is_floating_point() for _, t in nested.arguments(args, kwargs)) and not _has_numbers(module):
        return None
    try:
        if sum(p.numel() for p in module.parameters()) > LARGEST:
            return None
        exact = copy.deepcopy(module).cpu().double()
        inputs, named = _in_double(args), {k: _in_double(v) for k, v in kwargs.items()}
        before = torch.random.get_rng_state()
        try:
            with torch.autocast("cpu", enabled=False), torch.no_grad():
                result = call(exact, *inputs, **named)
            drawn = not torch.equal(before, torch.random.get_rng_state())
        finally:
            torch.random.set_rng_state(before)
    except _CANNOT:
        return None
    return None if drawn else result


def _has_numbers(module: torch.nn.Module) -> bool:
    return any(p.is_floating_point() for p in module.parameters())


def _in_double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = plain(value).to("cpu", copy=True)
        if value.numel() > LARGEST:
            raise NotMeasurable("too large")
        return value.double() if value.is_floating_point() else value
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_in_double(v) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_in_double(v) for v in value)
    if isinstance(value, dict):
        return {k: _in_double(v) for k, v in value.items()}
    return value


def against(exact: Any, result: Any) -> dict[str, float] | None:
    """The error of a result against the one in float64; None where there is none or they are not alike."""
    if exact is None:
        return None
    mean = single = 0.0
    compared = False
    for (_, a), (_, b) in zip(nested.tensors(exact), nested.tensors(result), strict=False):
        if a.shape == b.shape and a.is_floating_point():
            error = metrics.of_tensors(a, plain(b))
            mean, single, compared = max(mean, error.mean), max(single, error.single), True
    return {"mean": mean, "single": single} if compared else None
