"""
PyTorch's databases of operators, modules and optimizers on mlu against cpu.

By default a third of the float32 checks; ``-m slow`` has all of them, and every dtype of every operator.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sweep

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

GAPS = Path(__file__).with_name("gaps.toml")
BAD = ("fail", "crash", "hang")


def gaps() -> list[dict[str, Any]]:
    return tomllib.loads(GAPS.read_text(encoding="utf-8"))["gap"]


def covers(gap: dict[str, Any], row: sweep.Row) -> bool:
    return (
        gap["what"] == row.what
        and fnmatch.fnmatchcase(row.name, gap["name"])
        and fnmatch.fnmatchcase(row.dtype, gap["dtype"])
        and bool(gap.get("backward", False)) == row.backward
    )


def judge(rows: Iterable[sweep.Row], known: list[dict[str, Any]]) -> list[str]:
    """What is wrong: failures without a gap, crashes, gaps that pass."""
    wrong = []
    for row in rows:
        gap = any(covers(gap, row) for gap in known)
        label = f"{row.what} {row.name} {row.dtype}{' backward' if row.backward else ''}"
        if row.status in ("crash", "hang"):
            wrong.append(f"{label}: {row.status}: {row.detail}")
        elif row.status == "fail" and not gap:
            wrong.append(f"{label}: {row.detail}")
        elif row.status == "pass" and gap:
            wrong.append(f"{label}: passes, so its row in gaps.toml has to go")
    return wrong


def run(what: str, dtypes: list[str] | None, backward: bool, part: int, parts: int, least: int) -> None:
    """Run one shard and fail with everything that is wrong in it; ``least`` checks have to pass."""
    rows = sweep.run(sweep.shard(sweep.tasks(what, dtypes, backward), part, parts))
    wrong = judge(rows, gaps())
    found = sweep.counts(rows)
    assert not wrong, f"{found}\n" + "\n".join(wrong)
    assert found["pass"] >= least, found


def test_a_third_of_the_operators_agrees_forward(extension: Any) -> None:
    run("ops", ["float32"], False, 1, 3, 200)


def test_a_third_of_the_operators_agrees_backward(extension: Any) -> None:
    run("ops", ["float32"], True, 2, 3, 160)


def test_a_third_of_the_modules_agrees(extension: Any) -> None:
    run("modules", ["float32"], False, 3, 3, 35)


def test_the_optimizers_agree(extension: Any) -> None:
    run("optimizers", ["float32"], False, 1, 1, 14)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 5))
def test_every_operator_agrees_forward(extension: Any, part: int) -> None:
    run("ops", ["float32"], False, part, 4, 150)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 5))
def test_every_operator_agrees_backward(extension: Any, part: int) -> None:
    run("ops", ["float32"], True, part, 4, 120)


@pytest.mark.slow
def test_every_module_and_optimizer_agrees(extension: Any) -> None:
    run("modules", ["float32"], False, 1, 1, 110)
    run("optimizers", None, False, 1, 1, 28)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 13))
def test_every_operator_agrees_in_every_dtype(extension: Any, part: int) -> None:
    run("ops", None, False, part, 12, 400)


def _row(**changed: Any) -> sweep.Row:
    given = {"what": "ops", "name": "add", "dtype": "float32", "backward": False, "status": "fail", "detail": "why"}
    return sweep.Row(**{**given, **changed})


GAP = {"what": "ops", "name": "add", "dtype": "*", "reason": "for this test"}


def test_a_failure_needs_a_row_and_a_row_needs_a_failure() -> None:
    assert judge([_row()], []) == ["ops add float32: why"]
    assert judge([_row()], [GAP]) == []
    assert "has to go" in judge([_row(status="pass")], [GAP])[0]
    assert judge([_row(backward=True)], [GAP]) == ["ops add float32 backward: why"]


def test_a_crash_is_never_a_gap() -> None:
    assert judge([_row(status="crash"), _row(status="hang")], [GAP]) != []


def test_every_gap_gives_its_reason() -> None:
    for gap in gaps():
        assert {"what", "name", "dtype", "reason"} <= set(gap) and len(gap["reason"]) > 20, gap


def test_a_crashing_child_is_a_row_and_the_next_check_runs(extension: Any) -> None:
    rows = sweep.run(
        [sweep.Task("crash", "now", "float32", False), sweep.Task("ops", "neg", "float32", False)], workers=1
    )
    assert [row.status for row in rows] == ["crash", "pass"]
