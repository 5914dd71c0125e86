"""
``torch.mlu``: the cards as a program sees them.

This package is loaded as ``torch_mlu.mlu`` and registered as ``torch.mlu`` as well. Its submodules exist once under
each name, as with the real one: ``from torch.mlu.amp import GradScaler`` loads a second copy
(torch_mlu/__init__.py:61).
"""

from __future__ import annotations

import threading
import traceback
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Union

import torch
import torch_mlu
from torch.types import Device as _Device

from . import _legacy, _visible
from ._utils import _get_device_index

_MLUC = torch_mlu._MLUC
_cnrt = _MLUC._cnrt

_initialized = False
_tls = threading.local()
_initialization_lock = threading.Lock()
_queued_calls: list[tuple[Callable[[], None], list[str]]] = []
_is_in_bad_fork = getattr(_MLUC, "_mlu_isInBadFork", lambda: False)

OutOfMemoryError = torch._C.OutOfMemoryError


class _LazySeedTracker:
    """Keeps the last seeding apart from other queued calls, so that of two seedings only the later one runs."""

    def __init__(self) -> None:
        self.manual_seed_all_cb: Any = None
        self.manual_seed_cb: Any = None
        self.call_order: list[Any] = []

    def queue_seed_all(self, cb: Any, traceback: list[str]) -> None:
        self.manual_seed_all_cb = (cb, traceback)
        self.call_order = [self.manual_seed_cb, self.manual_seed_all_cb]

    def queue_seed(self, cb: Any, traceback: list[str]) -> None:
        self.manual_seed_cb = (cb, traceback)
        self.call_order = [self.manual_seed_all_cb, self.manual_seed_cb]

    def get_calls(self) -> list[Any]:
        return self.call_order


_lazy_seed_tracker = _LazySeedTracker()


def _exchange_device(device: int) -> int:
    """Make ``device`` current and return the one before; -1 does nothing and returns -1."""
    return -1 if device < 0 else _MLUC._mlu_exchangeDevice(device)


def _maybe_exchange_device(device: int) -> int:
    """As :func:`_exchange_device`, without initialising a card that has not been used."""
    return -1 if device < 0 else _MLUC._mlu_maybeExchangeDevice(device)


def _is_compiled() -> bool:
    return hasattr(_MLUC, "_mlu_getDeviceCount")


def init() -> None:
    """Initialise the device. Happens by itself on first use."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether the device is initialised in this process (a forked child starts without)."""
    return _initialized and not _is_in_bad_fork()


def _lazy_call(callable: Callable[[], None], **kwargs: Any) -> None:
    """Call now if the device is initialised, else when it will be."""
    if is_initialized():
        callable()
        return
    origin = traceback.format_stack()
    if kwargs.get("seed_all", False):
        _lazy_seed_tracker.queue_seed_all(callable, origin)
    elif kwargs.get("seed", False):
        _lazy_seed_tracker.queue_seed(callable, origin)
    else:
        _queued_calls.append((callable, origin))


def _lazy_init() -> None:
    global _initialized
    if is_initialized() or hasattr(_tls, "is_initializing"):
        return
    with _initialization_lock:
        if is_initialized():
            return
        if _is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize MLU in forked subprocess. To use MLU with "
                "multiprocessing, you must use the 'spawn' start method"
            )
        _MLUC._mlu_init()
        # Queued calls may themselves call _lazy_init, in this thread.
        _tls.is_initializing = True
        _queued_calls.extend(call for call in _lazy_seed_tracker.get_calls() if call)
        try:
            for queued_call, _ in _queued_calls:
                try:
                    queued_call()
                except Exception:
                    # As the real one, which builds a message here and never raises it
                    # (torch_mlu/mlu/__init__.py:148-153).
                    pass
        finally:
            del _tls.is_initializing
        _initialized = True


class _DeviceGuard:
    """Make one card, given by number, current for a block."""

    def __init__(self, index: int) -> None:
        self.idx = index
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> bool:
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


class device(_DeviceGuard):
    """Make a card current for a block; does nothing for a negative number or None."""

    def __init__(self, device: Any) -> None:
        super().__init__(_get_device_index(device, optional=True))


Device = device
_device_t = Union[_Device, str, int, None]  # noqa: UP007


def set_device(device: Any) -> None:
    """Make a card current. Does nothing for a negative number."""
    index = _get_device_index(device)
    if index >= 0:
        _MLUC._mlu_setDevice(index)


