"""The judgement against what rounding alone does: on traces written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mlu_backend.parity import control, report, trace, verdict
from mlu_backend.parity.findings import Category, Difference, Status, Verdict
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.verdict import Question
from parity.test_verdict import Change, Made

Judge = Callable[..., Verdict]


def rounded(made: Made, tensors: list[torch.Tensor], size: float, step: int, seed: int) -> None:
    """Give one tensor an error of this relative size."""
    noise = torch.randn(tensors[step].shape, generator=torch.Generator().manual_seed(seed))
    tensors[step] = tensors[step] * (1 + size * noise)


@pytest.fixture
def judged(tmp_path: Path) -> Judge:
    """``judged(candidate, *controls)``: the verdict on equal traces, changed as the arguments say, on mlu590."""

    def run(change: Change, *controls: Change, before: Change = lambda made: None) -> Verdict:
        number = len(list(tmp_path.iterdir()))

        def written(*changes: Change) -> trace.Trace:
            nonlocal number
            number += 1
            made = Made()
            for each in changes:
                each(made)
            return made.write(tmp_path / str(number))

        reference = written(before)
        measured = control.measure(reference, [written(before, c) for c in controls]) if controls else None
        question = Question("mlu590", controlled=True, sensitivity=measured)
        return verdict.judge(reference, written(before, change), question)

    return run


def test_an_error_beyond_the_table_passes_if_rounding_alone_makes_one_like_it(judged: Judge) -> None:
    def candidate(made: Made) -> None:
        rounded(made, made.b, 0.1, 1, seed=1)

    assert judged(candidate).status is Status.MISMATCH
    found = judged(candidate, lambda made: rounded(made, made.b, 0.05, 1, seed=2))
    assert found.status is Status.MATCH and found.control is not None
    assert found.control.admitted == 2 and found.compared == found.equal + found.within
    assert 1.0 < found.control.largest < control.FACTOR and found.control.what == "Net.b, step 1"


def test_an_error_larger_than_rounding_makes_is_a_difference(judged: Judge) -> None:
    found = judged(
        lambda made: rounded(made, made.b, 0.5, 1, seed=1), lambda made: rounded(made, made.b, 0.02, 1, seed=2)
    )
    assert found.status is Status.MISMATCH and found.first is not None
    assert (found.first.path, found.first.step) == ("Net.b", 1)


def test_what_rounding_does_later_excuses_nothing_in_the_first_step(judged: Judge) -> None:
    def early(made: Made) -> None:
        rounded(made, made.b, 0.1, 0, seed=1)

    def late(made: Made) -> None:
        rounded(made, made.b, 0.1, 1, seed=1)

    assert judged(early, late).status is Status.MISMATCH
    assert judged(late, early).status is Status.MATCH


def test_what_rounding_does_to_one_module_excuses_no_other(judged: Judge) -> None:
    found = judged(
        lambda made: rounded(made, made.a, 0.1, 1, seed=1), lambda made: rounded(made, made.b, 0.1, 1, seed=2)
    )
    assert found.status is Status.MISMATCH and found.first is not None and found.first.path == "Net.a"


def test_the_largest_of_several_controls_counts(judged: Judge) -> None:
    def candidate(made: Made) -> None:
        rounded(made, made.b, 0.1, 1, seed=1)

    small, large = (lambda made, size=size: rounded(made, made.b, size, 1, seed=2) for size in (1e-4, 0.1))
    assert judged(candidate, small).status is Status.MISMATCH
    found = judged(candidate, small, large)
    assert found.status is Status.MATCH and found.control is not None and found.control.runs == 2


def test_a_changed_weight_is_told_whatever_the_control_says(judged: Judge) -> None:
    def candidate(made: Made) -> None:
        made.weight["Net.b.weight"][3, 4] += 1e-3
        rounded(made, made.b, 0.1, 1, seed=1)

    found = judged(candidate, lambda made: rounded(made, made.b, 0.1, 0, seed=2))
    assert found.status is Status.MISMATCH and found.first is not None
    assert (found.first.kind, found.first.path) == ("state", "Net.b")


def test_a_call_the_control_did_not_make_is_judged_by_the_table(judged: Judge) -> None:
    def shorter(made: Made) -> None:
        made.calls = 1
        rounded(made, made.a, 0.1, 0, seed=2)

    assert judged(lambda made: rounded(made, made.b, 0.1, 1, seed=1), shorter).status is Status.MISMATCH


def test_losses_have_a_control_of_their_own(judged: Judge) -> None:
    def candidate(made: Made) -> None:
        made.losses = [1.0, 0.52]

    def control_run(made: Made) -> None:
        made.losses = [1.0, 0.49]

    assert judged(candidate).first.kind == "curve"  # type: ignore[union-attr]
    found = judged(candidate, control_run)
    assert found.status is Status.MATCH and found.control is not None
    assert found.control.loss_largest == pytest.approx(0.02) and found.control.loss_mean == pytest.approx(0.01)
    assert "beyond" in found.loss_curve, "the figure stays what it is"
    assert judged(lambda made: setattr(made, "losses", [1.0, 0.7]), control_run).status is Status.MISMATCH


def test_the_reader_is_told_what_was_used(judged: Judge) -> None:
    found = judged(
        lambda made: rounded(made, made.b, 0.1, 1, seed=1), lambda made: rounded(made, made.b, 0.05, 1, seed=2)
    )
    assert found.control is not None
    found.control.products, found.control.bits = 12, 11
    text = " ".join(report.terminal(found).split())
    assert "the reference ran 1 time more with the inputs of 12 products rounded to 11 bits" in text
    assert "2 quantities beyond the table are within 5 times" in text and "profile exact" in text
    assert "2 quantities beyond the table" in report.markdown(found)


def test_a_program_without_products_gets_no_help_and_is_told_so(judged: Judge) -> None:
    found = judged(lambda made: rounded(made, made.b, 0.1, 1, seed=1), lambda made: None)
    assert found.status is Status.MISMATCH and "has no such products" in report.control_line(found)


NUMBERS = Difference(Category.NUMBERS, "Net", kind="call")


@pytest.mark.parametrize(
    ("profile", "differences", "answer"),
    [
        ("mlu590", [NUMBERS], True),
        ("mlu370", [NUMBERS, Difference(Category.NUMBERS, "loss of step 1", kind="curve")], True),
        ("exact", [NUMBERS], False),
        ("mlu590", [NUMBERS, Difference(Category.STRUCTURE, "Net: dtype", kind="call")], False),
        ("mlu590", [NUMBERS, Difference(Category.CONFIGURATION, "optimizer settings")], False),
        ("mlu590", [NUMBERS, Difference(Category.NONFINITE, "Net: inf and nan", kind="call")], False),
        ("mlu590", [Difference(Category.NUMBERS, "parameters of Net", kind="state"), NUMBERS], False),
    ],
    ids=["numbers", "numbers and losses", "nothing rounds", "structure", "a setting", "not finite", "a weight"],
)
def test_a_control_is_run_only_where_rounding_could_be_the_reason(
    profile: str, differences: list[Difference], answer: bool
) -> None:
    found = Verdict(Status.MISMATCH, differences=differences, total_differences=len(differences), profile=profile)
    assert control.wanted(found) is answer


def test_differences_too_many_to_keep_may_hold_another_kind() -> None:
    assert not control.wanted(Verdict(Status.MISMATCH, differences=[NUMBERS], total_differences=2, profile="mlu590"))


def test_the_factor_is_what_its_calculation_says() -> None:
    """Probability that a normal number exceeds FACTOR times the largest of RUNS others."""

    def below(x: float) -> float:
        return math.erf(x / math.sqrt(2))

    width = 1e-3
    points = [(i + 0.5) * width for i in range(12_000)]
    density = [2 * math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in points]
    chance = sum(d * below(x / control.FACTOR) ** control.RUNS * width for x, d in zip(points, density, strict=True))
    assert chance == pytest.approx(0.006, abs=5e-4)


@pytest.mark.parametrize(
    ("error", "moved", "answer"),
    [
        (Error(5e-2, 5e-2), Error(1e-2, 1e-2), True),
        (Error(5.1e-2, 1e-2), Error(1e-2, 1e-2), False),
        (Error(1e-2, 5.1e-2), Error(1e-2, 1e-2), False),
        (Error(1e-9, 1e-9), Error(), False),
    ],
    ids=["within", "mean beyond", "one element beyond", "not moved at all"],
)
def test_within_means_mean_and_single_element(error: Error, moved: Error, answer: bool) -> None:
    assert control.admits(error, moved) is answer


def many(made: Made) -> None:
    """Gradients of so many elements that sixteen are sampled."""
    made.grad = [torch.randn(64, 32, generator=torch.Generator().manual_seed(step)) for step in range(2)]


def flipped(made: Made) -> None:
    """One sampled element of the second step's gradient on the other side of a relu."""
    made.grad[1] = made.grad[1].clone()
    made.grad[1].view(-1)[0] += 1.0


