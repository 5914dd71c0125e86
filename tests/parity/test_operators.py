"""Operators that change their arguments: what they were given, what they made of it."""

from __future__ import annotations

from collections.abc import Callable

from mlu_backend.parity import align, trace
from mlu_backend.parity.align import Point

Recorded = Callable[..., trace.Trace]

SOURCE = """\
import torch
with torch.no_grad():
    x = torch.zeros(3)
    x.add_(1)
    y = torch.empty(3).fill_(2)
    y.copy_(x)
    torch.mul(x, 3, out=y)
    torch._foreach_add_([x, y], 1)
"""


def operators(read: trace.Trace) -> dict[str, Point]:
    (run,) = align.runs(read).values()
    return {p.type: p for p in run.points if p.kind == "op"}


def means(rows: dict[str, trace.Row]) -> list[float]:
    return [row.stats.mean for row in rows.values() if row.stats is not None]


def test_what_an_operator_made_in_place_is_not_what_it_was_given(recorded: Recorded) -> None:
    point = operators(recorded(SOURCE, level="op"))["aten::add_.Tensor"]
    assert means(point.inputs) == [0.0] and means(point.outputs) == [1.0]


def test_memory_that_is_only_written_to_is_no_input(recorded: Recorded) -> None:
    found = operators(recorded(SOURCE, level="op"))
    fill, copy, out = (found[f"aten::{name}"] for name in ("fill_.Scalar", "copy_", "mul.out"))
    assert means(fill.inputs) == [] and means(fill.outputs) == [2.0]
    assert means(copy.inputs) == [1.0] and means(copy.outputs) == [1.0]
    assert means(out.inputs) == [1.0] and means(out.outputs) == [3.0]


def test_what_lists_of_tensors_became_in_place_is_recorded(recorded: Recorded) -> None:
    point = operators(recorded(SOURCE, level="op"))["aten::_foreach_add_.Scalar"]
    assert means(point.inputs) == [1.0, 3.0] and means(point.outputs) == [2.0, 4.0]
