"""The judgement of the loss curve: the first step, the mean of all and the largest, each against its limit."""

from __future__ import annotations

from collections.abc import Mapping

from mlu_backend.parity import control, tolerance
from mlu_backend.parity.control import Sensitivity, Where
from mlu_backend.parity.findings import Category, Difference, LossRow, Verdict
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.tolerance import Limit
from mlu_backend.parity.wording import counted


def judge(
    verdict: Verdict,
    losses: Mapping[Where, list[LossRow]],
    extra: tuple[Limit, ...] = (),
    sensitivity: Sensitivity | None = None,
) -> list[Difference]:
    """
    The differences of the processes whose losses are beyond the limit and beyond what rounding alone does to them, one
    for each. What the verdict says of losses is filled in for the first of these processes, else for the first of all.
    """
    verdict.loss_limit = limit = tolerance.find(verdict.profile, "loss", "float32", extra)
    found = {where: _judge(verdict, rows, limit, sensitivity, where) for where, rows in losses.items()}
    differences = [d for d in found.values() if d is not None]
    shown = next((where for where, d in found.items() if d is not None), next(iter(losses), None))
    if shown is not None:
        _show(verdict, losses[shown], limit, _process(shown) if len(losses) > 1 else "")
    return differences


def _process(where: Where) -> str:
    rank, number = where
    return f" of rank {rank}" + (f", process {number + 1}" if number else "")


def _show(verdict: Verdict, rows: list[LossRow], limit: Limit, of: str) -> None:
    verdict.losses = rows
    errors = [row.error for row in rows]
    passes = counted(len(errors), "backward pass")
    if not any(errors):
        verdict.first_step = f"first-step loss{of} is equal"
        verdict.loss_curve = f"loss{of} over {passes} is equal"
        return
    verdict.first_step = _against(errors[0], limit.single, f"first-step loss{of}")
    verdict.loss_curve = (
        f"{_against(sum(errors) / len(errors), limit.mean, f'loss{of} over {passes}, mean')}; "
        f"{_against(max(errors), limit.single, 'largest')}"
    )


def _judge(
    verdict: Verdict, rows: list[LossRow], limit: Limit, sensitivity: Sensitivity | None, where: Where
) -> Difference | None:
    errors = [row.error for row in rows]
    mean = sum(errors) / len(errors)
    over = [number for number, error in enumerate(errors) if error > limit.single]
    beyond = [n for n in over if not _admitted(verdict, rows[n], errors[n], sensitivity, where, n)]
    if not beyond and mean > limit.mean and not _mean_admitted(verdict, mean, sensitivity, where):
        beyond = [errors.index(max(errors))]
    if not beyond:
        return None
    row = rows[beyond[0]]
    return Difference(
        Category.NUMBERS,
        f"loss of step {row.step}",
        f"{row.reference:.8g}",
        f"{row.candidate:.8g}",
        step=row.step,
        rank=where[0],
        kind="curve",
        site=row.site,
        outputs=Error(mean, row.error),
        limit=limit,
        order=1 << 60,
    )


def _admitted(
    verdict: Verdict, row: LossRow, error: float, sensitivity: Sensitivity | None, where: Where, number: int
) -> bool:
    losses = sensitivity.losses.get(where, []) if sensitivity is not None else []
    moved = losses[number] if number < len(losses) else 0.0
    return control.admit(verdict.control, f"loss of step {row.step}", Error(error, error), Error(moved, moved))


def _mean_admitted(verdict: Verdict, mean: float, sensitivity: Sensitivity | None, where: Where) -> bool:
    moved = sensitivity.loss_means.get(where, 0.0) if sensitivity is not None else 0.0
    return control.admit(verdict.control, "mean of the losses", Error(mean, mean), Error(moved, moved))


def _against(value: float, limit: float, what: str) -> str:
    return f"{what} differs by {value:.1e} ({'within' if value <= limit else 'beyond'} {limit:.0e})"