def current_device() -> int:
    """The number of the current card."""
    _lazy_init()
    return _MLUC._mlu_getDevice()


def get_device_properties(device: Any) -> Any:
    """Name, version, size of a card. The argument is needed; AssertionError "Invalid device id" for a bad one."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    if index < 0 or index >= device_count():
        raise AssertionError("Invalid device id")
    return _MLUC._get_device_properties(index)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Major and minor version: 3 for an MLU370, 5 for an MLU5xx."""
    properties = get_device_properties(_get_device_index(device, optional=True))
    return properties.major, properties.minor


def get_device_name(device: Any = None) -> str:
    """The name of a card; may carry a suffix."""
    return get_device_properties(_get_device_index(device, optional=True)).name


def supports_linear_memory(device: Any = None) -> bool:
    """Whether the card can map memory linearly."""
    return get_device_properties(_get_device_index(device, optional=True)).supports_linear_memory


def synchronize(device: Any = None) -> None:
    """Wait for all work of a card."""
    _lazy_init()
    with torch.mlu.device(device):
        return _MLUC._mlu_synchronize()


class device_of(device):
    """Make the card of a tensor or storage current for a block; does nothing for one that is elsewhere."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_mlu else -1)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a card can read another's memory."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    peer = _get_device_index(peer_device)
    if index < 0 or index >= device_count():
        raise AssertionError("Invalid device id")
    if peer < 0 or peer >= device_count():
        raise AssertionError("Invalid peer device id")
    return _MLUC._mlu_canDeviceAccessPeer(index, peer)


# Filled by _MLUC._mlu_init, one generator a card.
default_generators: tuple[torch._C.Generator, ...] = ()


def cnrt() -> Any:
    """The run-time library, as far as torch_mlu binds it: the counterpart of ``torch.cuda.cudart()``."""
    _lazy_init()
    return _cnrt


class CnrtError(RuntimeError):
    """A call of the run-time library failed; the text names code and reason."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{_cnrt.mluGetErrorStr(code)} ({code})")


def check_error(res: int) -> None:
    """Raise CnrtError unless ``res`` is 0."""
    if res != 0:
        raise CnrtError(res)


def _parse_visible_devices() -> list[int] | list[str]:
    """Cards the environment lets this process see: ordinals or UUIDs."""
    return _visible.parse_visible_devices(_visible.visible_setting(), 64)


def _raw_device_count_cndev() -> int:
    """Cards in the machine, hidden ones too; negative when the management library is missing."""
    return _MLUC._mlu_cardsInMachine()


def _transform_uuid_to_ordinals(candidates: list[str], uuids: list[str]) -> list[int]:
    return _visible.uuids_to_ordinals(candidates, uuids)


def _raw_device_uuid_cndev() -> list[str] | None:
    """UUIDs of the cards in the machine."""
    return _MLUC._mlu_cardUuids()


def _device_count_cndev() -> int:
    """Cards this process may use, without initialising anything; negative when that cannot be told."""
    visible = _parse_visible_devices()
    if not visible:
        return 0
    if isinstance(visible[0], str):
        uuids = _raw_device_uuid_cndev()
        return -1 if uuids is None else len(_transform_uuid_to_ordinals(visible, uuids))  # type: ignore[arg-type]
    raw = _raw_device_count_cndev()
    if raw <= 0:
        return raw
    for position, ordinal in enumerate(visible):
        if ordinal >= raw:  # type: ignore[operator]
            return position
    return len(visible)


_cached_device_count: int | None = None


def device_count() -> int:
    """Cards this process may use."""
    global _cached_device_count
    if not _is_compiled():
        return 0
    if _cached_device_count is not None:
        return _cached_device_count
    if _initialized:
        _cached_device_count = _MLUC._mlu_getDeviceCount()
        return _cached_device_count
    # Before initialisation the environment may still change.
    count = _device_count_cndev()
    return _MLUC._mlu_getDeviceCount() if count < 0 else count


def _cndev_based_avail() -> bool:
    import os

    names = ("PYTORCH_CNDEV_BASED_MLU_CHECK", "PYTORCH_NVML_BASED_CUDA_CHECK")
    return next((os.environ[name] for name in names if name in os.environ), None) == "1"


def is_available() -> bool:
    """Whether there is a card to use."""
    if not _is_compiled():
        return False
    if _cndev_based_avail():
        return device_count() > 0
    return _MLUC._mlu_getDeviceCount() > 0


