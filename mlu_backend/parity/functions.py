"""One function on the CPU and on mlu, in this process: what the pytest plugin and unit tests of a project use."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from mlu_backend.launch import PROFILES
from mlu_backend.parity import metrics, nested, tolerance
from mlu_backend.parity.inject import seed_everything
from mlu_backend.parity.metrics import Error


class NoDevice(Exception):
    """There is no ``mlu`` device in this process, or nothing ran on it; the text says why."""


class WrongUse(ValueError):
    """An option that there is not, or a value of one; the text says which there are."""


@dataclass
class Result:
    """``compared``: name and error of each tensor. ``faults``: sentences about those beyond their limit."""

    compared: dict[str, Error] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def compare(
    function: Callable[..., Any],
    *args: Any,
    seed: int = 0,
    profile: str = "exact",
    kind: str = "composite",
    gradients: bool = True,
    **kwargs: Any,
) -> Result:
    """
    Call ``function`` with copies of its arguments on the CPU and on mlu and compare what it returns and, for floating
    outputs that require them, the gradients of its tensors and parameters. A module is copied to each device. Both
    calls start from the same seed. Raises NoDevice and WrongUse.
    """

    def on(device: str) -> Any:
        place: Any = _moved(function, device) if isinstance(function, torch.nn.Module) else function
        given, named = _moved(args, device), _moved(kwargs, device)
        seed_everything(seed)
        result = place(*given, **named)
        found = {f"output {n}".strip(): t for n, t in nested.tensors(result)}
        if not gradients:
            return found
        roots = [t for t in found.values() if t.requires_grad]
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(t) for t in roots])
            leaves = dict(nested.arguments(given, named))
            if isinstance(place, torch.nn.Module):
                leaves |= dict(place.named_parameters())
            found |= {f"gradient of {n}": t.grad for n, t in leaves.items() if t.grad is not None}
        return found

    return compare_devices(on, seed=seed, profile=profile, kind=kind)


def compare_devices(
    function: Callable[[str], Any], *, seed: int = 0, profile: str = "exact", kind: str = "composite"
) -> Result:
    """
    Call ``function`` with "cpu" and with "mlu", each time from the same seed, and compare the tensors it returns.
    Raises NoDevice and WrongUse.
    """
    for word, value, known in (("profile", profile, PROFILES), ("kind", kind, tolerance.CLASSES)):
        if value not in known:
            raise WrongUse(f"{word} must be one of {', '.join(known)}, not {value!r}")
    _need_device()
    seed_everything(seed)
    ours = dict(nested.tensors(function("cpu")))
    seed_everything(seed)
    theirs = dict(nested.tensors(function("mlu")))
    if not ours and not theirs:
        raise NoDevice("no tensor was returned, so nothing was compared")
    if theirs and not any(t.device.type == "mlu" for t in theirs.values()):
        raise NoDevice("none of the returned tensors lives on mlu")
    result = Result()
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        _compare(name, ours.get(name), theirs.get(name), profile, kind, result)
    return result


def _need_device() -> None:
    try:
        import torch_mlu  # noqa: F401

        torch.empty(1, device="mlu")
    except Exception as error:
        raise NoDevice(f"no mlu device here: {type(error).__name__}: {error}") from error


def _moved(value: Any, device: str) -> Any:
    if isinstance(value, torch.Tensor):
        moved = value.detach().clone().to(device)
        return moved.requires_grad_(value.requires_grad)
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, (tuple, list)):
        items = [_moved(v, device) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):
        return {k: _moved(v, device) for k, v in value.items()}
    return value


def _compare(
    name: str, ours: torch.Tensor | None, theirs: torch.Tensor | None, profile: str, kind: str, result: Result
) -> None:
    label = name or "result"
    if ours is None or theirs is None:
        result.faults.append(f"{label}: only on {'mlu' if ours is None else 'cpu'}")
        return
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        result.faults.append(
            f"{label}: {ours.dtype} {tuple(ours.shape)} on cpu, {theirs.dtype} {tuple(theirs.shape)} on mlu"
        )
        return
    if ours.is_floating_point() and not torch.equal(ours.detach().isfinite(), theirs.detach().cpu().isfinite()):
        result.faults.append(f"{label}: inf or nan in other places")
        return
    error = metrics.of_tensors(ours, theirs)
    result.compared[label] = error
    limit = tolerance.find(profile, kind, str(ours.dtype).removeprefix("torch."))
    if not limit.admits(error.mean, error.single):
        result.faults.append(
            f"{label}: {error}; the limit is {limit.mean:.0e} mean, {limit.single:.0e} single ({limit.source})"
        )
