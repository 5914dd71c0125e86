"""Statistics of a tensor: values, checksum, what cannot be measured."""

from __future__ import annotations

import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mlu_backend.parity import statistics

_FORMAT = {
    torch.float32: "f",
    torch.float64: "d",
    torch.int64: "q",
    torch.int32: "i",
    torch.uint8: "B",
    torch.float16: "e",
}


def by_hand(values: list[float], dtype: torch.dtype) -> int:
    """The checksum as the module's docstring defines it, in plain integers."""
    total = 0
    for i, value in enumerate(values):
        raw = struct.pack("<" + _FORMAT[dtype], value)
        total += (int.from_bytes(raw, "little") + 1) * ((2 * i + 1) * 0x9E3779B97F4A7C15)
    return total % (1 << 64)


@pytest.mark.parametrize("dtype", list(_FORMAT))
def test_checksum_is_the_documented_sum_for_each_element_size(dtype: torch.dtype) -> None:
    values = [0, 1, 2, 3, 100, 255] if dtype is torch.uint8 else [0, 1, -2, 3.0 if dtype.is_floating_point else 3, -100]
    assert statistics.checksum(torch.tensor(values, dtype=dtype)) == by_hand(values, dtype)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), max_size=40))
def test_checksum_of_any_floats_is_the_documented_sum(values: list[float]) -> None:
    assert statistics.checksum(torch.tensor(values, dtype=torch.float32)) == by_hand(values, torch.float32)


def test_checksum_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.randn(1000)
    whole = statistics.checksum(tensor)
    monkeypatch.setattr(statistics, "CHUNK", 7)
    assert statistics.checksum(tensor) == whole
    assert statistics.measure(tensor).checksum == whole


def test_checksum_sees_order_sign_of_zero_and_one_bit() -> None:
    base = torch.tensor([0.0, 1.0, 2.0])
    sums = {
        statistics.checksum(t)
        for t in (base, base.flip(0), torch.tensor([-0.0, 1.0, 2.0]), torch.nextafter(base, base + 1), base[:2])
    }
    assert len(sums) == 5


def test_checksum_follows_logical_order_not_memory() -> None:
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert statistics.checksum(tensor.t()) == statistics.checksum(tensor.t().contiguous())
    assert statistics.checksum(tensor[:, ::2]) == statistics.checksum(tensor[:, ::2].clone())


def test_numbers_are_over_finite_elements_and_the_rest_is_counted() -> None:
    found = statistics.measure(torch.tensor([3.0, math.nan, -4.0, math.inf]))
    assert (found.norm, found.min, found.max, found.mean, found.nonfinite) == (5.0, -4.0, 3.0, -0.5, 2)


@pytest.mark.parametrize("tensor", [torch.empty(0), torch.full((3,), math.nan)], ids=["no elements", "nothing finite"])
def test_without_finite_elements_all_numbers_are_zero(tensor: torch.Tensor) -> None:
    found = statistics.measure(tensor)
    assert (found.norm, found.min, found.max, found.mean) == (0.0, 0.0, 0.0, 0.0)
    assert found.nonfinite == tensor.numel()


def test_complex_conjugate_negative_and_sparse_tensors_are_measured_by_their_values() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert statistics.measure(z.conj()).checksum == statistics.measure(z.conj().resolve_conj()).checksum
    assert statistics.measure(z.conj().imag).mean == 1.0
    sparse = torch.sparse_coo_tensor([[1, 1, 0]], [1.0, 2.0, 5.0], (3,))
    assert statistics.measure(sparse).norm == pytest.approx(math.sqrt(34))


def test_half_precision_and_bool_have_their_own_bits() -> None:
    assert statistics.measure(torch.tensor([True, False])).mean == 0.5
    ones = {
        statistics.checksum(torch.ones(3, dtype=d)) for d in (torch.float16, torch.bfloat16, torch.float32, torch.bool)
    }
    assert len(ones) == 4


def test_sample_is_the_whole_of_a_small_tensor_and_spread_over_a_large_one() -> None:
    assert statistics.measure(torch.arange(3.0)).sample == (0.0, 1.0, 2.0)
    spread = statistics.measure(torch.arange(1000.0).reshape(10, 100)).sample
    assert len(spread) == statistics.SAMPLES and spread[0] == 0.0 and spread[-1] == 999.0
    assert spread == tuple(sorted(spread))


def test_measuring_leaves_version_gradient_and_values_alone() -> None:
    tensor = torch.randn(5, requires_grad=True)
    version, before = tensor._version, tensor.detach().clone()
    statistics.measure(tensor)
    assert tensor._version == version and tensor.grad is None and torch.equal(tensor, before)


def test_fake_and_meta_tensors_are_refused() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(2)
    for tensor in (fake, torch.ones(2, device="meta")):
        with pytest.raises(statistics.NotMeasurable):
            statistics.measure(tensor)
