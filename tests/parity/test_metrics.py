"""Metrics of two tensors, and of two records."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mlu_backend.parity import metrics
from mlu_backend.parity.statistics import measure


def test_equal_tensors_have_no_error() -> None:
    tensor = torch.randn(50)
    assert metrics.of_tensors(tensor, tensor.clone()) == metrics.NONE


def test_a_uniform_relative_error_is_reported_as_it_is() -> None:
    tensor = torch.rand(1000, dtype=torch.float64) + 1
    error = metrics.of_tensors(tensor, tensor * (1 + 1e-4))
    assert error.mean == pytest.approx(1e-4, rel=1e-6) and error.single == pytest.approx(1e-4, rel=1e-6)


def test_one_wrong_element_shows_in_single_more_than_in_mean() -> None:
    tensor = torch.ones(10_000)
    other = tensor.clone()
    other[5] = 1.5
    error = metrics.of_tensors(tensor, other)
    assert error.single == pytest.approx(0.5) and error.mean == pytest.approx(0.005)


def test_anything_against_zeros_is_unrelated_and_zeros_against_zeros_are_equal() -> None:
    assert metrics.of_tensors(torch.zeros(3), torch.ones(3)) == metrics.UNRELATED
    assert metrics.of_tensors(torch.zeros(3), torch.zeros(3)) == metrics.NONE


def test_elements_that_are_not_finite_on_both_sides_are_left_to_another_check() -> None:
    a, b = torch.tensor([1.0, math.nan, 2.0]), torch.tensor([1.0, math.nan, 2.0])
    assert metrics.of_tensors(a, b) == metrics.NONE


def test_shapes_have_to_be_equal() -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        metrics.of_tensors(torch.ones(2), torch.ones(3))


def test_the_standards_of_cambricon_are_computed_as_written_there() -> None:
    a, b = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1.1, 2.0, -1.0])
    assert metrics.diff1(a, b) == pytest.approx(0.1 / 4, rel=1e-5)
    relative, absolute = metrics.diff3(torch.tensor([2.0, 0.0]), torch.tensor([2.2, 1e-7]))
    assert relative == pytest.approx(0.1, rel=1e-5) and absolute == pytest.approx(1e-7, rel=1e-5)
    assert metrics.cosine(a, a) == pytest.approx(1.0) and metrics.cosine(a, -a) == pytest.approx(-1.0)
    assert metrics.cosine(torch.zeros(3), torch.zeros(3)) == 1.0


def test_records_of_equal_tensors_have_no_error() -> None:
    tensor = torch.randn(100)
    assert metrics.of_stats(measure(tensor), measure(tensor.clone()), 100) == metrics.NONE


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 16), st.floats(1e-6, 1e-1))
def test_records_of_small_tensors_give_the_error_of_the_tensors(count: int, size: float) -> None:
    torch.manual_seed(count)
    a = torch.randn(count, dtype=torch.float64)
    b = a + size * torch.randn(count, dtype=torch.float64)
    whole, estimate = metrics.of_tensors(a, b), metrics.of_stats(measure(a), measure(b), count)
    assert not estimate.estimated
    assert estimate.mean >= whole.mean * 0.999 and estimate.single >= whole.single * 0.999


def test_records_of_large_tensors_estimate_a_spread_out_error() -> None:
    torch.manual_seed(0)
    a = torch.randn(100_000)
    b = a + 1e-3 * torch.randn(100_000)
    estimate = metrics.of_stats(measure(a), measure(b), a.numel())
    assert estimate.estimated and 3e-4 < estimate.mean < 3e-3


def test_relative_of_numbers() -> None:
    assert metrics.relative(2.0, 2.2) == pytest.approx(0.1)
    assert metrics.relative(math.nan, math.nan) == 0.0
    assert metrics.relative(1.0, math.nan) == math.inf
    assert metrics.relative(0.0, 0.1) == 1.0
