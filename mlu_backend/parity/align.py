"""
Puts the records of two runs side by side: which process answers which, and which event which.

Events are matched by what they are (the third call of ``Net.conv1``, the gradients of step 2), never by position
alone, so one missing call does not make everything after it look wrong. Execution order is kept from the reference.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mlu_backend.parity.trace import Process, Row, Trace

Key = tuple[Hashable, ...]
NUMERIC = ("state", "call", "op", "loss", "grad", "grads", "parameters", "collective", "autograd", "saved")
_AVERAGING = ("torch.nn.modules.batchnorm.", "torch.nn.modules.instancenorm.")
"""Modules that follow averages, whose options a training may not show."""
INPUT = "input"
"""What the program hands to a module that it calls from outside any other: a point of its own, before the call."""


@dataclass
class Point:
    """
    One matched thing: an event with its measured tensors. ``inputs`` are what it was given, ``outputs`` what it made,
    each with a name. ``facts`` are compared for equality.
    """

    key: Key
    kind: str
    title: str
    step: int
    order: int
    inputs: dict[str, Row] = field(default_factory=dict)
    outputs: dict[str, Row] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    type: str = ""
    nth: int = 0
    site: tuple[str, int, str] | None = None
    source: tuple[str, int, int] | None = None
    random: bool = False
    truth: dict[str, Any] | None = None
    exact: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass
class Run:
    """One process of one run, as points in order."""

    process: Process
    points: list[Point]
    by_key: dict[Key, Point]
    losses: list[tuple[int, float]]
    lr: dict[int, list[float]]

    @property
    def rank(self) -> int:
        """The distributed rank."""
        return self.process.rank

    def broke_off_before(self, point: Point) -> bool:
        """Whether the records end, with no word of an end, where this point may still have come."""
        return self.process.first("end") is None and (not self.points or point.step >= self.points[-1].step)


def runs(trace: Trace) -> dict[tuple[int, int], Run]:
    """
    The recording processes of a trace by rank and by number among those of the rank: in the order in which their
    parent started them, where that is known, since those that run at once begin to record in any order; else in the
    order they began.
    """
    found: dict[tuple[int, int], Run] = {}
    seen: dict[int, int] = {}
    for process in sorted(trace.processes, key=lambda p: p.identity):
        if not any(e["k"] in NUMERIC for e in process.events):
            continue
        number = seen.get(process.rank, 0)
        seen[process.rank] = number + 1
        found[process.rank, number] = points(process)
    return dict(sorted(found.items()))


def points(process: Process) -> Run:
    """The points of one process."""
    builder = _Builder(process)
    for event in process.events:
        builder.add(event)
    for order, point in enumerate(builder.points):
        point.order = order
    run = Run(process, builder.points, {}, builder.losses, builder.lr)
    for point in run.points:
        run.by_key.setdefault(point.key, point)
    return run


class _Builder:
    def __init__(self, process: Process) -> None:
        self.rows = process.rows
        self.points: list[Point] = []
        self.losses: list[tuple[int, float]] = []
        self.lr: dict[int, list[float]] = {}
        self._modules: dict[int, dict[str, Any]] = {}
        self._sites: dict[int, tuple[str, int, str]] = {}
        self._owner: dict[int, tuple[str, str]] = {}
        self._user: dict[int, str] = {}
        self._counts: dict[Key, int] = {}
        self._entered: dict[int, int] = {}  # how many points there were when an open call began

    def add(self, event: dict[str, Any]) -> None:
        """Turn one event into a point, if it is one."""
        kind = event["k"]
        if kind == "module":
            self._modules[event["id"]] = event
        elif kind == "site":
            self._sites[event["id"]] = (event["file"], event["line"], event["function"])
        elif kind == "enter":
            self._entered[event["id"]] = len(self.points)
        elif kind == "step":
            self.lr.setdefault(event["opt"], []).extend(v for v in event["lr"][:1] if v is not None)
        elif kind in NUMERIC:
            getattr(self, f"_{kind}")(event)

    def _row(self, index: int) -> Row | None:
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def _tensors(self, entries: list[list[Any]], point: Point, side: str) -> None:
        target = point.inputs if side == "in" else point.outputs
        for name, index in entries:
            row = self._row(index)
            if row is not None:
                target[str(name)] = row
                point.numbers[f"{side}:{name}"] = index

    def _new(self, event: dict[str, Any], key: Key, title: str, **fields: Any) -> Point:
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        point = Point((*key, count), event["k"], title, int(event.get("step", 0)), len(self.points), **fields)
        if event.get("site") is not None:
            point.site = self._sites.get(event["site"])
        self.points.append(point)
        return point

    def _call(self, event: dict[str, Any]) -> None:
        module = self._modules[event["m"]]
        phase = event.get("phase", "f")
        path = module["path"]
        title = path if phase == "f" else f"{path} (recomputed)"
        point = self._new(event, ("call", path, phase), title, path=path, type=module["type"], nth=event["n"])
        point.source = tuple(module["source"]) if module.get("source") else None
        point.facts = {
            "training": event["train"],
            "autocast": event.get("autocast"),
            "ended": event.get("trouble", "returned"),
        }
        if not module["parameters"] or module["type"].startswith(_AVERAGING):
            point.facts["options"] = module["options"]
        point.exact = {str(name): key for name, key in event.get("exact", [])}
        point.random = "Drop" in module["type"].rsplit(".", 1)[-1]  # Dropout, DropPath, StochasticDropout ...
        self._tensors(event["in"], point, "in")
        self._tensors(event["out"], point, "out")
        begun = self._entered.pop(event["id"], point.order)
        if phase == "f" and event.get("parent") is None and not event.get("thread"):
            self._handed(point, begun)
        place = f"{path}#{event['n']}:{phase}"
        for name, index in event["in"]:
            self._owner.setdefault(index, (place, f"in.{name}"))
            self._user.setdefault(index, path)  # the innermost consumer returns first
        for name, index in event["out"]:
            self._owner.setdefault(index, (place, f"out.{name}"))

    def _handed(self, call: Point, begun: int) -> None:
        """
        What the program handed to this call of its own, as a point before everything inside the call. Threads call in
        any order, so the third call of two runs need not be given the same; theirs are left out.
        """
        point = Point(
            (INPUT, *call.key[1:]), INPUT, call.title, call.step, begun, path=call.path, nth=call.nth, site=call.site
        )
        point.outputs = {f"input {name}": row for name, row in call.inputs.items()}
        self.points.insert(begun, point)

    def _grad(self, event: dict[str, Any]) -> None:
        owner = self._owner.get(event["of"])
        row = self._row(event["s"])
        if owner is None or row is None:
            return
        made_by = owner[0].split("#")[0]
        side = "output" if owner[1].startswith("out") else "input"
        point = self._new(event, ("grad", *owner), f"gradient of the {side} of {made_by}")
        point.path = self._user.get(
            event["of"], made_by
        )  # a gradient is made by the backward pass of what used the tensor
        point.outputs["gradient"] = row

    def _op(self, event: dict[str, Any]) -> None:
        point = self._new(event, ("op", event["name"], bool(event.get("backward"))), event["name"], type=event["name"])
        point.random = bool(event.get("random"))
        point.truth = event.get("truth")
        self._tensors(event["in"], point, "in")
        self._tensors(event["out"], point, "out")

    def _loss(self, event: dict[str, Any]) -> None:
        point = self._new(event, ("loss",), f"loss of step {event['step']}")
        self._tensors(event["roots"], point, "out")
        for row in point.outputs.values():
            if row.stats is not None and row.stats.sample and len(row.stats.sample) == 1:
                self.losses.append((point.step, row.stats.sample[0]))

    def _state(self, event: dict[str, Any]) -> None:
        root, before = event["root"], "its first call" if event.get("step") else "the first step"
        point = self._new(event, ("state", root), f"parameters of {root} before {before}", path=root)
        self._tensors(event["parameters"] + event["buffers"], point, "out")

    def _grads(self, event: dict[str, Any]) -> None:
        point = self._new(event, ("grads", event["opt"]), f"gradients of step {event['step']}")
        self._tensors(event["items"], point, "out")
        point.facts = {"optimizer": event["type"], "loss scale": event.get("scale")}

    def _parameters(self, event: dict[str, Any]) -> None:
        when = f"after step {event['step']}" if not event.get("when") else "at the end"
        point = self._new(event, ("parameters", event["opt"], event.get("when", "")), f"parameters {when}")
        self._tensors(event["items"], point, "out")

    def _saved(self, event: dict[str, Any]) -> None:
        point = self._new(event, ("saved",), "torch.save")
        self._tensors(event["items"], point, "out")

    def _collective(self, event: dict[str, Any]) -> None:
        point = self._new(event, ("collective",), f"{event['name']} {event.get('reduce') or ''}".strip())
        point.facts = {"collective": event["name"], "reduction": event.get("reduce"), "group size": event["size"]}
        self._tensors(event["in"], point, "in")
        self._tensors(event["out"], point, "out")

    def _autograd(self, event: dict[str, Any]) -> None:
        point = self._new(event, ("autograd",), "torch.autograd.grad")
        self._tensors(event["out"], point, "out")


@dataclass(frozen=True, slots=True)
class Pair:
    """A point of the reference and the one that answers it; one side is None where it is missing."""

    reference: Point | None
    candidate: Point | None

    @property
    def point(self) -> Point:
        """The side that exists, the reference's if both do."""
        found = self.reference or self.candidate
        assert found is not None
        return found


def pairs(reference: Run, candidate: Run) -> Iterator[Pair]:
    """
    Matched points in execution order of the reference; points only the candidate has come right before the next
    matched one.
    """
    extra = [p for p in candidate.points if p.key not in reference.by_key]
    position = 0
    for point in reference.points:
        other = candidate.by_key.get(point.key)
        while other is not None and position < len(extra) and extra[position].order < other.order:
            yield Pair(None, extra[position])
            position += 1
        yield Pair(point, other)
    for left in extra[position:]:
        yield Pair(None, left)