def test_one_sampled_element_on_the_other_side_of_a_kink_is_chance(judged: Judge) -> None:
    assert judged(flipped, before=many).status is Status.MISMATCH
    found = judged(flipped, lambda made: rounded(made, made.grad, 1e-4, 1, seed=2), before=many)
    assert found.status is Status.MATCH, found.first


def test_where_no_rounding_arrives_no_element_may_differ(judged: Judge) -> None:
    assert judged(flipped, lambda made: rounded(made, made.a, 1e-4, 1, seed=2), before=many).status is Status.MISMATCH


def test_many_elements_that_differ_are_no_chance(judged: Judge) -> None:
    def wrong(made: Made) -> None:
        made.grad[1] = made.grad[1].clone()
        made.grad[1][::2] *= 1.5

    control_run = lambda made: rounded(made, made.grad, 1e-4, 1, seed=2)  # noqa: E731
    assert judged(wrong, control_run, before=many).status is Status.MISMATCH


def test_after_the_first_step_the_whole_run_of_the_control_counts(judged: Judge) -> None:
    def longer(made: Made) -> None:
        made.calls = 3
        made.losses.append(0.4)
        made.lr.append(0.1)
        for tensors in (made.x, made.a, made.b, made.grad):
            tensors.append(torch.randn(4, 8, generator=torch.Generator().manual_seed(len(tensors))))

    def at(step: int) -> Change:
        return lambda made: rounded(made, made.b, 0.1, step, seed=1)

    assert judged(at(1), at(2), before=longer).status is Status.MATCH
    assert judged(at(0), at(2), before=longer).status is Status.MISMATCH
