"""The third run, in float64: what it is asked of, and whom it acquits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlu_backend.parity import locate, trace
from mlu_backend.parity.findings import Category, Difference, Status, Verdict
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.options import Focus

Recorded = Callable[..., trace.Trace]

SOURCE = """\
import torch
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(64, 8)
        self.drop = nn.Dropout({drop})

    def forward(self, x):
        x = self.drop(x)
        w = self.lin.weight
        half = torch.bfloat16 if x.dtype == torch.float32 else x.dtype
        {compute}
        return y.to(x.dtype)

torch.manual_seed(0)
net = Net()
net(torch.randn(16, 64)).sum().backward()
"""
TOGETHER = "y = x.to(half) @ w.t().to(half)"
IN_PARTS = "y = x[:, :32].to(half) @ w.t()[:32].to(half); y = y + x[:, 32:].to(half) @ w.t()[32:].to(half)"
WRONG = "y = x.to(half) @ (w.t() * 1.05).to(half)"
CALL = Difference(Category.NUMBERS, "Net", path="Net", kind="call", nth=0, inputs=Error(), outputs=Error(1e-2, 1e-2))


def closer(recorded: Recorded, compute: str, drop: float = 0.0) -> trace.Trace:
    return recorded(SOURCE.format(compute=compute, drop=drop), focus=Focus("Net", 0, 0))


def test_a_module_that_rounds_is_as_far_from_float64_as_its_dtype(recorded: Recorded) -> None:
    read = closer(recorded, TOGETHER)
    found = locate.truth_of(read, read, CALL)
    assert found is not None and 1e-4 < found["reference"]["mean"] < 2**-8
    assert found["reference"] == found["candidate"]


def test_asking_does_not_change_what_the_program_computes(recorded: Recorded) -> None:
    source = SOURCE.format(compute=TOGETHER, drop=0.5) + "print(torch.rand(1).item(), net.lin.weight.grad.sum().item())"
    looked, plain = recorded(source, focus=Focus("Net", 0, 0)), recorded(source)
    assert looked.meta["output"] == plain.meta["output"]


def test_a_module_that_draws_random_numbers_is_not_asked(recorded: Recorded) -> None:
    read = closer(recorded, TOGETHER, drop=0.5)
    assert locate.truth_of(read, read, CALL) is None


def test_a_candidate_that_rounds_elsewhere_is_acquitted_and_one_that_is_wrong_is_not(recorded: Recorded) -> None:
    reference = closer(recorded, TOGETHER)
    other = locate.truth_of(reference, closer(recorded, IN_PARTS), CALL)
    wrong = locate.truth_of(reference, closer(recorded, WRONG), CALL)
    assert other is not None and locate.both_inexact(other)
    assert wrong is not None and not locate.both_inexact(wrong)


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ((1e-3, 1e-2), (2e-3, 4e-2), True),
        ((1e-3, 1e-2), (3e-3, 1e-2), False),
        ((1e-3, 1e-2), (1e-3, 5e-2), False),
        ((0.0, 0.0), (1e-9, 1e-9), False),
        ((0.5, 0.5), (0.5, 0.5), False),
    ],
    ids=["as near", "mean further", "one element further", "reference exact", "both something else"],
)
def test_who_is_as_near(ours: tuple[float, float], theirs: tuple[float, float], answer: bool) -> None:
    both = {"reference": dict(zip(("mean", "single"), ours)), "candidate": dict(zip(("mean", "single"), theirs))}
    assert locate.both_inexact(both) is answer


def test_without_an_answer_nobody_is_acquitted() -> None:
    assert not locate.both_inexact(None)


@pytest.mark.parametrize(
    ("other", "alone"),
    [
        (Difference(Category.NUMBERS, "later", kind="call", inputs=Error(1e-3, 1e-3)), True),
        (Difference(Category.NUMBERS, "elsewhere", kind="call", inputs=Error()), False),
        (Difference(Category.NUMBERS, "loss of step 1", kind="curve"), False),
        (Difference(Category.STRUCTURE, "Net: dtype", kind="call", inputs=Error(1e-3, 1e-3)), False),
    ],
    ids=["downstream", "a second origin", "the loss curve", "structure"],
)
def test_an_acquittal_holds_for_what_came_in_with_the_inputs_only(other: Difference, alone: bool) -> None:
    found = Verdict(Status.MISMATCH, differences=[CALL, other], first=CALL)
    assert locate.is_alone(found) is alone
