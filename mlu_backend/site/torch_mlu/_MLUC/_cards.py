"""Cards: how many, which is current, what they are."""

from __future__ import annotations

import uuid
from typing import Any

import torch

from mlu_backend import cards
from torch_mlu import _MLUC

_core = _MLUC._core


class _MLUDeviceProperties:
    """What a card says of itself. There is no warp_size, uuid or L2_cache_size."""

    __slots__ = (
        "cluster_count",
        "core_num_per_cluster",
        "isa_version",
        "major",
        "minor",
        "multi_processor_count",
        "name",
        "supports_linear_memory",
        "total_memory",
    )

    def __init__(self, model: cards.Model, total_memory: int) -> None:
        values = {
            "name": model.name,
            "major": model.major,
            "minor": model.minor,
            "isa_version": model.isa_version,
            "cluster_count": model.clusters,
            "core_num_per_cluster": model.cores_per_cluster,
            "multi_processor_count": model.clusters * model.cores_per_cluster,
            "total_memory": total_memory,
            "supports_linear_memory": model.linear_memory,
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"can't set attribute {name!r}")

    def __repr__(self) -> str:
        return (
            f"_MLUDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1024 * 1024)}MB, multi_processor_count={self.multi_processor_count})"
        )


def _get_device_properties(device: int) -> _MLUDeviceProperties:
    return _MLUDeviceProperties(cards.model(), _core.memory())


def _mlu_cardsInMachine() -> int:
    return cards.count()


def _mlu_cardUuids() -> list[str]:
    """One stable UUID a card; the same in every process of this machine."""
    node = uuid.uuid5(uuid.NAMESPACE_DNS, "emulated.mlu")
    return [f"MLU-{uuid.uuid5(node, str(index))}" for index in range(cards.count())]


def _visible() -> int:
    """Cards this process may use, by the environment as it is now."""
    return max(torch.mlu._device_count_cndev(), 0) if hasattr(torch, "mlu") else cards.count()


def _mlu_init() -> None:
    """First use: from here on the number of cards is fixed. RuntimeError without one, or in a forked child."""
    _core.touch()
    _core.set_device_count(_visible())
    if _core.device_count() == 0:
        raise RuntimeError("No MLU devices are available")
    _core.set_memory(cards.memory())
    from torch_mlu._MLUC import _allocator

    _allocator.read_environment()
    _MLUC._initExtension(torch.mlu)


def _mlu_getDeviceCount() -> int:
    return _core.device_count() if _core.touched() else _visible()


def _mlu_isInBadFork() -> bool:
    return _core.in_bad_fork()


def _mlu_getDevice() -> int:
    return _core.current_device()


def _current_device() -> int:
    return _core.current_device()


def _mlu_setDevice(device: int) -> None:
    """RuntimeError for a negative number or a card that is not there."""
    if device < 0:
        raise RuntimeError("device id must be positive!")
    torch.mlu._lazy_init()
    _core.set_device(device)


def _mlu_exchangeDevice(device: int) -> int:
    if device < 0:
        return -1
    torch.mlu._lazy_init()
    return _core.exchange_device(device)


def _mlu_maybeExchangeDevice(device: int) -> int:
    return -1 if device < 0 else _core.exchange_device(device)


def _mlu_hasPrimaryContext(device: int) -> bool:
    """Whether a card has been used by this process."""
    return (
        _core.touched() and 0 <= device < _core.device_count() and bool(_core.memory_stats(device)["num_device_alloc"])
    )
