"""Selecting, ordering and applying byte edits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlu_migrate import edits
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity


def finding(*changes: Edit, group: str | None = None) -> Finding:
    return Finding("MLU201", "x", Severity.INFO, Safety.SAFE, Confidence.HIGH, "a.py", 1, 1, 1, 2, "m",
                   edits=changes, group=group)  # fmt: skip


def test_equal_edits_of_two_findings_are_one() -> None:
    one = Edit(0, 1, b"x")
    taken, waiting = edits.select([finding(one), finding(one)])
    assert len(taken) == 2 and not waiting and edits.unique(taken) == [one]


def test_the_later_of_two_overlapping_findings_waits() -> None:
    first, second = finding(Edit(0, 4, b"x")), finding(Edit(3, 6, b"y"))
    assert edits.select([first, second]) == ([first], [second])


def test_a_group_is_taken_whole_or_not_at_all() -> None:
    blocker = finding(Edit(0, 4, b"x"))
    pair = [finding(Edit(10, 11, b"a"), group="g"), finding(Edit(3, 5, b"b"), group="g")]
    taken, waiting = edits.select([blocker, *pair])
    assert taken == [blocker] and waiting == pair


def test_an_insertion_at_the_border_of_a_replacement_does_not_clash() -> None:
    taken, _ = edits.select([finding(Edit(0, 4, b"x")), finding(Edit(4, 4, b"y"))])
    assert edits.apply(b"abcdef", edits.unique(taken)) == b"xyef"


def test_overlapping_edits_are_never_applied() -> None:
    with pytest.raises(ValueError, match="overlap"):
        edits.apply(b"abcdef", [Edit(0, 3, b"x"), Edit(2, 4, b"y")])


def test_an_offset_behind_edits_is_mapped_back() -> None:
    changes = [Edit(2, 4, b"xxxx"), Edit(6, 6, b"!")]
    result = edits.apply(b"abcdefgh", changes)
    assert result == b"abxxxxef!gh"
    assert edits.shift(result.index(b"g"), changes) == b"abcdefgh".index(b"g")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4), st.sampled_from([b"x", b"y"])), max_size=25))
def test_what_is_taken_never_overlaps_and_what_waits_does(rows: list[tuple[int, int, bytes]]) -> None:
    found = [finding(Edit(start, start + size, text)) for start, size, text in rows]
    taken, waiting = edits.select(found)
    assert sorted(map(id, taken + waiting)) == sorted(map(id, found))
    spans = [f.edits[0] for f in taken]
    edits.apply(b"." * 40, edits.unique(taken))  # raises on an overlap
    for late in waiting:
        edit = late.edits[0]
        assert any(edit.start < s.end and s.start < edit.end and edit != s for s in spans)
