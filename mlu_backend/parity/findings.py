"""
What a judgement is made of: status, differences, the loss curve. Plain records; ``verdict`` fills them, ``report``
prints them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mlu_backend.parity.metrics import Error
from mlu_backend.parity.tolerance import Limit


class Status(str, enum.Enum):
    """What the comparison came to."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NOT_JUDGED = "not judged"

    @property
    def exit_code(self) -> int:
        """0, 1 and 2."""
        return {"match": 0, "mismatch": 1, "not judged": 2}[self.value]


class Category(str, enum.Enum):
    """In the order of judgement."""

    CONFIGURATION = "configuration"
    STRUCTURE = "structure"
    NONFINITE = "non-finite"
    NUMBERS = "numbers"


@dataclass
class Difference:
    """
    One thing that differs. ``inputs`` and ``outputs`` are the errors before and after the call; ``reference`` and
    ``candidate`` are what was found, as text. ``edits`` are filled in by ``locate``.
    """

    category: Category
    what: str
    reference: str = ""
    candidate: str = ""
    path: str = ""
    step: int = 0
    rank: int = 0
    order: int = 0
    site: tuple[str, int, str] | None = None
    source: tuple[str, int, int] | None = None
    inputs: Error | None = None
    outputs: Error | None = None
    limit: Limit | None = None
    kind: str = ""
    nth: int = 0
    type: str = ""
    random: bool = False
    edits: list[dict[str, Any]] = field(default_factory=list)
    operator: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LossRow:
    """The loss of one backward pass on both sides, and the line of the candidate that started the pass."""

    step: int
    reference: float
    candidate: float
    error: float
    site: tuple[str, int, str] | None = None


@dataclass
class ControlFigures:
    """
    What the rounding control found (``control``): ``runs`` of the reference with ``products`` operators rounded to
    ``bits`` on another grid. ``admitted``: quantities beyond the table of limits but within ``factor`` times what the
    control moved them; ``largest`` is the largest such multiple, of ``what``. ``loss_mean``, ``loss_largest``: how far
    the control moved the loss.
    """

    runs: int
    products: int
    bits: int
    factor: float
    admitted: int = 0
    largest: float = 0.0
    what: str = ""
    loss_mean: float = 0.0
    loss_largest: float = 0.0


@dataclass
class Verdict:
    """
    Everything a report says. ``differences`` are those kept, ``total_differences`` and ``totals`` count all.
    ``layers``: largest mean error by module path and step.
    """

    status: Status
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    total_differences: int = 0
    totals: dict[Category, int] = field(default_factory=dict)
    first: Difference | None = None
    losses: list[LossRow] = field(default_factory=list)
    loss_limit: Limit | None = None
    first_step: str = ""
    loss_curve: str = ""
    layers: dict[str, dict[int, float]] = field(default_factory=dict)
    worst: list[dict[str, Any]] = field(default_factory=list)
    compared: int = 0
    equal: int = 0
    within: int = 0
    unreadable: int = 0
    calls: int = 0
    steps: int = 0
    ranks: int = 0
    profile: str = "exact"
    reference: str = ""
    coverage: dict[str, Any] | None = None
    control: ControlFigures | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    title: str = ""

    def count(self, difference: Difference) -> None:
        """One more difference, whether it is kept or not."""
        self.total_differences += 1
        self.totals[difference.category] = self.totals.get(difference.category, 0) + 1

    def unsettle(self, reasons: Sequence[str]) -> None:
        """What leaves a match unproven makes it none; beside differences it is a note."""
        if reasons and self.status is Status.MATCH:
            self.status = Status.NOT_JUDGED
            self.reasons += reasons
        else:
            self.notes += reasons


def not_judged(*reasons: str, **fields: Any) -> Verdict:
    """A verdict that is none."""
    return Verdict(Status.NOT_JUDGED, reasons=list(reasons), **fields)
