"""
From a difference to a place in the code: the line, the edits on it, and the operator inside the call that differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlu_backend.parity import align, metrics, tolerance
from mlu_backend.parity.editmap import EditMap
from mlu_backend.parity.findings import Category, Difference, Verdict
from mlu_backend.parity.options import Focus
from mlu_backend.parity.trace import Process, Row, Trace

NEAR = 8


def attach_edits(verdict: Verdict, edits: EditMap) -> None:
    """
    Give differences the edits that could have made them: those on the line of the call, else those in the module's
    ``forward``, else the nearest above the call. Each gets a word that says which of these it is.
    """
    for difference in verdict.differences[:50]:
        difference.edits = edits_of(difference, edits)


def edits_of(difference: Difference, edits: EditMap) -> list[dict[str, Any]]:
    """The edits of one difference, nearest first; empty where no edit is near."""
    operator = difference.operator or {}
    if operator.get("site"):
        found = edits.at(operator["site"][0], operator["site"][1])
        if found:
            return [_shown(e, operator["site"][0], "on this line") for e in reversed(found)]
    if difference.site:
        path, line, _ = difference.site
        found = edits.at(path, line)
        if found:
            return [_shown(e, path, "on this line") for e in reversed(found)]
    if difference.source:
        path, first, last = difference.source
        found = edits.within(path, first, last)
        if found:
            return [_shown(e, path, "in this function") for e in found]
    if difference.site:
        path, line, _ = difference.site
        found = edits.within(path, max(1, line - NEAR), line + NEAR)
        return [_shown(e, path, "near this line") for e in sorted(found, key=lambda e: abs(e["lines"][0] - line))]
    return []


def _shown(edit: dict[str, Any], path: str, where: str) -> dict[str, Any]:
    return {
        "code": edit["code"],
        "name": edit.get("name", ""),
        "path": path,
        "line": edit["lines"][0],
        "where": where,
        "before": edit.get("before", ""),
        "after": edit.get("after", ""),
    }


def focus_of(difference: Difference | None) -> Focus | None:
    """
    What to record again, operator by operator, to find the operator that differs; None where that would say no more.
    """
    if difference is None or difference.outputs is None or difference.rank != 0:
        return None
    if difference.kind == "call" and difference.path:
        return Focus(difference.path, difference.nth, difference.step)
    if difference.kind in ("grad", "grads", "curve"):
        return Focus(difference.path, 0, difference.step, backward=True)
    return None


def operator_of(
    reference: Trace, candidate: Trace, profile: str, extra: tuple[tolerance.Limit, ...] = ()
) -> dict[str, Any] | None:
    """
    The first operator whose inputs agree and whose output does not, from two traces that hold operators with their
    tensors; else the first one that one side lacks; None if all agree. ``truth`` holds the error of both sides against
    float64.
    """
    ours, theirs = align.runs(reference), align.runs(candidate)
    for key in [k for k in ours if k in theirs]:
        a_run, b_run = ours[key], theirs[key]
        a_ops = [p for p in a_run.points if p.kind == "op"]
        b_ops = [p for p in b_run.points if p.kind == "op"]
        for a, b in zip(a_ops, b_ops, strict=False):
            if a.type != b.type:
                return {"name": a.type, "instead": b.type, "site": b.site, "reference_site": a.site}
            found = _operator(a, b, a_run.process, b_run.process, profile, extra)
            if found:
                return found
        if len(a_ops) != len(b_ops):
            left = (a_ops[len(b_ops) :] or b_ops[len(a_ops) :])[0]
            return {"name": left.type, "instead": "nothing", "site": left.site, "reference_site": left.site}
    return None


def _operator(
    a: align.Point, b: align.Point, ours: Process, theirs: Process, profile: str, extra: tuple[tolerance.Limit, ...]
) -> dict[str, Any] | None:
    incoming = _largest(a.inputs, b.inputs, a, b, ours, theirs, "in")
    outgoing = _largest(a.outputs, b.outputs, a, b, ours, theirs, "out")
    dtypes = [row.kind.dtype for row in a.outputs.values()] or ["float32"]
    limit = tolerance.find(profile, tolerance.class_of_operator(a.type), dtypes[0], extra)
    changed = [
        (x.kind, y.kind)
        for name, x in a.outputs.items()
        if (y := b.outputs.get(name)) and (x.kind.shape, x.kind.dtype) != (y.kind.shape, y.kind.dtype)
    ]
    if not changed and (a.random or limit.admits(outgoing.mean, outgoing.single, incoming.mean, incoming.single)):
        if not a.random or outgoing.mean == 0.0:
            return None
    found: dict[str, Any] = {
        "name": a.type,
        "site": b.site,
        "reference_site": a.site,
        "inputs": {"mean": incoming.mean, "single": incoming.single},
        "outputs": {"mean": outgoing.mean, "single": outgoing.single},
        "limit": {"mean": limit.mean, "single": limit.single, "source": limit.source},
        "random": a.random,
    }
    if changed:
        found["structure"] = (
            f"{changed[0][0].dtype} {list(changed[0][0].shape)} in the reference, "
            f"{changed[0][1].dtype} {list(changed[0][1].shape)} in the candidate"
        )
    if a.truth and b.truth:
        found["truth"] = {"reference": a.truth, "candidate": b.truth}
    return found


def _largest(
    x: Mapping[str, Row],
    y: Mapping[str, Row],
    a: align.Point,
    b: align.Point,
    ours: Process,
    theirs: Process,
    side: str,
) -> metrics.Error:
    mean = single = 0.0
    for name, row in x.items():
        other = y.get(name)
        if other is None or row.stats is None or other.stats is None or row.kind.shape != other.kind.shape:
            continue
        if row.stats.checksum == other.stats.checksum:
            continue
        error = _error(
            row, other, ours.tensor(str(a.numbers[f"{side}:{name}"])), theirs.tensor(str(b.numbers[f"{side}:{name}"]))
        )
        mean, single = max(mean, error.mean), max(single, error.single)
    return metrics.Error(mean, single)


def _error(row: Row, other: Row, ours: Any, theirs: Any) -> metrics.Error:
    """From whole tensors where they were kept, else from the statistics."""
    if ours is not None and theirs is not None and ours.shape == theirs.shape:
        return metrics.of_tensors(ours, theirs)
    count = 1
    for size in row.kind.shape:
        count *= size
    assert row.stats is not None and other.stats is not None
    return metrics.of_stats(row.stats, other.stats, count)


def truth_of(reference: Trace, candidate: Trace, difference: Difference) -> dict[str, Any] | None:
    """
    The errors of both sides of a module call against what the *reference's* module gives in float64, from traces that
    have looked closer at it. None where it could not be asked, or an output was not kept.
    """
    ours, theirs = _call(reference, difference), _call(candidate, difference)
    if ours is None or theirs is None or not ours[1].exact:
        return None
    found: dict[str, dict[str, float]] = {}
    for side, (process, point) in (("reference", ours), ("candidate", theirs)):
        mean = single = 0.0
        for name, key in ours[1].exact.items():
            exact = ours[0].tensor(key)
            got = process.tensor(str(point.numbers.get(f"out:{name}", "")))
            if exact is None or got is None or exact.shape != got.shape:
                return None
            error = metrics.of_tensors(exact, got)
            mean, single = max(mean, error.mean), max(single, error.single)
        found[side] = {"mean": mean, "single": single}
    return found


def _call(side: Trace, difference: Difference) -> tuple[Process, align.Point] | None:
    for run in align.runs(side).values():
        for point in run.points:
            if point.kind == "call" and point.path == difference.path and point.nth == difference.nth:
                return run.process, point
    return None


LIKE_THE_TRUTH = 0.1
"""A reference further than this from the float64 result computes something else, and says nothing about rounding.
Ours, a judgement: three times 3.2e-2, the widest limit of a single element in the table."""


def both_inexact(truth: Mapping[str, Any] | None) -> bool:
    """
    Whether the candidate is as near to the float64 result as the reference is: then neither is wrong, and the
    difference between them is their rounding. "As near" is within twice the reference's error (four times for a single
    element, which is a maximum and so varies more).
    """
    if not truth:
        return False
    ours, theirs = truth["reference"], truth["candidate"]
    if not 0.0 < ours["mean"] <= LIKE_THE_TRUTH:
        return False
    return bool(theirs["mean"] <= 2 * ours["mean"] and theirs["single"] <= 4 * ours["single"])


def is_alone(verdict: Verdict) -> bool:
    """Whether every other difference is in numbers and came in with its inputs: then what holds of the first holds."""
    for difference in verdict.differences:
        if difference is verdict.first:
            continue
        came_in = difference.inputs is not None and (difference.inputs.mean > 0.0 or difference.inputs.single > 0.0)
        if difference.category is not Category.NUMBERS or difference.kind == "curve" or not came_in:
            return False
    return verdict.first is not None and verdict.first.category is Category.NUMBERS
