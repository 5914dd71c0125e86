"""Streams and events of the C++ layer."""

from __future__ import annotations

import time
from typing import Any

import torch

from torch_mlu import _MLUC

_core = _MLUC._core
PRIVATE_USE_1 = torch._C._autograd.DeviceType.PrivateUse1.value
LOWEST, HIGHEST = 0, -3
FIRST_EXTERNAL = 1 << 32

# Streams from outside, by number; their handle is the address their owner gave.
_external: dict[int, int] = {}


def _refuse_capture(what: str) -> None:
    from torch_mlu._MLUC._graphs import capturing_here

    if capturing_here():
        raise RuntimeError(f"CNRT error: operation not permitted while a queue is capturing ({what})")


class _MLUStreamBase(torch.Stream):
    """A queue. The number is torch's ``stream_id``; ``mlu_stream`` is the address of the queue."""

    def __new__(
        cls,
        priority: int | None = None,
        stream_id: int | None = None,
        device_index: int = 0,
        device_type: int = 0,
        stream_ptr: int = 0,
        **kwargs: Any,
    ) -> _MLUStreamBase:
        if kwargs:
            raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(kwargs))}")
        torch.mlu._lazy_init()
        if stream_id is None:
            device_index = _core.current_device()
            if stream_ptr:
                if priority:
                    raise RuntimeError("Priority was explicitly set for a external stream")
                stream_id = _external_number(stream_ptr)
            else:
                stream_id = _core.new_stream(device_index, priority or 0)
        return super().__new__(cls, stream_id=stream_id, device_index=device_index, device_type=PRIVATE_USE_1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @property
    def mlu_stream(self) -> int:
        return _external.get(self.stream_id) or _core.stream_handle(self.device_index, self.stream_id)

    @property
    def priority(self) -> int:
        return _core.stream_priority(self.stream_id)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority."""
        return LOWEST, HIGHEST

    def query(self) -> bool:
        _refuse_capture("queue query")
        return True

    def synchronize(self) -> None:
        _refuse_capture("queue synchronisation")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _MLUStreamBase)
            and self.stream_id == other.stream_id
            and self.device_index == other.device_index
        )

    def __hash__(self) -> int:
        return hash((self.mlu_stream, self.device))


def _external_number(pointer: int) -> int:
    for number, known in _external.items():
        if known == pointer:
            return number
    number = FIRST_EXTERNAL + len(_external)
    _external[number] = pointer
    return number


class _MLUEventBase(torch.Event):
    """A notifier: the time it was placed at, when it keeps one, and its device."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> _MLUEventBase:
        # With interprocess the notifier keeps no time (torch_mlu/csrc/python/Event.cpp:39-45).
        self = super().__new__(cls, device="mlu", enable_timing=enable_timing and not interprocess, blocking=blocking)
        self._timed = enable_timing and not interprocess
        self._interprocess = interprocess
        self._device: torch.device | None = None
        self._time_ns: int | None = None
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> _MLUEventBase:
        """The other process's work is done by the time the handle can arrive, so the event is a finished one."""
        if not isinstance(handle, bytes) or not handle.startswith(HANDLE_MARK):
            raise RuntimeError("CNRT error: invalid notifier handle")
        event = cls.__new__(cls, interprocess=True)
        event._device = torch.device(device)
        event._time_ns = int.from_bytes(handle[len(HANDLE_MARK) : len(HANDLE_MARK) + 8], "little")
        return event

    @property
    def device(self) -> torch.device | None:
        return self._device

    @property
    def mlu_event(self) -> int:
        """The notifier's address; 0 until it is placed."""
        return 0 if self._time_ns is None else id(self)

    def record(self, stream: _MLUStreamBase) -> None:
        if self._device is not None and self._device != stream.device:
            raise RuntimeError(
                f"Event device {self._device.index} does not match recording stream's device {stream.device.index}."
            )
        super().record(stream)
        self._device = stream.device
        self._time_ns = _core.now_ns()

    def wait(self, stream: _MLUStreamBase) -> None:
        """Everything recorded is done already."""

    def query(self) -> bool:
        _refuse_capture("notifier query")
        return True

    def synchronize(self) -> None:
        _refuse_capture("notifier synchronisation")

    def _nanoseconds_to(self, end: _MLUEventBase, what: str) -> int:
        if self._time_ns is None or end._time_ns is None:
            raise RuntimeError(f"Both notifiers must be placed before calculating {what}.")
        if not (self._timed and end._timed):
            raise RuntimeError("CNRT error: the notifiers were created with timing disabled")
        return end._time_ns - self._time_ns

    def elapsed_time(self, end_event: _MLUEventBase) -> float:
        return self._nanoseconds_to(end_event, "elapsed time") / 1e6

    def hardware_time(self, end_event: _MLUEventBase) -> float:
        return self._nanoseconds_to(end_event, "hardware time") / 1e3

    def ipc_handle(self) -> bytes:
        if not self._interprocess:
            raise RuntimeError("CNRT error: the notifier was not created for use between processes")
        placed = 0 if self._time_ns is None else self._time_ns
        return (HANDLE_MARK + placed.to_bytes(8, "little")).ljust(64, b"\0")


HANDLE_MARK = b"mlu-emulator-notifier"


def _mlu_getCurrentMLUStream(device: int) -> tuple[int, int, int]:
    index = _core.current_device() if device < 0 else device
    return _core.current_stream(index), index, PRIVATE_USE_1


def _mlu_getCurrentRawStream(device: int) -> int:
    """The address of a card's current queue."""
    number = _core.current_stream(device)
    return _external.get(number) or _core.stream_handle(device, number)


def _mlu_getDefaultStream(device: int) -> tuple[int, int, int]:
    return 0, _core.current_device() if device < 0 else device, PRIVATE_USE_1


def _mlu_getCnclStream(device: int) -> list[tuple[int, int, int, int]]:
    """(stream, card, device type, communicator) for each communicator of a card."""
    from mlu_backend import distributed

    streams = getattr(distributed, "streams", None)
    return [] if streams is None else [(number, device, PRIVATE_USE_1, clique) for number, clique in streams(device)]


def _mlu_setStream(stream_id: int, device_index: int, device_type: int) -> None:
    if device_type not in (PRIVATE_USE_1, 0):
        raise RuntimeError(f"not a stream of an MLU: device type {device_type}")
    _core.exchange_device(device_index)
    _core.exchange_stream(device_index, stream_id)


def _mlu_synchronize() -> None:
    _refuse_capture("device synchronisation")


def _mlu_sleep(cycles: int) -> None:
    """The emulated clock runs at 1 GHz."""
    time.sleep(max(cycles, 0) / 1e9)
