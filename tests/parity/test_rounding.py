"""The rounding control's rounding: how much, of what, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from mlu_backend.parity import rounding, trace
from mlu_backend.parity.options import Control

Recorded = Callable[..., trace.Trace]

SOURCE = """\
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    loss = net(torch.randn(3, 1, 4, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("%.17g" % torch.rand(1).item())
"""
MATMUL = SOURCE.replace("nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten()", "nn.Flatten()")
CONTROL = Control("mlu590", 1)


@pytest.fixture
def switches() -> Iterator[None]:
    """The TF32 switches, put back afterwards."""
    # Through torch._C: torch's own test helpers, imported by other tests, forbid the flags themselves.
    before = torch._C._get_cudnn_allow_tf32(), torch.get_float32_matmul_precision()
    yield
    torch._C._set_cudnn_allow_tf32(before[0])
    torch.set_float32_matmul_precision(before[1])


@pytest.mark.parametrize("bits", [8, 11, 24])
def test_no_element_moves_by_more_than_the_unit_round_off(bits: int) -> None:
    value = torch.randn(4096, generator=torch.Generator().manual_seed(0)) * 100
    moved = rounding.rounded(value, bits, 1.37)
    error = ((moved.double() - value.double()) / value.double()).abs().max()
    assert 2.0 ** -(bits + 1) < float(error) <= 2.0**-bits + 2.0**-24
    assert moved.dtype is value.dtype and moved.shape == value.shape


def test_one_value_gets_one_error_and_another_grid_another_one() -> None:
    value = torch.randn(64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rounding.rounded(value, 11, 1.3), rounding.rounded(value.clone(), 11, 1.3))
    assert not torch.equal(rounding.rounded(value, 11, 1.3), rounding.rounded(value, 11, 1.6))


def test_zero_and_what_is_not_finite_stay() -> None:
    value = torch.tensor([0.0, float("inf"), float("-inf"), float("nan")])
    assert torch.equal(rounding.rounded(value, 11, 1.3).nan_to_num(7.0), value.nan_to_num(7.0))


@pytest.mark.parametrize(
    ("operator", "places"),
    [
        ("convolution", (0, 1)),
        ("convolution_overrideable", (0, 1)),
        ("convolution_backward", (0, 1, 2)),
        ("mm", (0, 1)),
        ("addmm", (1, 2)),
        ("_scaled_dot_product_fused_attention_overrideable", (0, 1, 2)),
        ("_scaled_dot_product_fused_attention_overrideable_backward", (0, 1, 2, 3)),
        ("mul", ()),
        ("_softmax", ()),
    ],
)
def test_what_is_multiplied_is_rounded_and_biases_are_not(operator: str, places: tuple[int, ...]) -> None:
    assert rounding.inputs_of(operator) == places


@pytest.mark.parametrize(
    ("dtype", "convolution", "bits"),
    [
        (torch.float32, True, 11),
        (torch.float32, False, 24),
        (torch.float64, True, 24),
        (torch.bfloat16, False, 8),
        (torch.float16, False, 11),
        (torch.int64, False, 0),
    ],
)
def test_the_bits_are_those_the_profile_states(dtype: torch.dtype, convolution: bool, bits: int) -> None:
    assert rounding.bits_of("mlu590", dtype, convolution) == bits


def test_the_switches_of_the_program_count(switches: None) -> None:
    torch._C._set_cudnn_allow_tf32(False)
    torch.set_float32_matmul_precision("high")
    assert rounding.bits_of("mlu590", torch.float32, True) == 24
    assert rounding.bits_of("mlu590", torch.float32, False) == 11


def rounded_products(read: trace.Trace) -> list[tuple[int, int]]:
    return [(e["products"], e["bits"]) for p in read.processes for e in p.of("rounding")]


def losses(read: trace.Trace) -> list[float]:
    (process,) = read.processes
    return [process.rows[e["roots"][0][1]].stats.sample[0] for e in process.of("loss")]  # type: ignore[union-attr]


def test_a_control_run_differs_by_rounding_and_draws_the_same_random_numbers(recorded: Recorded) -> None:
    plain, control = recorded(SOURCE), recorded(SOURCE, control=CONTROL)
    assert control.meta["output"] == plain.meta["output"]
    pairs = list(zip(losses(plain), losses(control), strict=True))
    assert all(0 < abs(a - b) / a < 1e-2 for a, b in pairs), pairs
    # convolution, addmm and, for two of them backwards, mm and convolution_backward: two steps
    assert rounded_products(control) == [(10, 11)] and rounded_products(plain) == []


def test_a_control_repeats_itself_and_the_next_one_rounds_otherwise(recorded: Recorded) -> None:
    first, again = recorded(SOURCE, control=CONTROL), recorded(SOURCE + "\n", control=CONTROL)
    other = recorded(SOURCE, control=Control("mlu590", 2))
    assert losses(first) == losses(again) != losses(other)


def test_products_the_profile_does_not_round_move_by_their_own_last_bit_only(recorded: Recorded) -> None:
    plain, control = recorded(MATMUL), recorded(MATMUL, control=CONTROL)
    assert rounded_products(control)[0][1] == 24
    assert all(abs(a - b) / a < 1e-6 for a, b in zip(losses(plain), losses(control), strict=True))


CTC = """\
import torch
import torch.nn as nn
import torch_mlu

torch.manual_seed(0)
net = nn.Conv1d(4, 6, 3, padding=1).to("mlu")
scores = net(torch.randn(2, 4, 8).to("mlu")).permute(2, 0, 1).log_softmax(-1)
labels, lengths = torch.randint(1, 6, (2, 3)).to("mlu"), torch.tensor([8, 8])
nn.functional.ctc_loss(scores, labels, lengths, torch.tensor([3, 3])).backward()
print(float(net.weight.grad.sum()))
"""


def test_a_loss_that_torch_computes_otherwise_under_a_mode_still_computes(recorded: Recorded) -> None:
    plain, control = recorded(CTC), recorded(CTC, control=CONTROL)
    assert rounded_products(control) == [(2, 11)]
    before, after = float(plain.meta["output"]), float(control.meta["output"])
    assert before != after and after == pytest.approx(before, abs=1e-2)
