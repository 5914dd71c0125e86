"""
Which card is emulated: its name, version numbers and memory, by profile.

From the reference: names MLU370 and MLU590, major version 3 for MLU370 and 5 for MLU5xx, architectures 3.0 and 5.0,
cards 372 and 592 (torch_mlu r2.4: csrc/utils/common.cpp:39-48, utils/cpp_extension.py:867-906). Memory sizes, the
number of clusters and of cores in one, and linear memory are not in it: those are round figures of this emulator, and
``MLU_EMULATOR_MEMORY`` sets the memory of a run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

GIB = 1024**3
PROFILE = "MLU_EMULATOR_PROFILE"
MEMORY = "MLU_EMULATOR_MEMORY"
CARDS = "MLU_EMULATOR_CARDS"
MAX_CARDS = 16  # torch_mlu/csrc/framework/core/device_utils.h:42
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": GIB, "t": 1024 * GIB}


@dataclass(frozen=True)
class Model:
    """A card. ``memory`` in bytes; ``isa_version`` as in ``--bang-mlu-arch=mtp_592``."""

    name: str
    major: int
    minor: int
    isa_version: int
    clusters: int
    cores_per_cluster: int
    memory: int
    linear_memory: bool


MLU370 = Model("MLU370", 3, 0, 372, 8, 4, 24 * GIB, False)
MLU590 = Model("MLU590", 5, 0, 592, 8, 4, 80 * GIB, False)
MODELS = {"exact": MLU590, "mlu370": MLU370, "mlu590": MLU590}


def profile() -> str:
    """The profile in force; ValueError for one that does not exist."""
    name = os.environ.get(PROFILE) or "exact"
    if name not in MODELS:
        raise ValueError(f"{PROFILE} must be one of {', '.join(MODELS)}, got {name!r}")
    return name


def model() -> Model:
    """The card the profile emulates."""
    return MODELS[profile()]


def count() -> int:
    """Cards in the emulated machine, hidden ones included."""
    text = os.environ.get(CARDS, "8")
    if not text.isdigit() or int(text) > MAX_CARDS:
        raise ValueError(f"{CARDS} must be a number of cards between 0 and {MAX_CARDS}, got {text!r}")
    return int(text)


def memory() -> int:
    """Bytes of memory each card has; ``MLU_EMULATOR_MEMORY`` takes bytes or a number with K, M, G or T (``512M``)."""
    text = os.environ.get(MEMORY, "").strip().lower().removesuffix("b").removesuffix("i")
    if not text:
        return model().memory
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    try:
        size = int(float(number) * UNITS[unit])
    except (KeyError, ValueError):
        raise ValueError(f"{MEMORY} must be a size such as 8G or 512M, got {os.environ[MEMORY]!r}") from None
    if size <= 0:
        raise ValueError(f"{MEMORY} must be more than 0, got {os.environ[MEMORY]!r}")
    return size
