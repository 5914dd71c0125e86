"""
How far rounding alone moves a program, and whether what the candidate differs by is more than that.

The table of limits is for one call whose inputs agree. A program that amplifies rounding (networks that train against
each other, the first steps of a steep training, values that fall on the other side of a rounding step or of a relu)
goes beyond it without a fault. So where the candidate is beyond the table on a profile that rounds, and nothing but
numbers differs, the reference runs again, rounded as the profile rounds but on another grid (``rounding``), and each
quantity is judged against its own measured sensitivity: an error passes if it is within ``FACTOR`` times the largest
error the controls had in this quantity: up to the same point in the first step, in the whole run after it.

Rounding also puts single elements on the other side of a relu or of a rounding step, where each is wrong by its whole
size. Whether one of the sampled elements of a tensor is such a one is chance, so the one furthest apart is left out
(``KINKS``), provided rounding reached the tensor at all; norm, mean, smallest and largest element count in full.

The first step keeps faults visible: most are in it already, and there the controls are about as small as the table.
After it, when a run first crosses a kink is chance: with one start of quantisation-aware training the candidate did in
the first step, two controls in the second and one in the fourth, and all multiplied it from there. Parameters before
the first step are not rounded by anybody and stay judged by equality. What this cannot see is a fault that is smaller
than what rounding does to the same quantity; the profile ``exact``, where nothing rounds, is there for those.

    run 1 of the control  ->  all within?  ->  match, with the figures
    no                    ->  run 2, run 3 ->  what is still beyond is a difference
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlu_backend.parity import align, metrics, quantities
from mlu_backend.parity.align import Key, Point
from mlu_backend.parity.findings import Category, ControlFigures, Status, Verdict
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.trace import Row, Trace

RUNS = 3
"""Most control runs for one comparison. They end as soon as the candidate is within what they moved."""

FACTOR = 5.0
"""
An error may be this many times the largest of the controls'. The candidate's rounding is one more draw of what the
controls drew: while differences are small they are linear in the rounding errors, so both are multiplied alike. A
number that is normal about zero is beyond five times the largest of three such draws in 0.6 % of cases, and the norm
of a tensor, which has many, practically never. Calculated; ``test_control`` repeats the calculation.
"""

KINKS = 1
"""
Sampled elements that may be on the other side of a kink. A share e / pi of the elements is
(``tolerance.gradient_limit``): with an error e of 1e-3 in front of a relu, one in 200 samples of sixteen holds one, and
one in 80 000 holds two.
"""

Where = tuple[int, int]


@dataclass
class Sensitivity:
    """
    What the controls did to the reference. ``errors``: by process, point and tensor, the largest error of the same
    quantity, in the first step up to that point, later in the whole run. ``losses``: the same for the loss of each
    backward pass. ``loss_means``: the largest mean. ``products``: operators that were rounded in one run.
    """

    runs: int
    products: int
    bits: int
    errors: dict[tuple[Where, Key, str], Error] = field(default_factory=dict)
    losses: dict[Where, list[float]] = field(default_factory=dict)
    loss_means: dict[Where, float] = field(default_factory=dict)

    def of(self, where: Where, point: Point, name: str) -> Error:
        """How far rounding moved this tensor; nothing for one the controls did not have."""
        return self.errors.get((where, point.key, name), metrics.NONE)

    @property
    def moved(self) -> bool:
        """Whether the controls differ from the reference at all."""
        return any(error.mean > 0.0 for error in self.errors.values()) or any(map(any, self.losses.values()))

    def figures(self) -> ControlFigures:
        """For the verdict, before anything was judged."""
        return ControlFigures(
            self.runs,
            self.products,
            self.bits,
            FACTOR,
            loss_mean=max(self.loss_means.values(), default=0.0),
            loss_largest=max((losses[-1] for losses in self.losses.values() if losses), default=0.0),
        )


def admits(error: Error, control: Error) -> bool:
    """Whether an error is within what rounding explains."""
    return error.mean <= FACTOR * control.mean and error.single <= FACTOR * max(control.single, control.mean)


def times(error: Error, control: Error) -> float:
    """How many times the control's error this one is."""
    single = max(control.single, control.mean)
    return max(
        error.mean / control.mean if control.mean else 0.0,
        error.single / single if single else 0.0,
    )