def is_bf16_supported() -> bool:
    """Major version 5 and up (torch_mlu/mlu/__init__.py:535). Needs a card."""
    return get_device_properties(current_device()).major >= 5


def is_fp8_supported(including_emulation: bool = True) -> bool:
    """Major version 6 and up; the argument is ignored (torch_mlu/mlu/__init__.py:539). Needs a card."""
    return get_device_properties(current_device()).major >= 6


def _sleep(cycles: int) -> None:
    """Keep the current stream busy for so many cycles."""
    _MLUC._mlu_sleep(cycles)


def ipc_collect() -> None:
    """Free memory that other processes gave back."""
    _lazy_init()
    return _MLUC._mlu_ipc_collect()


def current_stream(device: Any = None) -> Stream:
    """The stream that work on a card is given to now."""
    _lazy_init()
    stream_id, index, kind = _MLUC._mlu_getCurrentMLUStream(_get_device_index(device, optional=True))
    return Stream(stream_id=stream_id, device_index=index, device_type=kind)


def default_stream(device: Any = None) -> Stream:
    """The stream a card begins with."""
    _lazy_init()
    stream_id, index, kind = _MLUC._mlu_getDefaultStream(_get_device_index(device, optional=True))
    return Stream(stream_id=stream_id, device_index=index, device_type=kind)


StreamInfo = namedtuple("StreamInfo", ["cncl_stream", "clique_id"])


def cncl_stream(device: Any = None) -> list[Any]:
    """The streams collectives run on, one ``StreamInfo`` for each communicator of a card."""
    _lazy_init()
    found = _MLUC._mlu_getCnclStream(_get_device_index(device, optional=True))
    return [
        StreamInfo(Stream(stream_id=stream_id, device_index=index, device_type=kind), clique_id)
        for stream_id, index, kind, clique_id in found
    ]


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    _MLUC._mlu_setStream(stream_id=stream_id, device_index=device_index, device_type=device_type)


def set_stream(stream: Stream | None) -> None:
    """Make a stream current, and its card. Does nothing for None."""
    if stream is None:
        return
    _lazy_init()
    _set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)


class StreamContext:
    """
    Make a stream current for a block; does nothing for None. A stream of another card makes that card current too.
    """

    cur_stream: Stream | None = None

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.idx = _get_device_index(None, True)
        self.src_prev_stream = None if not torch.jit.is_scripting() else torch.mlu.default_stream(None)
        self.dst_prev_stream = None if not torch.jit.is_scripting() else torch.mlu.default_stream(None)

    def __enter__(self) -> None:
        current = self.stream
        if current is None or self.idx == -1:
            return
        self.src_prev_stream = torch.mlu.current_stream(None)
        if self.src_prev_stream.device != current.device:
            with device(current.device):
                self.dst_prev_stream = torch.mlu.current_stream(current.device)
        torch.mlu.set_stream(current)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        current = self.stream
        if current is None or self.idx == -1:
            return
        if self.src_prev_stream.device != current.device:
            torch.mlu.set_stream(self.dst_prev_stream)
        torch.mlu.set_stream(self.src_prev_stream)


def stream(stream: Stream | None) -> StreamContext:
    """Make a stream current for a block."""
    return StreamContext(stream)


# Legacy classes come from a table; their names are listed in _legacy.
_mlu_storage_classes = {_legacy.storage_class(name, dtype, __name__) for name, dtype in _legacy.DTYPES.items()}
globals().update({cls.__name__: cls for cls in _mlu_storage_classes})
globals().update({f"{name}Tensor": _legacy.tensor_type(name, _legacy.DTYPES[name]) for name in _legacy.TENSORS})
torch._storage_classes.update(_mlu_storage_classes)

# These import names from above, hence last.
from . import amp, autocast_utils, cncl, cnpx, graphs, memory, profiler, random, reductions, storage, streams  # noqa: E402
from .autocast_utils import (  # noqa: E402
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .cncl import *  # noqa: E402, F403
from .graphs import MLUGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables  # noqa: E402
from .memory import *  # noqa: E402, F403
from .random import *  # noqa: E402, F403
from .reductions import apply_reductions_patch  # noqa: E402
from .storage import *  # noqa: E402, F403
from .streams import Event, ExternalStream, Stream  # noqa: E402
