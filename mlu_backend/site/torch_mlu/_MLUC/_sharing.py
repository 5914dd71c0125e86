"""
Storages between processes.

The first time a storage is sent, its contents move to a shared-memory file and every tensor over it follows. The handle
is the file's name; the file goes away when the last process lets go.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_mlu._MLUC import _core

# Storages that live in shared memory, by the address of their StorageImpl: the host storage that owns the file.
_shared: dict[int, tuple[Any, torch.UntypedStorage]] = {}


def _bytes_over(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def forget_dead() -> None:
    """Drop what is kept for storages that no longer exist."""
    from torch.multiprocessing.reductions import StorageWeakRef

    for key in [key for key, (reference, _) in _shared.items() if StorageWeakRef.expired(reference)]:
        del _shared[key]


def _host_of(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """The shared host memory under ``storage``, which moves there if it is not."""
    from torch.multiprocessing.reductions import StorageWeakRef

    forget_dead()
    known = _shared.get(storage._cdata)
    if known is not None:
        return known[1]
    host = torch.UntypedStorage._new_using_filename_cpu(storage.nbytes())
    torch.ops.mlu_backend.move_storage(_bytes_over(storage), torch.empty(0, dtype=torch.uint8).set_(host))
    _shared[storage._cdata] = (StorageWeakRef(storage), host)
    return host


def _share_mlu_(storage: torch.UntypedStorage) -> tuple[Any, ...]:
    """(card, handle, bytes, offset, counter handle, counter offset, notifier handle, whether to wait for it)."""
    if storage.device.type != "mlu":
        raise RuntimeError("_share_mlu_: only available on MLU")
    if storage.nbytes() == 0:
        return storage.device.index, None, 0, 0, b"", 0, b"", False
    _core.base_allocation(storage.data_ptr())  # a pluggable allocator is asked, as on the card
    manager, handle, size = _host_of(storage)._share_filename_cpu_()
    return storage.device.index, (bytes(manager), bytes(handle)), size, 0, b"", 0, b"", False


def _new_shared_mlu(
    device: int,
    handle: tuple[bytes, bytes],
    size: int,
    offset: int,
    ref_counter_handle: bytes,
    ref_counter_offset: int,
    event_handle: bytes,
    event_sync_required: bool,
) -> torch.UntypedStorage:
    """Open what ``_share_mlu_`` of another process described, on the same card."""
    from torch.multiprocessing.reductions import StorageWeakRef

    host = torch.UntypedStorage._new_shared_filename_cpu(*handle, size)
    storage = torch.ops.mlu_backend.adopt(torch.empty(0, dtype=torch.uint8).set_(host), device).untyped_storage()
    _shared[storage._cdata] = (StorageWeakRef(storage), host)
    return storage


def _release_ipc_counter_mlu(*args: Any, **kwargs: Any) -> None:
    """The shared-memory file counts its users itself."""


def _is_shared(storage: torch.UntypedStorage) -> bool:
    """Whether the storage lives in shared memory now."""
    return storage._cdata in _shared


def _untyped_storage_copy(destination: torch.UntypedStorage, source: Any, non_blocking: bool) -> torch.UntypedStorage:
    """Copy bytes between storages of equal size, whichever device they are on."""
    if isinstance(source, torch.storage.TypedStorage):
        source = source._untyped_storage
    from torch_mlu import _MLUC

    plain = _MLUC._replaced.get("UntypedStorage.copy_", torch.UntypedStorage.copy_)
    if "mlu" not in (destination.device.type, source.device.type):
        return plain(destination, source, non_blocking)
    if destination.nbytes() != source.nbytes():
        raise RuntimeError("size does not match")
    if destination.nbytes():
        _bytes_over(destination).copy_(_bytes_over(source), non_blocking)
    return destination
