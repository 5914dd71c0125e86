"""How long the hand work of a migration may take: a rough figure with a method that can be read and argued with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mlu_migrate.model import Finding, RunResult, Safety, Severity

# Minutes for the first finding of a kind (one code and one message), which has to be understood, and for each more.
# Estimates of ours, not measurements: they are printed beside the result.
FIRST = {Severity.ERROR: 45.0, Severity.WARNING: 12.0, Severity.INFO: 1.0}
MORE = {Severity.ERROR: 8.0, Severity.WARNING: 2.0, Severity.INFO: 0.1}
GUESS_FIRST, GUESS_MORE = 3.0, 0.5
REVIEW = 0.1  # minutes to read one change that was made


@dataclass(frozen=True, slots=True)
class Effort:
    """Minutes of hand work by what they are spent on."""

    cannot: float
    check: float
    guesses: float
    review: float

    @property
    def total(self) -> float:
        """All minutes."""
        return self.cannot + self.check + self.guesses + self.review


def estimate(run: RunResult) -> Effort:
    """The effort for what a run has left, and for reading what it did."""
    cannot = check = guesses = 0.0
    seen: Counter[tuple[str, str]] = Counter()
    for finding in run.findings:
        if finding.applied or (finding.safety is Safety.SAFE and finding.edits):
            continue
        kind = (finding.code, finding.message_id + finding.args.get("package", finding.args.get("name", "")))
        first = not seen[kind]
        seen[kind] += 1
        minutes = _minutes(finding, first)
        if finding.safety is Safety.UNSAFE:
            guesses += minutes
        elif finding.severity is Severity.ERROR:
            cannot += minutes
        else:
            check += minutes
    made = sum(finding.applied or (finding.safety is Safety.SAFE and bool(finding.edits)) for finding in run.findings)
    return Effort(cannot, check, guesses, made * REVIEW)


def _minutes(finding: Finding, first: bool) -> float:
    if finding.safety is Safety.UNSAFE:
        return GUESS_FIRST if first else GUESS_MORE
    return (FIRST if first else MORE)[finding.severity]
