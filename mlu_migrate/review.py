"""
Going through the changes of a run one by one.

Hunks are what can be accepted or not; a pure state machine says what a key does to the decisions. Nothing is shown
or written here: :mod:`mlu_migrate.review_terminal` shows one hunk after the other and feeds the keys.

A hunk is a stretch of changed lines. Stretches that belong to one finding or one group of findings stand or fall
together. An added import is not asked about: it comes with the first accepted change of its file.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult
from mlu_migrate.report.places import file_line
from mlu_migrate.report.sidebyside import changes

IMPORT_CODE = "MLU001"
SAVED_VERSION = 1


class Decision(str, enum.Enum):
    """What was decided about a hunk."""

    OPEN = "open"
    ACCEPT = "accept"
    REJECT = "reject"


class Ending(str, enum.Enum):
    """How a review ended."""

    WRITE = "write"
    QUIT = "quit"


@dataclass(frozen=True, slots=True)
class Span:
    """Lines ``old_start:old_end`` of a file, from 0, become ``new_start:new_end`` of its output."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """One thing to decide. ``key`` stays the same over runs as long as path and changed text do."""

    file: int
    path: str
    spans: tuple[Span, ...]
    findings: tuple[Finding, ...]
    follows: bool
    key: str

    @property
    def codes(self) -> frozenset[str]:
        """Codes of the rules behind the hunk."""
        return frozenset(f.code for f in self.findings)


@dataclass(frozen=True, slots=True)
class State:
    """Decisions so far, the hunk that is shown, and how to go back. Nothing is decided until a key decides it."""

    decisions: tuple[Decision, ...]
    cursor: int = 0
    history: tuple[tuple[tuple[Decision, ...], int], ...] = ()
    explain: bool = False
    help: bool = False
    ending: Ending | None = None

    @property
    def open(self) -> int:
        """How many hunks are not decided."""
        return self.decisions.count(Decision.OPEN)


def hunks_of(run: RunResult) -> tuple[Hunk, ...]:
    """Everything there is to decide about, in file order. Hunks that follow others are among them."""
    found: list[Hunk] = []
    for index, file in enumerate(run.files):
        if file.status is FileStatus.CHANGED and file.output is not None:
            found += _file_hunks(index, file)
    return tuple(found)


def _file_hunks(index: int, file: FileResult) -> list[Hunk]:
    old, new = _lines(file.source), _lines(file.output or b"")
    spans = [Span(*span) for span in changes(old, new)]
    applied = [f for f in file.findings if f.applied]
    owners: list[list[Finding]] = [[] for _ in spans]
    for finding in applied:
        for number in _touched(file, finding, spans):
            owners[number].append(finding)
    hunks = []
    for numbers in _together(owners):
        findings = tuple({id(f): f for n in numbers for f in owners[n]}.values())
        chosen = tuple(spans[n] for n in numbers)
        follows = bool(findings) and all(f.code == IMPORT_CODE for f in findings)
        text = "".join(
            "".join(old[s.old_start : s.old_end]) + "\0" + "".join(new[s.new_start : s.new_end]) for s in chosen
        )
        hunks.append(Hunk(index, file.path, chosen, findings, follows, f"{file.path}\0{text}"))
    hunks.sort(key=lambda hunk: hunk.spans[0].old_start)
    if all(hunk.follows for hunk in hunks):
        hunks = [replace(hunk, follows=False) for hunk in hunks]
    counts: dict[str, int] = {}
    for position, hunk in enumerate(hunks):
        counts[hunk.key] = counts.get(hunk.key, 0) + 1
        hunks[position] = replace(hunk, key=f"{hunk.key}\0{counts[hunk.key]}")
    return hunks


def _lines(data: bytes) -> list[str]:
    """Lines with their ends. Latin-1 keeps every byte, so that joining lines gives the same bytes back."""
    return [line.decode("latin-1") for line in data.splitlines(keepends=True)]


def _touched(file: FileResult, finding: Finding, spans: list[Span]) -> list[int]:
    """The changed stretches that a finding's edits lie in, else the nearest one."""
    lines = [file.source.count(b"\n", 0, edit.start) for edit in finding.edits if edit.end <= len(file.source)]
    line = file_line(file, finding) - 1
    touched = sorted(
        {n for n, s in enumerate(spans) for at in lines if s.old_start <= at <= max(s.old_start, s.old_end - 1)}
    )
    inside = [n for n, s in enumerate(spans) if s.old_start <= line < max(s.old_end, s.old_start + 1)]
    if touched or inside:
        return touched or inside
    return [min(range(len(spans)), key=lambda n: abs(spans[n].old_start - line))] if spans else []


def _together(owners: list[list[Finding]]) -> list[list[int]]:
    """Stretches joined where they share a finding with edits in both, or a group."""
    home = list(range(len(owners)))

    def find(number: int) -> int:
        while home[number] != number:
            number = home[number]
        return number

    first: dict[object, int] = {}
    for number, findings in enumerate(owners):
        for finding in findings:
            marks: list[object] = [("group", finding.group)] if finding.group else []
            if finding.code != IMPORT_CODE:
                marks.append(("finding", id(finding)))
            for mark in marks:
                home[find(number)] = find(first.setdefault(mark, number))
    joined: dict[int, list[int]] = {}
    for number in range(len(owners)):
        joined.setdefault(find(number), []).append(number)
    return list(joined.values())


