"""Two traces that were recorded elsewhere: what cannot be compared is said in a line, and nothing is a crash."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlu_backend.parity import session, trace
from mlu_backend.parity.findings import Status
from parity.test_verdict import Made

JUNK: tuple[Any, ...] = (None, -1, 10**9, "x", [], {}, [[]], 1.5, True, [["a"]], [None], float("nan"))


@pytest.fixture
def pair(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """``pair(**meta)``: the folders of two equal traces; ``meta`` is what the candidate's says instead."""

    def make(change: Callable[[Made], None] = lambda made: None, **meta: Any) -> tuple[Path, Path]:
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        Made().write(ours)
        made = Made()
        change(made)
        made.write(theirs)
        trace.write_meta(ours, level="module", steps=0, seed=0, route="emulated-cuda")
        trace.write_meta(theirs, **{"level": "module", "steps": 0, "seed": 0, "route": "none", **meta})
        return ours, theirs

    return make


Pair = Callable[..., tuple[Path, Path]]


def test_traces_in_the_wrong_order_are_not_judged(pair: Pair) -> None:
    ours, theirs = pair()
    assert session.compare(ours, theirs).status is Status.MATCH
    found = session.compare(theirs, ours)
    assert found.status is Status.NOT_JUDGED and "wrong order" in found.reasons[0]


def test_another_number_of_steps_asked_for_is_not_judged(pair: Pair) -> None:
    found = session.compare(*pair(steps=5))
    assert found.status is Status.NOT_JUDGED and "no --steps and the candidate with --steps 5" in found.reasons[0]


def test_another_level_compares_the_steps_and_another_seed_is_told(pair: Pair) -> None:
    found = session.compare(*pair(lambda made: made.b.__setitem__(0, made.b[0] * 1.5), level="step", seed=3))
    assert found.status is Status.MATCH and "only steps were compared" in found.notes[0]
    assert "seed 0, the candidate with seed 3" in found.notes[-1]


def test_beyond_the_table_on_a_card_two_traces_say_that_nothing_was_controlled(pair: Pair) -> None:
    ours, theirs = pair(lambda made: made.b.__setitem__(0, made.b[0] * 1.5))
    assert "cannot be measured from two traces" in session.compare(ours, theirs, profile="mlu590").notes[-1]
    assert not session.compare(ours, theirs).notes


def test_whatever_stands_in_an_event_is_a_verdict_or_one_line(pair: Pair) -> None:
    ours, theirs = pair()
    events = next(theirs.glob("p*/events.jsonl"))
    lines = events.read_text().splitlines()
    draw = random.Random(0)
    for number, line in enumerate(lines):
        event = json.loads(line)
        for key in event:
            junk = draw.choice(JUNK)
            changed = {**event, key: junk} if draw.random() < 0.8 else {k: v for k, v in event.items() if k != key}
            events.write_text("\n".join([*lines[:number], json.dumps(changed), *lines[number + 1 :]]) + "\n")
            for sides in ((ours, theirs), (theirs, ours)):
                try:
                    session.compare(*sides)
                except trace.TraceError as error:
                    assert "\n" not in str(error)
