"""What is measured between two records of one thing: its class in the table of limits, its error, its name."""

from __future__ import annotations

import math

from mlu_backend.parity import metrics, tolerance
from mlu_backend.parity.align import Point
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.trace import Row


def class_of(point: Point) -> str:
    """Its operator class in the table of limits."""
    if point.kind in ("state", "loss", "parameters"):
        return point.kind
    if point.kind in ("grad", "grads", "autograd", "saved"):
        return "gradient"
    if point.kind == "call":
        return tolerance.class_of_module(point.type)
    if point.kind == "op":
        return tolerance.class_of_operator(point.type)
    return "composite"


def owner_of(point: Point, name: str) -> str:
    """The module a named tensor belongs to: for parameters the name says it."""
    if point.kind in ("state", "grads", "parameters") and "." in name:
        return name.rsplit(".", 1)[0]
    return point.path


def error_of(x: Row, y: Row, floor: float = 0.0, leave_out: int = 0) -> Error:
    """The error of ``y`` as far as the records show it."""
    if x.stats is None or y.stats is None:
        return metrics.NONE
    return metrics.of_stats(x.stats, y.stats, count_of(x), floor, leave_out)


def count_of(row: Row) -> int:
    """Number of elements."""
    count = 1
    for size in row.kind.shape:
        count *= size
    return count


def floor_of(point: Point) -> float:
    """
    For the gradients of a step: a share of the largest of them. A bias in front of a normalisation has the gradient
    zero, and what is computed for it is rounding on both sides.
    """
    if point.kind != "grads":
        return 0.0
    sizes = [row.stats.norm / math.sqrt(count_of(row)) for row in point.outputs.values() if row.stats and count_of(row)]
    return tolerance.SMALL_GRADIENT * max(sizes, default=0.0)


def brief(row: Row) -> str:
    """A tensor in a few words."""
    s = row.stats
    if s is None:
        return "unreadable"
    if len(s.sample) == 1:
        return f"{s.sample[0]:.9g}"
    return f"norm {s.norm:.7g}, mean {s.mean:.4g}, min {s.min:.4g}, max {s.max:.4g}"
