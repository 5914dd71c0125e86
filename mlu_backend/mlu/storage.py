"""
Storages on the card: copies, pinned memory, sharing between processes, and how they are saved.

What torch 2.13 does by itself for a device of another vendor is left to it: ``_save`` and its like are here because
torch_mlu has them (there they convert float64 storages, whose memory on the card holds float32; ours holds float64).
"""

from __future__ import annotations

import functools
import struct
import warnings
from typing import Any, TypeVar

import torch
import torch_mlu
from torch.storage import TypedStorage, UntypedStorage, _StorageBase, _warn_typed_storage_removal

__all__ = [
    "INT_SIZE",
    "LONG_SIZE",
    "MAGIC_NUMBER",
    "PROTOCOL_VERSION",
    "SHORT_SIZE",
    "T",
    "apply_storage_patch",
    "torch_64bit_dtypes",
    "typedstorage_to_mlu",
    "unsupported_dtypes",
]

T = TypeVar("T", bound="_StorageBase | TypedStorage")
PROTOCOL_VERSION = 1001
MAGIC_NUMBER = 119547037146038801333356
LONG_SIZE = struct.Struct("=l").size
INT_SIZE = struct.Struct("=i").size
SHORT_SIZE = struct.Struct("=h").size

unsupported_dtypes = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]
torch_64bit_dtypes = [torch.double, torch.cdouble, torch.complex128]

QUANTISED = "Cannot create MLU storage with quantized dtype"


@functools.cache
def _say_once(stacklevel: int) -> None:
    warnings.warn(
        "64-bit storages are computed in 32 bits on MLU: float64 as float32, complex128 as complex64.",
        UserWarning,
        stacklevel=stacklevel + 2,
    )


def _warn_64_bit_typed_storage(stacklevel: int = 2) -> None:
    """Say once that 64-bit numbers are 32-bit ones on the card."""
    _say_once(stacklevel)


def typedstorage_to_mlu(
    self: TypedStorage, device: Any = None, non_blocking: bool = False, **kwargs: Any
) -> TypedStorage:
    """A copy of a typed storage on a card; RuntimeError for a quantised dtype, one warning for a 64-bit one."""
    _warn_typed_storage_removal()
    if self.dtype in unsupported_dtypes:
        raise RuntimeError(QUANTISED)
    if self.dtype in torch_64bit_dtypes:
        _warn_64_bit_typed_storage()
    return self._new_wrapped_storage(self._untyped_storage.mlu(device, non_blocking, **kwargs))


def _cpu(self: TypedStorage) -> TypedStorage:
    """A copy on the CPU, or the storage itself if it is there."""
    _warn_typed_storage_removal()
    return self._new_wrapped_storage(self._untyped_storage.cpu())


def _untyped_storage_copy(self: UntypedStorage, source: Any, non_blocking: Any = None) -> UntypedStorage:
    """Copy ``source`` (an untyped storage of the same size, on the CPU or a card) here."""
    return torch_mlu._MLUC._untyped_storage_copy(self, source, bool(non_blocking))


def _typed_storage_copy(self: TypedStorage, source: TypedStorage, non_blocking: Any = None) -> TypedStorage:
    _warn_typed_storage_removal()
    if isinstance(source, TypedStorage):
        self._untyped_storage.copy_(source._untyped_storage, non_blocking)
    else:
        self._untyped_storage.copy_(source, non_blocking)
    return self


def _typed_storage_init(
    self: TypedStorage,
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    wrap_storage: Any = None,
    _internal: bool = False,
) -> None:
    on_mlu = wrap_storage.device.type == "mlu" if wrap_storage is not None else _names_mlu(device)
    if on_mlu and dtype in unsupported_dtypes:
        raise RuntimeError(QUANTISED)
    if on_mlu and dtype in torch_64bit_dtypes:
        _warn_64_bit_typed_storage()
    _original("TypedStorage.__init__")(
        self, *args, device=device, dtype=dtype, wrap_storage=wrap_storage, _internal=_internal
    )


def _names_mlu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "mlu"


def _is_shared(self: UntypedStorage) -> bool:
    """Whether the memory is shared with other processes; on a card it always can be."""
    return True if self.device.type == "mlu" else _original("UntypedStorage.is_shared")(self)


def _untyped_storage_is_pinned(self: UntypedStorage, device: Any = "mlu") -> bool:
    """Whether the memory is pinned for a card."""
    return _original("UntypedStorage.is_pinned")(self, device)


def _untyped_storage_pin_memory(self: UntypedStorage, device: Any = "mlu") -> UntypedStorage:
    """The storage in memory pinned for a card."""
    return _original("UntypedStorage.pin_memory")(self, device)


def _typed_storage_is_pinned(self: TypedStorage, device: Any = "mlu") -> bool:
    _warn_typed_storage_removal()
    return self._untyped_storage.is_pinned(device)


def _typed_storage_pin_memory(self: TypedStorage, device: Any = "mlu") -> TypedStorage:
    _warn_typed_storage_removal()
    return self._new_wrapped_storage(self._untyped_storage.pin_memory(device=device))


