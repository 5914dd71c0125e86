"""
What the C++ extension ``torch_mlu._MLUC`` offers to Python, on top of the emulated device.

Importing it builds (once) and loads the device. Functions keep the names and arguments of the real extension, since
``torch.mlu`` and some programs call them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch


def _load() -> Any:
    try:
        from mlu_backend import core
    except ModuleNotFoundError as error:
        if error.name not in ("mlu_backend", "mlu_backend.core"):
            raise
        # A child that found this folder through PYTHONPATH, on a Python without mlu_backend in its site-packages.
        sys.path.append(str(Path(__file__).resolve().parents[4]))
        from mlu_backend import core
    return core.load()


_core = _load()

# What torch had where we put our own, by name; a second copy of a module (see torch.mlu) has to find the first's
# entries.
_replaced: dict[str, Any] = {}

from torch_mlu._MLUC._allocator import (  # noqa: E402
    _mlu_beginAllocateCurrentStreamToPool,
    _mlu_canDeviceAccessPeer,
    _mlu_changeCurrentAllocator,
    _mlu_checkPoolLiveAllocations,
    _mlu_customAllocator,
    _mlu_emptyCache,
    _mlu_endAllocateCurrentStreamToPool,
    _mlu_getAllocator,
    _mlu_getAllocatorBackend,
    _mlu_getCheckpointState,
    _mlu_ipc_collect,
    _mlu_isHistoryEnabled,
    _mlu_mem_get_info,
    _mlu_memorySnapshot,
    _mlu_memoryStats,
    _mlu_MLUAllocator,
    _mlu_MLUAllocator_AllocatorState,
    _mlu_mluCachingAllocator_raw_alloc,
    _mlu_mluCachingAllocator_raw_delete,
    _mlu_mluCachingAllocator_set_allocator_settings,
    _mlu_record_memory_history,
    _mlu_record_memory_history_legacy,
    _mlu_releasePool,
    _mlu_resetAccumulatedMemoryStats,
    _mlu_resetPeakMemoryStats,
    _mlu_setCheckpointPoolState,
    _mlu_setMemoryFraction,
    _mluHostAllocator,
    _MLUPluggableAllocator,
)
from torch_mlu._MLUC._cards import (  # noqa: E402
    _current_device,
    _get_device_properties,
    _mlu_cardsInMachine,
    _mlu_cardUuids,
    _mlu_exchangeDevice,
    _mlu_getDevice,
    _mlu_getDeviceCount,
    _mlu_hasPrimaryContext,
    _mlu_init,
    _mlu_isInBadFork,
    _mlu_maybeExchangeDevice,
    _mlu_setDevice,
    _MLUDeviceProperties,
)
from torch_mlu._MLUC._graphs import _graph_pool_handle, _mlu_isCurrentStreamCapturing, _MLUGraph  # noqa: E402
from torch_mlu._MLUC._libraries import (  # noqa: E402
    _can_use_flash_attention,
    _can_use_mem_efficient_attention,
    _cncl_version,
    _cnpx,
    _cnrt,
    _dump_cnnl_gencase,
)
from torch_mlu._MLUC._sharing import (  # noqa: E402
    _is_shared,
    _new_shared_mlu,
    _release_ipc_counter_mlu,
    _share_mlu_,
    _untyped_storage_copy,
)
from torch_mlu._MLUC._streams import (  # noqa: E402
    _mlu_getCnclStream,
    _mlu_getCurrentMLUStream,
    _mlu_getCurrentRawStream,
    _mlu_getDefaultStream,
    _mlu_setStream,
    _mlu_sleep,
    _mlu_synchronize,
    _MLUEventBase,
    _MLUStreamBase,
)
from torch_mlu._MLUC._switches import (  # noqa: E402
    _get_cnmatmul_allow_tf32,
    _get_cnnl_allow_tf32,
    _get_mlu_custom_allow_tf32,
    _get_mlufusion_enabled,
    _set_cnmatmul_allow_tf32,
    _set_cnnl_allow_tf32,
    _set_mlu_custom_allow_tf32,
    _set_mlufusion_enabled,
)

_SDPAParams = torch._C._SDPAParams
_SDPBackend = torch._C._SDPBackend


class _c10d_mlu:
    """DDP's reducer and its logger; torch's own work on the device."""

    if torch.distributed.is_available():
        Reducer = torch.distributed.Reducer
        Logger = torch.distributed.Logger


def mlu(
    tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, *, memory_format: Any = None
) -> torch.Tensor:
    """A copy of ``tensor`` on a card, or itself when it is there."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tensor.mlu(device, non_blocking, **options)


def __instancecheck__(tensor_type: type, instance: object) -> bool:
    """Whether a tensor is of a legacy type such as ``torch.mlu.FloatTensor``."""
    return isinstance(instance, tensor_type)


def _initExtension(module: Any) -> None:
    """Give ``torch.mlu`` what needs an initialised device: the default generators."""
    module.default_generators = tuple(_core.default_generator(card) for card in range(_core.device_count()))


def _get_version() -> str:
    from mlu_backend.surface import release

    return f"{release().torch_mlu}+torch{torch.__version__.partition('+')[0]}"


def _git_version() -> str:
    from mlu_backend.surface import release

    return release().commit


def __getattr__(name: str) -> Any:
    """``ProcessGroupCNCL`` is compiled when first asked for: a program on one card never needs it."""
    if name == "ProcessGroupCNCL":
        from mlu_backend import distributed

        return distributed.extension().ProcessGroupCNCL
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _settings_from_environment() -> None:
    if os.environ.get("PYTORCH_NO_MLU_MEMORY_CACHING", os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0")) != "0":
        _core.set_caching(False)


_settings_from_environment()
