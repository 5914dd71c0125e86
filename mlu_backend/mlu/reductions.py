"""
How tensors, storages and events travel to another process.

A storage's memory is moved to a shared-memory file on first use, in place: every tensor over it keeps its identity, and
the other process maps the same pages, as the IPC handle of a card would let it.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch_mlu
from torch.multiprocessing import reductions
from torch.multiprocessing.reductions import StorageWeakRef, shared_cache, storage_from_cache

__all__ = ["apply_reductions_patch", "rebuild_event_mlu", "rebuild_mlu_tensor", "reduce_event_mlu"]


def reduce_event_mlu(event: Any) -> tuple[Any, ...]:
    return rebuild_event_mlu, (event.device, event.ipc_handle())


def rebuild_event_mlu(device: Any, handle: bytes) -> Any:
    return torch.mlu.Event.from_ipc_handle(device, handle)


def rebuild_mlu_tensor(
    tensor_cls: Any,
    tensor_size: Any,
    tensor_stride: Any,
    tensor_offset: int,
    storage_cls: Any,
    dtype: torch.dtype,
    storage_device: int,
    storage_handle: Any,
    storage_size_bytes: int,
    storage_offset_bytes: int,
    requires_grad: bool,
    ref_counter_handle: Any,
    ref_counter_offset: int,
    event_handle: Any,
    event_sync_required: bool,
) -> torch.Tensor:
    """The tensor another process described; memory that is open here already is used again."""
    if storage_handle is None or storage_size_bytes == 0:
        storage = torch.UntypedStorage(0, device=torch.device("mlu", storage_device))
    else:
        storage = storage_from_cache(torch.UntypedStorage, (storage_handle, storage_offset_bytes))
        if storage is None:
            torch.mlu._lazy_init()
            storage = torch.UntypedStorage._new_shared_mlu(
                storage_device,
                storage_handle,
                storage_size_bytes,
                storage_offset_bytes,
                ref_counter_handle,
                ref_counter_offset,
                event_handle,
                event_sync_required,
            )
            shared_cache[(storage_handle, storage_offset_bytes)] = StorageWeakRef(storage)
        else:
            torch.UntypedStorage._release_ipc_counter_mlu(ref_counter_handle, ref_counter_offset)
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, tensor_offset, tensor_size, tensor_stride)
    if tensor_cls is torch.nn.parameter.Parameter:
        return torch.nn.parameter.Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


def _reduce_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    """As ``torch.multiprocessing.reductions.reduce_tensor``, for dense tensors on a card too."""
    if tensor.device.type != "mlu" or tensor.layout is not torch.strided or tensor.is_nested:
        return torch_mlu._MLUC._replaced["reductions.reduce_tensor"](tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    torch.utils.hooks.warn_if_has_hooks(tensor)
    storage = tensor.untyped_storage()
    device, handle, size, offset, counter, counter_offset, event, sync = storage._share_mlu_()
    shared_cache[(handle, offset)] = StorageWeakRef(storage)
    return (
        rebuild_mlu_tensor,
        (
            type(tensor),
            tensor.size(),
            tensor.stride(),
            tensor.storage_offset(),
            torch.storage.TypedStorage,
            tensor.dtype,
            device,
            handle,
            size,
            offset,
            tensor.requires_grad,
            counter,
            counter_offset,
            event,
            sync,
        ),
    )


def _reduce_storage(storage: Any) -> tuple[Any, ...]:
    """As ``torch.multiprocessing.reductions.reduce_storage``; a storage on a card travels inside a tensor only."""
    if storage.device.type == "mlu":
        raise RuntimeError("Cannot pickle MLU storage; try pickling a MLU tensor instead")
    return torch_mlu._MLUC._replaced["reductions.reduce_storage"](storage)


def apply_reductions_patch() -> None:
    """Make torch.multiprocessing use the functions above, once a process."""
    kept = torch_mlu._MLUC._replaced
    if "reductions.reduce_tensor" in kept:
        return
    kept["reductions.reduce_tensor"] = reductions.reduce_tensor
    kept["reductions.reduce_storage"] = reductions.reduce_storage
    reductions.reduce_tensor = _reduce_tensor
    reductions.reduce_storage = _reduce_storage
    ForkingPickler.register(torch.mlu.Event, reduce_event_mlu)
    for cls in torch._tensor_classes:
        ForkingPickler.register(cls, _reduce_tensor)
    ForkingPickler.register(torch.Tensor, _reduce_tensor)
    ForkingPickler.register(torch.nn.parameter.Parameter, _reduce_tensor)
    for cls in torch._storage_classes:
        if cls.__name__ == "UntypedStorage":
            ForkingPickler.register(cls, _reduce_storage)
        else:
            ForkingPickler.register(cls, reductions.reduce_typed_storage_child)
    ForkingPickler.register(torch.storage.TypedStorage, reductions.reduce_typed_storage)