def _share_mlu_(self: UntypedStorage, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """
    What another process needs to open this memory: (card, handle, bytes, offset, counter, counter offset, event, sync).
    """
    return torch_mlu._MLUC._share_mlu_(self, *args, **kwargs)


def _new_shared_mlu(*args: Any, **kwargs: Any) -> UntypedStorage:
    """Open what :func:`_share_mlu_` described in another process."""
    return torch_mlu._MLUC._new_shared_mlu(*args, **kwargs)


def _release_ipc_counter_mlu(*args: Any, **kwargs: Any) -> None:
    """Give back one use of shared memory."""
    return torch_mlu._MLUC._release_ipc_counter_mlu(*args, **kwargs)


def _typed_storage_share_mlu_(self: TypedStorage, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return self._untyped_storage._share_mlu_(*args, **kwargs)


def _typed_storage_new_shared_mlu(*args: Any, **kwargs: Any) -> UntypedStorage:
    return torch.UntypedStorage._new_shared_mlu(*args, **kwargs)


def _typed_storage_release_ipc_counter_mlu(*args: Any, device: Any = "mlu", **kwargs: Any) -> None:
    return torch.UntypedStorage._release_ipc_counter_mlu(*args, **kwargs)


def _save(obj: Any, zip_file: Any, pickle_module: Any, pickle_protocol: int, _disable_byteorder_record: bool) -> None:
    """``torch.serialization._save``."""
    _original("serialization._save")(obj, zip_file, pickle_module, pickle_protocol, _disable_byteorder_record)


def _load(
    zip_file: Any,
    map_location: Any,
    pickle_module: Any,
    pickle_file: str = "data.pkl",
    overall_storage: Any = None,
    **pickle_load_args: Any,
) -> Any:
    """``torch.serialization._load``."""
    return _original("serialization._load")(
        zip_file,
        map_location,
        pickle_module,
        pickle_file=pickle_file,
        overall_storage=overall_storage,
        **pickle_load_args,
    )


def _legacy_save(obj: Any, f: Any, pickle_module: Any, pickle_protocol: int) -> None:
    """``torch.serialization._legacy_save``."""
    _original("serialization._legacy_save")(obj, f, pickle_module, pickle_protocol)


def _legacy_load(f: Any, map_location: Any, pickle_module: Any, **pickle_load_args: Any) -> Any:
    """``torch.serialization._legacy_load``."""
    return _original("serialization._legacy_load")(f, map_location, pickle_module, **pickle_load_args)


def _package_exporter_persistent_id(self: Any, obj: Any) -> Any:
    """``torch.package.PackageExporter._persistent_id``."""
    return _original("PackageExporter._persistent_id")(self, obj)


def _patches() -> dict[str, tuple[Any, str, Any]]:
    """What is replaced: key -> (owner, attribute, replacement)."""
    return {
        "UntypedStorage.is_shared": (UntypedStorage, "is_shared", _is_shared),
        "UntypedStorage.is_pinned": (UntypedStorage, "is_pinned", _untyped_storage_is_pinned),
        "UntypedStorage.pin_memory": (UntypedStorage, "pin_memory", _untyped_storage_pin_memory),
        "UntypedStorage.copy_": (UntypedStorage, "copy_", _untyped_storage_copy),
        "UntypedStorage._share_mlu_": (UntypedStorage, "_share_mlu_", _share_mlu_),
        "UntypedStorage._new_shared_mlu": (UntypedStorage, "_new_shared_mlu", staticmethod(_new_shared_mlu)),
        "UntypedStorage._release_ipc_counter_mlu": (
            UntypedStorage,
            "_release_ipc_counter_mlu",
            staticmethod(_release_ipc_counter_mlu),
        ),
        "TypedStorage.__init__": (TypedStorage, "__init__", _typed_storage_init),
        "TypedStorage.copy_": (TypedStorage, "copy_", _typed_storage_copy),
        "TypedStorage.cpu": (TypedStorage, "cpu", _cpu),
        "TypedStorage.is_pinned": (TypedStorage, "is_pinned", _typed_storage_is_pinned),
        "TypedStorage.pin_memory": (TypedStorage, "pin_memory", _typed_storage_pin_memory),
        "TypedStorage.mlu": (TypedStorage, "mlu", typedstorage_to_mlu),
        "TypedStorage._share_mlu_": (TypedStorage, "_share_mlu_", _typed_storage_share_mlu_),
        "TypedStorage._new_shared_mlu": (TypedStorage, "_new_shared_mlu", staticmethod(_typed_storage_new_shared_mlu)),
        "TypedStorage._release_ipc_counter_mlu": (
            TypedStorage,
            "_release_ipc_counter_mlu",
            staticmethod(_typed_storage_release_ipc_counter_mlu),
        ),
        "serialization._save": (torch.serialization, "_save", _save),
        "serialization._load": (torch.serialization, "_load", _load),
        "serialization._legacy_save": (torch.serialization, "_legacy_save", _legacy_save),
        "serialization._legacy_load": (torch.serialization, "_legacy_load", _legacy_load),
        "PackageExporter._persistent_id": (_package_exporter(), "_persistent_id", _package_exporter_persistent_id),
    }


def _package_exporter() -> Any:
    from torch.package import PackageExporter

    return PackageExporter


def _original(key: str) -> Any:
    return torch_mlu._MLUC._replaced[key]


def apply_storage_patch() -> None:
    """Replace the functions of torch named in ``_patches`` by those above, once a process."""
    kept = torch_mlu._MLUC._replaced
    for key, (owner, name, replacement) in _patches().items():
        if key in kept:
            continue
        kept[key] = getattr(owner, name, None)
        setattr(owner, name, replacement)