def start(hunks: Sequence[Hunk], saved: Mapping[str, str] | None = None) -> State:
    """Nothing decided, or what an earlier session had decided about the same hunks; the first open one is shown."""
    known = saved or {}
    allowed = {d.value for d in Decision}
    decisions = tuple(
        Decision(known[h.key]) if known.get(h.key) in allowed and not h.follows else Decision.OPEN for h in hunks
    )
    state = State(decisions)
    return replace(state, cursor=_next(hunks, state, -1))


def press(hunks: Sequence[Hunk], state: State, key: str) -> State:
    """
    What a key does. ``y`` accept, ``n`` reject, ``a`` / ``d`` accept / reject what is open of this rule, ``f`` / ``x``
    of this file, ``u`` undo, ``j`` / ``k`` forward / back without deciding, ``e`` explain, ``?`` help, ``w`` write what
    was accepted, ``q`` quit and keep the decisions. Any other key does nothing.
    """
    if state.ending is not None or not hunks:
        return state
    here = hunks[state.cursor]
    plain = replace(state, explain=False, help=False)
    if key == "e":
        return replace(plain, explain=not state.explain)
    if key == "?":
        return replace(plain, help=not state.help)
    if key == "q":
        return replace(plain, ending=Ending.QUIT)
    if key == "w":
        return replace(plain, ending=Ending.WRITE)
    if key in ("j", "k"):
        return replace(plain, cursor=_step(hunks, state.cursor, 1 if key == "j" else -1))
    if key == "u":
        if not state.history:
            return plain
        decisions, cursor = state.history[-1]
        return replace(plain, decisions=decisions, cursor=cursor, history=state.history[:-1])
    chosen = {"y": [state.cursor], "n": [state.cursor]}.get(key, [])
    if key in ("a", "d"):
        chosen = [n for n, h in enumerate(hunks) if h.codes & here.codes - {IMPORT_CODE} and _is_open(hunks, state, n)]
    elif key in ("f", "x"):
        chosen = [n for n, h in enumerate(hunks) if h.file == here.file and _is_open(hunks, state, n)]
    if not chosen:
        return state
    decision = Decision.ACCEPT if key in ("y", "a", "f") else Decision.REJECT
    decided = tuple(decision if n in chosen else d for n, d in enumerate(state.decisions))
    changed = replace(plain, decisions=decided, history=(*state.history, (state.decisions, state.cursor)))
    return replace(changed, cursor=_next(hunks, changed, state.cursor))


def _is_open(hunks: Sequence[Hunk], state: State, number: int) -> bool:
    return state.decisions[number] is Decision.OPEN and not hunks[number].follows


def _next(hunks: Sequence[Hunk], state: State, cursor: int) -> int:
    """The next hunk that is open, else the first that is, else where we are."""
    order = [*range(cursor + 1, len(hunks)), *range(0, max(cursor, 0))]
    return next((n for n in order if _is_open(hunks, state, n)), max(cursor, 0))


def _step(hunks: Sequence[Hunk], cursor: int, way: int) -> int:
    number = cursor + way
    while 0 <= number < len(hunks):
        if not hunks[number].follows:
            return number
        number += way
    return cursor


def left(hunks: Sequence[Hunk], state: State) -> int:
    """How many hunks still ask for a decision."""
    return sum(_is_open(hunks, state, n) for n in range(len(hunks)))


def outputs(run: RunResult, hunks: Sequence[Hunk], state: State) -> dict[str, bytes]:
    """The bytes of each file in which something was accepted, by path. What is open or rejected stays as it was."""
    accepted: dict[int, list[Hunk]] = {}
    for hunk, decision in zip(hunks, state.decisions, strict=True):
        if decision is Decision.ACCEPT and not hunk.follows:
            accepted.setdefault(hunk.file, []).append(hunk)
    for hunk in hunks:
        if hunk.follows and hunk.file in accepted:
            accepted[hunk.file].append(hunk)
    return {run.files[index].path: _spliced(run.files[index], chosen) for index, chosen in accepted.items()}


def _spliced(file: FileResult, chosen: list[Hunk]) -> bytes:
    old, new = _lines(file.source), _lines(file.output or b"")
    out: list[str] = []
    position = 0
    for span in sorted((s for h in chosen for s in h.spans), key=lambda s: (s.old_start, s.new_start)):
        out += [*old[position : span.old_start], *new[span.new_start : span.new_end]]
        position = span.old_end
    return "".join([*out, *old[position:]]).encode("latin-1")


def save(path: Path, hunks: Sequence[Hunk], state: State) -> None:
    """Keep the decisions for another session."""
    decided = {h.key: d.value for h, d in zip(hunks, state.decisions, strict=True) if d is not Decision.OPEN}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": SAVED_VERSION, "decisions": decided}, indent=1), encoding="utf-8")


def load(path: Path) -> dict[str, str]:
    """Decisions of an earlier session; none when there is no file, or one that cannot be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, dict) or stored.get("version") != SAVED_VERSION:
        return {}
    decisions = stored.get("decisions")
    return {str(k): str(v) for k, v in decisions.items()} if isinstance(decisions, dict) else {}
