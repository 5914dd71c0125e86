"""
Two traces that were recorded elsewhere, each by a command of its own: whether they can be compared at all, and what is
said where that is so in part only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mlu_backend.parity import control, verdict
from mlu_backend.parity.findings import Verdict, not_judged
from mlu_backend.parity.trace import Trace, TraceError
from mlu_backend.parity.verdict import Question

_NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError)


def judge(reference: Trace, candidate: Trace, question: Question) -> Verdict:
    """The verdict on two traces. Raises TraceError for one whose events cannot be understood."""
    asked = [int(side.meta.get("steps") or 0) for side in (reference, candidate)]
    if asked[0] != asked[1]:
        ours, theirs = (f"--steps {n}" if n else "no --steps" for n in asked)
        return not_judged(
            f"the reference was recorded with {ours} and the candidate with {theirs}: record both alike",
            profile=question.profile,
        )
    levels = [side.meta.get("level", "module") for side in (reference, candidate)]
    if levels[0] != levels[1]:
        question = replace(question, steps_only=True)
    found = _judge(reference, candidate, question)
    if levels[0] != levels[1]:
        found.notes.insert(
            0,
            f"the reference was recorded with --level {levels[0]}, the candidate with --level {levels[1]}: "
            "only steps were compared",
        )
    found.notes += _notes(reference, candidate, found)
    return found


def _notes(reference: Trace, candidate: Trace, found: Verdict) -> Iterator[str]:
    seeds = [side.meta.get("seed") for side in (reference, candidate)]
    if seeds[0] != seeds[1]:
        yield f"the reference was recorded with seed {seeds[0]}, the candidate with seed {seeds[1]}"
    if control.wanted(found):
        yield (
            "what rounding alone does to this program cannot be measured from two traces, so the table of limits "
            f"judged for {found.profile}; a program that amplifies rounding goes beyond it without a fault, and "
            "mlu-migrate parity, which can run the reference again, tells the two apart"
        )


def _judge(reference: Trace, candidate: Trace, question: Question) -> Verdict:
    """An edited or foreign trace can hold anything in its events."""
    try:
        return verdict.judge(reference, candidate, question)
    except _NOT_UNDERSTOOD as error:
        for side in (reference, candidate):
            _understand(side)
        raise TraceError(f"{reference.path}, {candidate.path}: {_said(error)}") from error


def _understand(side: Trace) -> None:
    try:
        verdict.judge(side, side, Question(need_device=False))
    except _NOT_UNDERSTOOD as error:
        raise TraceError(f"{side.path}: damaged, or made by another program: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"an event cannot be understood ({type(error).__name__}: {error})"
