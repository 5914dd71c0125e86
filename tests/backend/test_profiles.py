"""The profiles: each rule does what it says, and exact does nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mlu_backend import profiles, refused


@pytest.fixture(params=["mlu370", "mlu590"])
def profile(card: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    yield from _in_force(card, request.param)


@pytest.fixture
def mlu370(card: Any) -> Iterator[str]:
    yield from _in_force(card, "mlu370")


def _in_force(card: Any, name: str) -> Iterator[str]:
    profiles.apply(card, name, refused.families_casting_int64())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield name
    profiles.apply(card, "exact", refused.families_casting_int64())


def test_every_rule_names_its_source_and_what_is_unknown_is_listed() -> None:
    for rules in profiles.RULES.values():
        for rule in rules:
            assert ".cpp:" in rule.source or ".h:" in rule.source or ".py:" in rule.source, rule
    assert profiles.RULES["exact"] == () and len(profiles.NOT_MODELLED) >= 5


def test_a_profile_that_does_not_exist_is_refused(card: Any) -> None:
    with pytest.raises(ValueError, match="the profiles are exact, mlu370, mlu590"):
        profiles.apply(card, "mlu100", [])


def test_float64_keeps_its_dtype_and_loses_its_precision(profile: str) -> None:
    third = torch.tensor([1 / 3], dtype=torch.float64)
    there = third.mlu()
    assert there.dtype == torch.float64 and there.element_size() == 8
    assert there.cpu().item() == third.float().double().item()
    assert (there * there).dtype == torch.float64
    assert (there * there).cpu().item() == (third.float() * third.float()).double().item()
    total = torch.full((10_000,), 0.1, dtype=torch.float64).mlu().sum()
    assert total.dtype == torch.float64 and total.item() == torch.full((10_000,), 0.1).sum().double().item()


def test_complex128_is_computed_in_half_its_width(profile: str) -> None:
    value = torch.tensor([1 / 3 + 2j / 3], dtype=torch.complex128)
    product = value.mlu() * value.mlu()
    assert product.dtype == torch.complex128
    assert product.cpu().item() == (value.to(torch.complex64) ** 2).to(torch.complex128).item() or torch.allclose(
        product.cpu().to(torch.complex64), value.to(torch.complex64) * value.to(torch.complex64)
    )


def test_float64_reaches_in_place_out_list_and_nn_forms(profile: str) -> None:
    third = torch.tensor([1 / 3, 1 / 7], dtype=torch.float64)
    narrow = third.float()
    there = third.mlu()
    there.mul_(there)
    assert there.cpu().equal((narrow * narrow).double())
    out = torch.empty(0, dtype=torch.float64, device="mlu")
    assert torch.add(third.mlu(), 1, out=out) is out and out.cpu().equal((narrow + 1).double())
    listed = torch._foreach_mul([third.mlu()], 3.0)[0]
    assert listed.dtype == torch.float64 and listed.cpu().equal((narrow * 3.0).double())
    image = torch.rand(1, 1, 4, 4, dtype=torch.float64)
    result = torch.nn.functional.conv2d(image.mlu(), image.mlu())
    assert result.dtype == torch.float64 and result.item() == result.float().item()


def test_a_float64_number_does_not_widen_a_float32_tensor(profile: str) -> None:
    tensor = torch.ones(3, device="mlu")
    assert (tensor * 1.5).dtype == torch.float32
    assert (tensor * torch.tensor(1.5, dtype=torch.float64)).dtype == torch.float32
    assert tensor.sum(dtype=torch.float64).dtype == torch.float64
    assert tensor.double().sum(dtype=torch.float32).dtype == torch.float32


def test_views_of_float64_tensors_stay_views(profile: str) -> None:
    tensor = torch.zeros(2, 3, dtype=torch.float64, device="mlu")
    tensor.t()[1].add_(1 / 3)
    assert tensor[:, 1].cpu().tolist() == [torch.tensor(1 / 3).double().item()] * 2


def test_convolution_inputs_are_rounded_while_the_switch_is_on(card: Any, profile: str) -> None:
    torch.manual_seed(0)
    image, weight = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    exact = torch.nn.functional.conv2d(image, weight)
    try:
        rounded = torch.nn.functional.conv2d(image.mlu(), weight.mlu()).cpu()
        error = ((rounded - exact).abs().max() / exact.abs().max()).item()
        assert 1e-5 < error < 2e-3
        card.set_tf32(False, False, False)
        torch.testing.assert_close(torch.nn.functional.conv2d(image.mlu(), weight.mlu()).cpu(), exact)
    finally:
        card.set_tf32(True, False, False)


def test_matrix_products_are_rounded_only_when_the_precision_allows_it(profile: str) -> None:
    value = torch.full((2, 2), 1.0001)
    other = torch.ones(2, 2)
    assert (value.mlu() @ other.mlu()).cpu().equal(value @ other)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert (value.mlu() @ other.mlu()).cpu().equal(torch.full((2, 2), 2.0))
        assert torch.addmm(value.mlu(), value.mlu(), other.mlu()).cpu().equal(value + 2.0)
        assert (value.mlu() * other.mlu()).cpu().equal(value)
    finally:
        torch.set_float32_matmul_precision(before)


def test_an_override_variable_switches_rounding_of_products_on(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend, torch_mlu\nx = torch.full((2, 2), 1.0001, device='mlu')\n"
        "print((x @ torch.ones(2, 2, device='mlu'))[0, 0].item())",
        MLU_EMULATOR_PROFILE="mlu590",
        TORCH_ALLOW_TF32_CNMATMUL_OVERRIDE="1",
    )
    assert done.stdout.strip() == "2.0", done.stderr


def test_an_mlu370_refuses_to_compute_in_bfloat16_but_stores_it(mlu370: str) -> None:
    tensor = torch.ones(2, dtype=torch.bfloat16, device="mlu")
    assert tensor.cpu().tolist() == [1.0, 1.0] and tensor.view(2, 1).float().sum().item() == 2
    for call in (
        lambda: tensor + tensor,
        lambda: tensor.float().sum(dtype=torch.bfloat16),
        lambda: tensor[None] @ tensor,
    ):
        with pytest.raises(RuntimeError, match="CNNL error: .*bfloat16"):
            call()


def test_operators_that_cast_wrap_integers_beyond_32_bits(profile: str) -> None:
    big = torch.tensor([2**32 + 5, 7], device="mlu")
    assert torch.maximum(big, big).tolist() == [5, 7]
    assert (big + 1).tolist() == [2**32 + 6, 8]


def test_with_the_overflow_check_on_they_raise(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend, torch_mlu\nbig = torch.tensor([2**40], device='mlu')\n"
        "print(torch.cumprod(big - big, 0))\n"
        "torch.cumprod(big, 0)",
        MLU_EMULATOR_PROFILE="mlu590",
        ENABLE_MLU_OVERFLOW_CHECK="1",
    )
    assert "tensor([0]" in done.stdout
    assert "Overflow occurred! there is a tensor that does cast from int64 value to int32." in done.stderr


def test_the_narrow_warning_comes_once_a_process(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend, torch_mlu\nx = torch.ones(2, dtype=torch.float64, device='mlu')\nx + x\nx * x\n",
        MLU_EMULATOR_PROFILE="mlu370",
    )
    assert done.stderr.count("MLU operators don't support 64-bit calculation") == 1, done.stderr


def test_the_exact_profile_computes_as_the_cpu_does(card: Any) -> None:
    value = torch.rand(50, 50, dtype=torch.float64)
    assert (value.mlu() @ value.mlu()).cpu().equal(value @ value)
    assert torch.maximum(torch.tensor([2**40], device="mlu"), torch.tensor([1], device="mlu")).tolist() == [2**40]


SQUARE = (1, 1, 4, 4)


def grid(dims: int) -> torch.Tensor:
    return torch.zeros(1, *[2] * dims, dims).mlu()


def sampled(dims: int, mode: str, padding: str) -> torch.Tensor:
    data = torch.ones(1, 1, *[4] * dims).mlu()
    return torch.nn.functional.grid_sample(data, grid(dims), mode, padding, align_corners=False)


def reflected_gradient(left: int) -> None:
    data = torch.ones(1, 2, 5).mlu().requires_grad_()
    torch.nn.functional.pad(data, (left, 1), mode="reflect").sum().backward()


LIMITED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: torch.nn.functional.avg_pool2d(torch.ones(SQUARE).mlu(), 2, divisor_override=3),
        "divisor_override is not",
    ),
    (lambda: torch.nn.functional.max_pool3d(torch.ones(1, 12, 12, 12).mlu(), 12), "max_pool3d: The kernel size should"),
    (lambda: torch.nn.functional.max_pool2d(torch.ones(1, 256, 256).mlu(), 256), "max_pool2d: The kernel size should"),
    (lambda: torch.ones(3).mlu().scatter(0, torch.tensor([1]).mlu(), 2.0, reduce="multiply"), "reduce of prod is not"),
    (
        lambda: torch.ones(3).mlu().scatter_reduce(0, torch.tensor([1]).mlu(), torch.ones(1).mlu(), "mean"),
        "MLU scatter reduce of mean is not supported",
    ),
    (lambda: sampled(2, "bicubic", "zeros"), "interpolation_mode only support bilinear or nearest"),
    (lambda: sampled(2, "bilinear", "border"), "bilinear only support zeros or reflection padding"),
    (lambda: sampled(2, "nearest", "border"), "nearest only support zeros padding"),
    (lambda: sampled(3, "nearest", "zeros"), "grid sampler 3d only support bilinear mode and zeros padding"),
    (lambda: torch.linalg.svdvals(torch.eye(3).mlu()), "svd not support compute_uv's value is false"),
    (lambda: torch.linalg.svd(torch.ones(150, 2).mlu()), "should be less than 150"),
    (lambda: reflected_gradient(-1), "negative padding values are not supported now"),
    (lambda: torch.ones(2, 2).half().mlu().unique(dim=0), "MLU unique does not support dim and half combinations"),
]

WITHIN: list[Callable[[], object]] = [
    lambda: torch.nn.functional.avg_pool2d(torch.ones(SQUARE).mlu(), 2),
    lambda: torch.nn.functional.max_pool3d(torch.ones(1, 11, 11, 11).mlu(), 11),
    lambda: torch.ones(3).mlu().scatter(0, torch.tensor([1]).mlu(), 2.0, reduce="add"),
    lambda: torch.ones(3).mlu().scatter(0, torch.tensor([1]).mlu(), 2.0),
    lambda: torch.ones(3).mlu().scatter_reduce(0, torch.tensor([1]).mlu(), torch.ones(1).mlu(), "amax"),
    lambda: sampled(2, "bilinear", "reflection"),
    lambda: sampled(3, "bilinear", "zeros"),
    lambda: torch.linalg.svd(torch.eye(3).mlu()),
    lambda: reflected_gradient(1),
    lambda: torch.ones(2, 2).mlu().unique(dim=0),
]


@pytest.mark.parametrize("number", range(len(LIMITED)))
def test_arguments_a_kernel_of_the_card_does_not_take_are_refused(profile: str, number: int) -> None:
    call, text = LIMITED[number]
    with pytest.raises(RuntimeError, match=text):
        call()


def test_arguments_within_the_limits_of_kernels_are_taken(profile: str) -> None:
    for call in WITHIN:
        call()


def test_the_exact_profile_computes_beyond_the_limits_of_kernels(card: Any) -> None:
    for call, _ in LIMITED:
        call()


def test_every_limit_is_in_the_source_it_names_and_the_others_are_listed() -> None:
    source = Path(refused.__file__).with_name("csrc").joinpath("refusals.cpp").read_text(encoding="utf-8")
    for limit in refused.KERNEL_LIMITS:
        assert limit.raised_in == "csrc/refusals.cpp" and ".cpp" in limit.source
        assert limit.error.removeprefix("RuntimeError: ") in source, limit
    assert len(refused.LIMITS_NOT_MODELLED) >= 8
