"""Tensor types and storages from the time before dtypes."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_mlu  # noqa: F401

TYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


@pytest.mark.parametrize(("name", "dtype"), TYPES.items())
def test_a_type_makes_and_recognises_its_tensors(name: str, dtype: torch.dtype) -> None:
    kind = getattr(torch.mlu, name)
    made = kind(2, 3)
    assert (made.shape, made.dtype, made.device.type) == ((2, 3), dtype, "mlu")
    assert made.type() == f"torch.mlu.{name}"
    assert isinstance(made, kind) and not isinstance(made.cpu(), kind)
    assert not isinstance(made, getattr(torch, name))


def test_constructors_take_data_sizes_and_nothing() -> None:
    assert torch.mlu.FloatTensor([1, 2]).tolist() == [1.0, 2.0]
    assert torch.mlu.LongTensor().shape == (0,)
    assert torch.mlu.FloatTensor(torch.Size([2, 2])).shape == (2, 2)
    x = torch.mlu.IntTensor([3])
    assert torch.mlu.IntTensor(x).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError):
        torch.mlu.IntTensor(torch.ones(1))
    with pytest.raises(RuntimeError, match="legacy constructor expects device type: mlu"):
        torch.mlu.FloatTensor(2, device="cpu")


def test_type_converts_by_name_and_by_class() -> None:
    x = torch.ones(2)
    assert x.type("torch.mlu.HalfTensor").type() == "torch.mlu.HalfTensor"
    assert x.type(torch.mlu.LongTensor).type() == "torch.mlu.LongTensor"
    assert x.mlu().type(torch.FloatTensor).device.type == "cpu"


def test_typed_storages_name_the_card() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = torch.FloatStorage([1.0, 2.0]).mlu()
        assert storage.is_mlu and storage.type().endswith("mlu.FloatStorage")
        assert list(storage.cpu()) == [1.0, 2.0]
        assert torch.mlu.FloatStorage.dtype is torch.float32
        assert isinstance(storage, torch.mlu.FloatStorage)
        with pytest.raises(RuntimeError, match="^from_buffer: Not available for MLU storage$"):
            torch.mlu.FloatStorage.from_buffer(b"")


def test_untyped_storages_copy_between_devices() -> None:
    host = torch.arange(4, dtype=torch.uint8).untyped_storage()
    card = host.mlu("mlu:1")
    assert card.is_mlu and card.device.index == 1 and card.mlu(1) is card
    back = torch.UntypedStorage(4)
    back.copy_(card)
    assert list(back) == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="size does not match"):
        card.copy_(torch.UntypedStorage(3))
    assert card.is_shared()


def test_sixty_four_bit_storages_warn_once() -> None:
    from torch_mlu.mlu import storage

    storage._say_once.cache_clear()
    with pytest.warns(UserWarning, match="float64 as float32"):
        torch.TypedStorage(2, dtype=torch.float64).mlu()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.TypedStorage(2, dtype=torch.float64).mlu()
    assert not [w for w in caught if "float64 as float32" in str(w.message)]
