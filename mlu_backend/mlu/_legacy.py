"""
Legacy classes: storages such as ``torch.mlu.FloatStorage`` and tensor types such as ``torch.mlu.FloatTensor``.

Tensor types are no subclasses of Tensor: calling one makes a tensor, ``isinstance`` asks for device and dtype, and the
type's full name is what ``Tensor.type()`` says, so that it can be given to ``Tensor.type(...)`` as well.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._utils import classproperty
from torch.storage import TypedStorage, _LegacyStorage, _warn_typed_storage_removal

DTYPES = {
    "Byte": torch.uint8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Bool": torch.bool,
    "BFloat16": torch.bfloat16,
    "ComplexDouble": torch.complex128,
    "ComplexFloat": torch.complex64,
}
TENSORS = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")


class _MluLegacyStorage(_LegacyStorage):
    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        _warn_typed_storage_removal()
        raise RuntimeError("from_buffer: Not available for MLU storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        raise RuntimeError("_new_with_weak_ptr: Not available for MLU storage")

    @classmethod
    def _new_shared_filename(cls, manager: Any, obj: Any, size: Any, *, device: Any = None, dtype: Any = None) -> Any:
        raise RuntimeError("_new_shared_filename: Not available for MLU storage")


def storage_class(name: str, dtype: torch.dtype, module: str) -> type[_MluLegacyStorage]:
    """``torch.mlu.<name>Storage``."""

    def public(self: Any) -> torch.dtype:
        _warn_typed_storage_removal()
        return self._dtype

    def private(self: Any) -> torch.dtype:
        return dtype

    # The metaclass of legacy storages asks the class for its dtype, hence the class-level property.
    body = {"dtype": classproperty(public), "_dtype": classproperty(private), "__module__": module}
    return type(f"{name}Storage", (_MluLegacyStorage,), body)


class _TensorType(type):
    """The type of ``torch.mlu.FloatTensor`` and its like."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and instance.device.type == "mlu" and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not torch.mlu.is_available():
            name = cls.__name__.rpartition(".")[2]
            raise TypeError(f"type torch.mlu.{name} not available. Torch not compiled with MLU enabled.")
        return _construct(cls.dtype, args, kwargs)

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"


def _construct(dtype: torch.dtype, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """
    As ``torch.FloatTensor`` reads its arguments: nothing, sizes, a tensor, a storage or data; ``device`` must be mlu.
    """
    device = torch.device(kwargs.pop("device", None) or "mlu")
    if device.type != "mlu":
        raise RuntimeError(f"legacy constructor expects device type: mlu but device type: {device.type} was passed")
    if kwargs:
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(kwargs))}")
    if all(isinstance(arg, int) and not isinstance(arg, bool) for arg in args):
        return torch.empty(args or (0,), dtype=dtype, device=device)
    if len(args) != 1:
        raise TypeError("expected sizes, or one tensor, storage or sequence")
    (only,) = args
    if isinstance(only, torch.Size):
        return torch.empty(tuple(only), dtype=dtype, device=device)
    if isinstance(only, (torch.UntypedStorage, torch.TypedStorage)):
        return torch.empty(0, dtype=dtype, device=device).set_(only)
    if isinstance(only, torch.Tensor):
        if only.dtype is not dtype or only.device.type != "mlu":
            raise TypeError(f"expected a torch.mlu tensor of {dtype} (got {only.type()})")
        return only.detach()
    return torch.tensor(only, dtype=dtype, device=device)


def tensor_type(name: str, dtype: torch.dtype) -> type:
    """``torch.mlu.<name>Tensor``."""
    return _TensorType(
        f"torch.mlu.{name}Tensor",
        (),
        {"dtype": dtype, "is_sparse": False, "layout": torch.strided, "__module__": "torch.mlu"},
    )
