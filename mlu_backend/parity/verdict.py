"""
The judgement of two traces: environment and configuration first, then structure, non-finite pattern, checksum, numbers.

A verdict is one of three. ``match``: everything recorded agrees within the limits. ``mismatch``: something does not.
``not judged``: a comparison that could not have failed, or that says nothing about the migration; the reasons are
given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlu_backend.parity import align, control, curve, divergence, draws, ending, metrics, quantities, tolerance
from mlu_backend.parity.align import Pair, Point
from mlu_backend.parity.configuration import apart, compiles, configuration
from mlu_backend.parity.control import Sensitivity
from mlu_backend.parity.findings import Category, Difference, LossRow, Status, Verdict, not_judged
from mlu_backend.parity.metrics import Error
from mlu_backend.parity.tolerance import Limit
from mlu_backend.parity.trace import Row, Trace

KEPT = 500


@dataclass(frozen=True, slots=True)
class Question:
    """
    What is asked of two traces. ``reference``: emulated-cuda, cpu or trace; ``need_device`` false is for tests of two
    references, ``same_files`` for comparing one program on two devices, where nothing was migrated. ``controlled``: a
    rounding control can be run; ``sensitivity`` is what it measured of this program.
    """

    profile: str = "exact"
    reference: str = "emulated-cuda"
    extra: tuple[Limit, ...] = ()
    need_device: bool = True
    same_files: bool = False
    steps_only: bool = False
    controlled: bool = False
    sensitivity: Sensitivity | None = None


def vacuous(reference: Trace, candidate: Trace, question: Question) -> list[str]:
    """Why a comparison of these traces would prove nothing; empty if it proves something."""
    reasons = []
    for name, trace in (("reference", reference), ("candidate", candidate)):
        if not any(e["k"] in align.NUMERIC for p in trace.processes for e in p.events):
            reasons.append(
                f"nothing was recorded in the {name} run: "
                "it called no module, made no backward pass and no optimizer step"
            )
    if reasons:
        return reasons
    if question.need_device and not any(row.kind.device == "mlu" for p in candidate.processes for row in p.rows):
        reasons.append("no tensor of the candidate lived on mlu: the migrated program ran on the CPU only")
    if question.need_device and candidate.meta.get("route") == "emulated-cuda":
        reasons.append(
            "the candidate is a run of the original, on the emulated GPU: the two traces may have been given in the "
            "wrong order"
        )
    ours, theirs = reference.meta.get("sources"), candidate.meta.get("sources")
    on_gpu = any(row.kind.device == "cuda" for p in reference.processes for row in p.rows)
    if question.need_device and not question.same_files and not on_gpu and ours and theirs and ours == theirs:
        reasons.append("both sides ran the same files: the migration changed nothing of what this command runs")
    return reasons


def judge(reference: Trace, candidate: Trace, question: Question) -> Verdict:
    """Compare two traces."""
    reasons = vacuous(reference, candidate, question)
    if reasons:
        return not_judged(*reasons, profile=question.profile, reference=question.reference)
    ours, theirs = align.runs(reference), align.runs(candidate)
    verdict = Verdict(Status.MATCH, profile=question.profile, reference=question.reference, ranks=len(ours))
    if question.sensitivity is not None:
        verdict.control = question.sensitivity.figures()
    judge_ = _Judge(verdict, question)
    if ours.keys() != theirs.keys():
        judge_.report(
            Difference(Category.CONFIGURATION, "recorded processes (rank, number)", _keys(ours), _keys(theirs))
        )
    for key in [k for k in ours if k in theirs]:
        judge_.process(key, ours[key], theirs[key])
    judge_.finish()
    for text in _troubles(reference, candidate):
        verdict.unsettle([text])
    # A program that failed proves nothing by what it did until then; one that was killed may have done more.
    verdict.unsettle(list(ending.failures(reference, candidate)))
    verdict.notes += ending.cut_off(reference, candidate)
    if verdict.status is Status.MATCH and not verdict.compared:
        verdict.unsettle([f"none of the {verdict.unreadable} recorded tensors has numbers that could be read"])
    return verdict


def _troubles(reference: Trace, candidate: Trace) -> Iterator[str]:
    """What the recorder could not record was not compared."""
    for name, run in (("reference", reference), ("candidate", candidate)):
        texts = [e["text"] for p in run.processes for e in p.of("trouble")]
        if texts:
            yield f"the recorder failed in the {name} run, and what it missed was not compared: {texts[0]}"


def _keys(runs: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{rank}.{number}" if number else str(rank) for rank, number in runs) or "none"


class _Judge:
    def __init__(self, verdict: Verdict, question: Question) -> None:
        self.v, self.q = verdict, question
        self._where = (0, 0)  # process that is being judged
        self._losses: dict[control.Where, list[LossRow]] = {}
        self._apart: dict[control.Where, int | None] = {}  # of programs that compile: when their generators parted
        self._backward: dict[int, Error] = {}  # largest error of a gradient so far, by step
        self._parameters: tuple[int, float] = (0, 0.0)  # step they were last recorded after, and their error then
        self._moved = metrics.NONE  # the largest error of anything in this process so far

    def report(self, difference: Difference) -> None:
        self._moved = metrics.UNRELATED
        self.v.count(difference)
        if len(self.v.differences) < KEPT:
            self.v.differences.append(difference)

    def process(self, where: control.Where, ours: align.Run, theirs: align.Run) -> None:
        """One pair of processes."""
        rank, self._where = ours.rank, where
        self._backward, self._parameters, self._moved = {}, (0, 0.0), metrics.NONE
        if compiles(theirs):
            self._apart[where] = apart(ours, theirs)
        faults, notes = configuration(ours, theirs)
        for difference in faults:
            difference.rank = rank
            self.report(difference)
        self.v.notes.extend(n for n in notes if n not in self.v.notes)
        self.v.steps = max(
            self.v.steps, 1 + max((p.step for p in ours.points if p.kind in ("grads", "loss")), default=-1)
        )
        for pair in align.pairs(ours, theirs):
            missing = ours if pair.reference is None else theirs if pair.candidate is None else None
            if missing is None or not missing.broke_off_before(pair.point):
                self._pair(pair, rank)
        sites = {p.step: p.site for p in reversed(theirs.points) if p.kind == "loss"}
        rows = [
            LossRow(step, x, y, metrics.relative(x, y), sites.get(step))
            for (step, x), (_, y) in zip(ours.losses, theirs.losses, strict=False)
        ]
        if rows:
            self._losses[where] = rows

    def _pair(self, pair: Pair, rank: int) -> None:
        a, b = pair.reference, pair.candidate
        point = pair.point
        if self.q.steps_only and point.kind in ("call", "grad", "op", align.INPUT):
            return
        base: dict[str, Any] = {
            "path": point.path,
            "step": point.step,
            "rank": rank,
            "order": point.order,
            "kind": point.kind,
            "nth": point.nth,
            "type": point.type,
            "random": point.random,
        }
        if point.kind == align.INPUT and not (a and b and self._tells(a, b)):
            return
        if a is None or b is None:
            site = {"site": b.site, "source": b.source} if b else {}
            what, here, there = f"{point.title}, occurrence {int(str(point.key[-1])) + 1}", "happened", "did not happen"
            self.report(
                Difference(Category.STRUCTURE, what, here if a else there, here if b else there, **base, **site)
            )
            return
        base.update(site=b.site, source=b.source)
        if point.kind == "call":
            self.v.calls += 1
        for name in a.facts.keys() | b.facts.keys():
            x, y = a.facts.get(name), b.facts.get(name)
            if x != y and not (name == "autocast" and self.q.reference == "cpu" and x is None):
                self.report(Difference(Category.STRUCTURE, f"{point.title}: {name}", str(x), str(y), **base))
        incoming = self._incoming(a, b)
        for name in [*a.outputs, *(n for n in b.outputs if n not in a.outputs)]:
            if not self._is_generator_state(a, name):
                self._tensor(a, b, name, incoming, base)

    def _is_generator_state(self, point: Point, name: str) -> bool:
        """Checkpoints hold states of generators, bytes in a row, which differ from one kind of device to another."""
        row = point.outputs.get(name)
        if point.kind != "saved" or self.q.reference == "emulated-cuda" or row is None:
            return False
        return row.kind.dtype == "uint8" and len(row.kind.shape) == 1

    def _tells(self, a: Point, b: Point) -> bool:
        """
        Whether inputs that differ are a fault of the data. Programs make inputs of earlier outputs too (the next token,
        an action in a game, a generated picture), so this is known while nothing has moved, and on a profile that does
        not round for what is no choice between whole numbers.
        """
        if self._moved == metrics.NONE:
            return True
        return self.q.profile == "exact" and all("float" in row.kind.dtype for row in a.outputs.values())

    def _incoming(self, a: Point, b: Point) -> Error:
        """
        The error a point was handed: the largest among its inputs, or among the gradients before it in the same
        backward pass; unrelated where the structure of the inputs differs. Parameters that were recorded with an error
        hand it on too, and more of it with each step until they are recorded again.
        """
        if a.kind == align.INPUT:
            return self._moved
        mean = single = 0.0
        if a.kind in ("grad", "grads", "parameters", "saved"):
            before = self._backward.get(a.step, metrics.NONE)
            mean, single = before.mean, before.single
        for name, x in a.inputs.items():
            y = b.inputs.get(name)
            if y is None or x.kind.shape != y.kind.shape:
                return metrics.UNRELATED
            error = quantities.error_of(x, y)
            mean, single = max(mean, error.mean), max(single, error.single)
        step, drift = self._parameters
        # One update made the drift; there was at most one more in each step since, and one in the step itself.
        inherited = drift * (1 + max(0, a.step - step))
        return Error(max(mean, inherited), max(single, inherited))

    def _tensor(self, a: Point, b: Point, name: str, incoming: Error, base: dict[str, Any]) -> None:
        x, y = a.outputs.get(name), b.outputs.get(name)
        label = f"{a.title}: {name}" if name else a.title
        base = dict(base, path=quantities.owner_of(a, name))
        if x is None or y is None:
            self.report(
                Difference(
                    Category.STRUCTURE,
                    label,
                    "there" if x else "absent",
                    "there" if y else "absent",
                    inputs=incoming,
                    **base,
                )
            )
            return
        structure = self._structure(x, y)
        if structure:
            self.report(
                Difference(
                    Category.STRUCTURE, f"{label}: {structure[0]}", structure[1], structure[2], inputs=incoming, **base
                )
            )
            if x.kind.shape != y.kind.shape:
                return
        if x.stats is None or y.stats is None:
            self.v.unreadable += 1
            return
        self.v.compared += 1
        if x.stats.nonfinite != y.stats.nonfinite:
            self.report(
                Difference(
                    Category.NONFINITE,
                    f"{label}: inf and nan",
                    str(x.stats.nonfinite),
                    str(y.stats.nonfinite),
                    inputs=incoming,
                    **base,
                )
            )
            return
        error = quantities.error_of(x, y, quantities.floor_of(a))
        if a.kind == "call":
            steps = self.v.layers.setdefault(a.path, {})
            steps[a.step] = max(steps.get(a.step, 0.0), error.mean)
        if x.stats.checksum == y.stats.checksum:
            self.v.equal += 1
            return
        if a.kind == "loss" and len(x.stats.sample) == 1:
            self.v.within += 1  # judged as a curve, with a difference of its own if that is beyond
            return
        self._hand_on(a, error)
        limit = tolerance.find(
            self.q.profile, quantities.class_of(a), x.kind.dtype, self.q.extra, controlled=self.q.controlled
        )
        if limit.admits(error.mean, error.single, incoming.mean, incoming.single):
            self.v.within += 1
        elif self._is_rounding(a, name, (x, y), label, limit, incoming):
            self.v.within += 1
        elif not structure:
            self.report(
                Difference(
                    Category.NUMBERS,
                    label,
                    quantities.brief(x),
                    quantities.brief(y),
                    inputs=incoming,
                    outputs=error,
                    limit=limit,
                    **base,
                )
            )
        self._rank(label, base, error, limit, incoming)

    def _is_rounding(
        self, point: Point, name: str, rows: tuple[Row, Row], label: str, limit: Limit, incoming: Error
    ) -> bool:
        """Whether what is beyond the limit is explained by what the rounding control did to this program."""
        if self.q.sensitivity is None:
            return False
        error = quantities.error_of(*rows, quantities.floor_of(point), control.KINKS)
        return control.admit(
            self.v.control,
            label if point.kind in ("grads", "parameters") else f"{label}, step {point.step}",
            error,
            self.q.sensitivity.of(self._where, point, name),
            limit.admits(error.mean, error.single, incoming.mean, incoming.single),
        )

    def _hand_on(self, point: Point, error: Error) -> None:
        self._moved = Error(max(self._moved.mean, error.mean), max(self._moved.single, error.single))
        if point.kind in ("grad", "grads"):
            so_far = self._backward.get(point.step, metrics.NONE)
            self._backward[point.step] = Error(max(so_far.mean, error.mean), max(so_far.single, error.single))
        elif point.kind == "parameters":
            step, drift = self._parameters
            self._parameters = (point.step, max(drift if step == point.step else 0.0, error.mean))

    def _structure(self, x: Row, y: Row) -> tuple[str, str, str] | None:
        if x.kind.shape != y.kind.shape:
            return "shape", str(list(x.kind.shape)), str(list(y.kind.shape))
        if x.kind.dtype != y.kind.dtype:
            return "dtype", x.kind.dtype, y.kind.dtype
        if self.q.reference != "cpu" and x.kind.role != y.kind.role:
            return "device", x.kind.device, y.kind.device
        if (x.stats is None) != (y.stats is None):
            return "readable", str(x.stats is not None), str(y.stats is not None)
        return None

    def _rank(self, label: str, base: dict[str, Any], error: Error, limit: Limit, incoming: Error) -> None:
        over = max(
            error.mean / limit.mean if limit.mean else float(error.mean > 0) * 1e9,
            error.single / limit.single if limit.single else float(error.single > 0) * 1e9,
        )
        row = {
            "what": label,
            "path": base["path"],
            "step": base["step"],
            "rank": base["rank"],
            "mean": error.mean,
            "single": error.single,
            "inputs": incoming.mean,
            "limit": limit.mean,
            "over": over,
        }
        worst = self.v.worst
        worst.append(row)
        if len(worst) > 200:
            worst.sort(key=lambda r: -r["over"])
            del worst[10:]

    def finish(self) -> None:
        """Curve, order of differences, status."""
        v = self.v
        v.worst = sorted(v.worst, key=lambda r: -r["over"])[:10]
        for beyond in curve.judge(v, self._losses, self.q.extra, self.q.sensitivity):
            self.report(beyond)
        v.differences.sort(key=lambda d: (d.category is not Category.CONFIGURATION, d.step, d.order, d.rank))
        v.first = divergence.first(v.differences)
        if v.differences:
            v.status = Status.MISMATCH
            reason = draws.unrepeatable(v.first, self.q.reference, self._apart)
            if reason:
                v.status = Status.NOT_JUDGED
                v.reasons.append(reason)
