"""The judgement of the loss curve: the first step, the mean of all and the largest, each against its limit."""

from __future__ import annotations

from mlu_backend.parity import control, tolerance
from mlu_backend.parity.control import Sensitivity, Where
from mlu_backend.parity.findings import Category, Difference, Verdict
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.tolerance import Limit


def judge(
    verdict: Verdict, extra: tuple[Limit, ...] = (), sensitivity: Sensitivity | None = None, where: Where = (0, 0)
) -> Difference | None:
    """
    Fill in what the verdict says of its losses, and give the difference if they are beyond the limit and beyond what
    rounding alone does to them.
    """
    if not verdict.losses:
        return None
    verdict.loss_limit = limit = tolerance.find(verdict.profile, "loss", "float32", extra)
    errors = [row.error for row in verdict.losses]
    mean = sum(errors) / len(errors)
    verdict.first_step = _against(errors[0], limit.single, "first-step loss")
    verdict.loss_curve = _against(mean, limit.mean, f"loss over {len(errors)} backward passes, mean") + (
        f"; {_against(max(errors), limit.single, 'largest')}"
    )
    over = [number for number, error in enumerate(errors) if error > limit.single]
    beyond = [n for n in over if not _admitted(verdict, n, errors[n], sensitivity, where)]
    if not beyond and mean > limit.mean and not _mean_admitted(verdict, mean, sensitivity, where):
        beyond = [errors.index(max(errors))]
    if not beyond:
        return None
    row = verdict.losses[beyond[0]]
    return Difference(
        Category.NUMBERS,
        f"loss of step {row.step}",
        f"{row.reference:.8g}",
        f"{row.candidate:.8g}",
        step=row.step,
        kind="curve",
        outputs=Error(mean, row.error),
        limit=limit,
        order=1 << 60,
    )


def _admitted(verdict: Verdict, number: int, error: float, sensitivity: Sensitivity | None, where: Where) -> bool:
    losses = sensitivity.losses.get(where, []) if sensitivity is not None else []
    moved = losses[number] if number < len(losses) else 0.0
    what = f"loss of step {verdict.losses[number].step}"
    return control.admit(verdict.control, what, Error(error, error), Error(moved, moved))


def _mean_admitted(verdict: Verdict, mean: float, sensitivity: Sensitivity | None, where: Where) -> bool:
    moved = sensitivity.loss_means.get(where, 0.0) if sensitivity is not None else 0.0
    return control.admit(verdict.control, "mean of the losses", Error(mean, mean), Error(moved, moved))


def _against(value: float, limit: float, what: str) -> str:
    return f"{what} differs by {value:.1e} ({'within' if value <= limit else 'beyond'} {limit:.0e})"