def wanted(found: Verdict) -> bool:
    """
    Whether a control could change this verdict: on a profile that rounds, and where nothing but numbers differs that
    rounding could have moved.
    """
    return (
        found.profile != "exact"
        and found.status is Status.MISMATCH
        and found.total_differences == len(found.differences)
        and all(d.category is Category.NUMBERS and d.kind != "state" for d in found.differences)
    )


def measure(reference: Trace, controls: Sequence[Trace]) -> Sensitivity:
    """The sensitivity of a program from its reference and control runs of it."""
    rounded = [event for process in controls[0].processes for event in process.of("rounding")]
    found = Sensitivity(
        len(controls),
        sum(int(event["products"]) for event in rounded),
        min((int(event["bits"]) for event in rounded if event["bits"]), default=0),
    )
    others = [align.runs(trace) for trace in controls]
    for where, run in align.runs(reference).items():
        answers = [other[where] for other in others if where in other]
        _points(found, where, run, answers)
        _losses(found, where, run, answers)
    return found


def _points(found: Sensitivity, where: Where, run: align.Run, answers: list[align.Run]) -> None:
    so_far: dict[tuple[Any, str], Error] = {}
    later: list[tuple[tuple[Where, Key, str], tuple[Any, str]]] = []
    for point in run.points:
        floor = quantities.floor_of(point)
        for name, row in point.outputs.items():
            quantity = (_quantity(point), name)
            largest = so_far.get(quantity, metrics.NONE)
            for answer in answers:
                error = _error(row, answer.by_key.get(point.key), name, floor)
                largest = Error(max(largest.mean, error.mean), max(largest.single, error.single))
            so_far[quantity] = largest
            if point.step == 0:
                found.errors[where, point.key, name] = largest
            else:
                later.append(((where, point.key, name), quantity))
    found.errors.update({place: so_far[quantity] for place, quantity in later})


def _quantity(point: Point) -> Any:
    """What is one quantity through a run: the same tensor of the same call, whichever step it is."""
    if point.kind == "grad":
        return point.kind, point.title
    if point.kind == "parameters":
        return point.kind, point.key[1]
    if point.kind in ("op", "collective", "autograd"):
        return point.key[:-1], point.site
    return point.key[:-1]


def _error(row: Row, answer: Point | None, name: str, floor: float) -> Error:
    other = answer.outputs.get(name) if answer is not None else None
    if other is None or other.stats is None or row.stats is None or other.kind.shape != row.kind.shape:
        return metrics.NONE
    if other.stats.nonfinite != row.stats.nonfinite:
        return metrics.NONE
    return quantities.error_of(row, other, floor, KINKS)


def _losses(found: Sensitivity, where: Where, run: align.Run, answers: list[align.Run]) -> None:
    curves = [[metrics.relative(x, y) for (_, x), (_, y) in zip(run.losses, a.losses, strict=False)] for a in answers]
    steps = [step for step, _ in run.losses]
    first = steps.count(0)
    whole = max((max(curve) for curve in curves if curve), default=0.0)
    start = [max((max(curve[: n + 1]) for curve in curves if curve), default=0.0) for n in range(first)]
    found.losses[where] = start + [whole] * (len(steps) - first)
    found.loss_means[where] = max((sum(curve) / len(curve) for curve in curves if curve), default=0.0)


def admit(figures: ControlFigures | None, what: str, error: Error, control: Error, within_limit: bool = False) -> bool:
    """
    Whether rounding explains an error that is beyond the table; counted in the figures if it does. ``error`` and
    ``control`` without ``KINKS`` elements; ``within_limit``: without them the error is not beyond the table.
    """
    reached = control.mean > 0.0 or control.single > 0.0
    if figures is None or not (admits(error, control) or (reached and within_limit)):
        return False
    figures.admitted += 1
    if times(error, control) > figures.largest:
        figures.largest, figures.what = times(error, control), what
    return True
