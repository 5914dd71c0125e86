"""
Devices in both spellings, and who may see which.

The program believes in ``cuda``. The emulated device's own Python part, and the parts of torch that keep devices as
data and compare them with what C++ tells them (process groups, meshes, checkpoints), see what is really there, as they
do in the migrated program.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from mlu_backend.parity.naming import Sites

DEVICE_TEXT = re.compile(r"cuda(:\d+)?\Z")
_SEE_THE_DEVICE = (
    "torch_mlu",
    "torch.mlu",
    "mlu_backend.mlu",
    "torch.distributed",
    "torch.nn.parallel",
    "torch._utils",
)
_LIBRARIES = ("torch", "torch_mlu", "mlu_backend")


def sees_the_device(depth: int) -> bool:
    """Whether the code ``depth`` frames above the caller is one that must see what is really there."""
    return str(sys._getframe(depth + 1).f_globals.get("__name__", "")).startswith(_SEE_THE_DEVICE)


def is_library(depth: int) -> bool:
    """Whether the code ``depth`` frames above the caller belongs to torch or to us."""
    name = str(sys._getframe(depth + 1).f_globals.get("__name__", ""))
    return name.split(".", 1)[0] in _LIBRARIES


def to_device(value: Any) -> Any:
    """``cuda`` devices and their exact spellings as the emulated device; anything else as it is."""
    if isinstance(value, torch.device):
        if value.type == "cuda":
            return torch.device("mlu", value.index) if value.index is not None else torch.device("mlu")
        return value
    if isinstance(value, str) and DEVICE_TEXT.match(value):
        return "mlu" + value[4:]
    return value


def to_cuda(value: Any) -> Any:
    """The emulated device as the ``cuda`` device the program believes in."""
    if isinstance(value, torch.device) and value.type == "mlu":
        return torch.device("cuda", value.index) if value.index is not None else torch.device("cuda")
    return value


class Sinks:
    """
    Device strings that reached torch, with the line that handed them over; one JSON line each, written when first
    seen.
    """

    def __init__(self, folder: str, sites: Sites) -> None:
        self._path = os.path.join(folder, "sinks.jsonl")
        self._sites = sites
        self._seen: set[tuple[Any, ...]] = set()

    def note(self, text: str, function: str) -> None:
        """A string was used as a device."""
        here = self._sites.here(3)
        if here is None or (here, text) in self._seen:
            return
        self._seen.add((here, text))
        line = (
            json.dumps({"file": here[0], "line": here[1], "function": here[2], "text": text, "sink": function}) + "\n"
        )
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line)


class _State:
    sinks: Sinks | None = None


def remember_in(sinks: Sinks) -> None:
    """Where device strings are noted from now on."""
    _State.sinks = sinks


def note(value: Any, function: str) -> None:
    """Note a value if it is the text of a ``cuda`` device; called from the frame that torch was called in."""
    if isinstance(value, str) and _State.sinks is not None and DEVICE_TEXT.match(value):
        _State.sinks.note(value, function)


def mapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function whose device arguments are mapped, and its result back."""

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            note(value, function.__name__)
        return to_cuda(function(*map(to_device, args), **{k: to_device(v) for k, v in kwargs.items()}))

    return mapped


def of_the_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    A function of ``torch.mlu`` under its name in ``torch.cuda``: called with mapped devices, outside the function
    mode.
    """

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return to_cuda(function(*map(to_device, args), **{k: to_device(v) for k, v in kwargs.items()}))

    return mapped
