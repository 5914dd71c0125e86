"""
Streams and events.

Work on the emulated card is done when the call returns, so streams order nothing; what is kept is what a program can
see: which stream is current, identities and priorities, and the times events were recorded at.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
import torch_mlu

from ._utils import _get_device_index  # noqa: F401

__all__ = ["Event", "ExternalStream", "Stream"]


class Stream(torch_mlu._MLUC._MLUStreamBase):
    """
    A queue of work on one card.

    ``device``: a card (default: the current one). ``priority``: 0 (lowest) down to -3; a positive one raises.
    There are 32 streams per card and priority, after which they are handed out again
    (torch_mlu/csrc/framework/core/MLUStream.cpp:41-42).
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if device is None or ("stream_id" in kwargs and "device_index" in kwargs):
            return super().__new__(cls, priority=priority, **kwargs)
        with torch.mlu.device(device):
            return super().__new__(cls, priority=priority, **kwargs)

    def wait_event(self, event: Event) -> None:
        """Later work on this stream waits for ``event``."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work on this stream waits for what ``stream`` has been given so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event`` (default: a new one) here and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work given to this stream is done."""
        return super().query()

    def synchronize(self) -> None:
        """Wait until all work given to this stream is done."""
        super().synchronize()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.mlu_stream)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) if isinstance(other, Stream) else False

    def __hash__(self) -> int:
        return hash((self.mlu_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.mlu.Stream device={self.device} mlu_stream={self.mlu_stream:#x}>"


class ExternalStream(Stream):
    """A stream made outside torch, named by the address of its queue. Its owner keeps it alive."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> ExternalStream:
        with torch.mlu.device(device):
            return super().__new__(cls, stream_ptr=stream_ptr, **kwargs)


class Event(torch_mlu._MLUC._MLUEventBase):
    """
    A point in a stream's work.

    ``enable_timing``: keep the time, for :meth:`elapsed_time`. ``blocking``: wait without spinning. ``interprocess``:
    may be sent to another process (and then keeps no time).
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        return super().__new__(cls, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """The event another process described with :meth:`ipc_handle`."""
        return super().from_ipc_handle(device, handle)

    def record(self, stream: Stream | None = None) -> None:
        """Record here in ``stream`` (default: the current one)."""
        super().record(torch.mlu.current_stream() if stream is None else stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work on ``stream`` (default: the current one) waits for this event."""
        super().wait(torch.mlu.current_stream() if stream is None else stream)

    def query(self) -> bool:
        """Whether the work recorded so far is done."""
        return super().query()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to ``end_event``."""
        return super().elapsed_time(end_event)

    def hardware_time(self, end_event: Event) -> float:
        """Microseconds the card took from this event to ``end_event``."""
        return super().hardware_time(end_event)

    def synchronize(self) -> None:
        """Wait until the work recorded so far is done."""
        super().synchronize()

    def ipc_handle(self) -> bytes:
        """What another process needs for :meth:`from_ipc_handle`."""
        return super().ipc_handle()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.mlu_event)

    def __repr__(self) -> str:
        return (
            f"<torch.mlu.Event {self._as_parameter_.value:#x}>" if self.mlu_event else "<torch.mlu.Event uninitialized>"
        )
