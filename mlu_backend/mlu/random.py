"""
Random numbers on the device.

The state of a generator is 16 bytes, uint8, on the CPU: 8 of seed and 8 of offset (a multiple of 4). It has another
layout and length than a CPU or CUDA state. Setters wait until the device is initialised; getters initialise it
(torch_mlu/mlu/random.py:22-77).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from . import _lazy_call, _lazy_init, current_device, device_count

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _index_of(device: int | str | torch.device) -> int:
    if isinstance(device, str):
        device = torch.device(device)
    elif isinstance(device, int):
        device = torch.device("mlu", device)
    return current_device() if device.index is None else device.index


def get_rng_state(device: int | str | torch.device = "mlu") -> Tensor:
    """The state of one card's default generator, 16 bytes."""
    _lazy_init()
    return torch.mlu.default_generators[_index_of(device)].get_state()


def get_rng_state_all() -> list[Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Tensor, device: int | str | torch.device = "mlu") -> None:
    """Restore a state of 16 bytes (or 8: seed alone, offset 0); RuntimeError "RNG state is wrong size" for another."""
    # Copied now: the call may be queued, and the caller may go on writing to its tensor.
    copy = new_state.clone(memory_format=torch.contiguous_format)

    def restore() -> None:
        torch.mlu.default_generators[_index_of(device)].set_state(copy)

    _lazy_call(restore)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current card; takes effect when the device is initialised."""
    number = int(seed)

    def apply() -> None:
        torch.mlu.default_generators[current_device()].manual_seed(number)

    _lazy_call(apply, seed=True)


def manual_seed_all(seed: int) -> None:
    """Seed every card alike; takes effect when the device is initialised."""
    number = int(seed)

    def apply() -> None:
        for index in range(device_count()):
            torch.mlu.default_generators[index].manual_seed(number)

    _lazy_call(apply, seed_all=True)


def seed() -> None:
    """Seed the current card at random."""

    def apply() -> None:
        torch.mlu.default_generators[current_device()].seed()

    _lazy_call(apply)


def seed_all() -> None:
    """Seed every card with one random number."""

    def apply() -> None:
        common = None
        for index in range(device_count()):
            if common is None:
                common = torch.mlu.default_generators[index].seed()
            else:
                torch.mlu.default_generators[index].manual_seed(common)

    _lazy_call(apply)


def initial_seed() -> int:
    """The seed the current card's generator began with."""
    _lazy_init()
    return torch.mlu.default_generators[current_device()].initial_seed()
