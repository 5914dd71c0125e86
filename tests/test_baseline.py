from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlu_migrate import baseline
from mlu_migrate.model import Confidence, Finding, Safety, Severity


def finding(before: str, line: int = 1, code: str = "MLU201") -> Finding:
    return Finding(
        code=code,
        name="cuda-method",
        severity=Severity.WARNING,
        safety=Safety.SAFE,
        confidence=Confidence.HIGH,
        path="whatever.py",
        line=line,
        column=1,
        end_line=line,
        end_column=2,
        message_id="call",
        before=before,
    )


def test_what_was_written_is_held_and_the_rest_is_new(tmp_path: Path) -> None:
    file = tmp_path / "src" / "a.py"
    baseline.write(tmp_path / "b.json", [(file, finding("x.cuda()")), (file, finding("y.cuda()", 7))])
    read = baseline.read(tmp_path / "b.json")
    new, held = read.split([finding("y.cuda()", 99), finding("z.cuda()"), finding("x.cuda( )")], file)
    assert [item.before for item in held] == ["y.cuda()"]
    assert [item.before for item in new] == ["z.cuda()", "x.cuda( )"]


def test_white_space_and_line_moves_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    baseline.write(tmp_path / "b.json", [(file, finding("f(\n    x.cuda(),\n)", 3))])
    new, held = baseline.read(tmp_path / "b.json").split([finding("f(\n  x.cuda(),\n  )", 40)], file)
    assert (len(new), len(held)) == (0, 1)


def test_more_of_the_same_than_were_counted_are_new(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    baseline.write(tmp_path / "b.json", [(file, finding("x.cuda()", 1)), (file, finding("x.cuda()", 2))])
    new, held = baseline.read(tmp_path / "b.json").split([finding("x.cuda()", n) for n in (1, 2, 3)], file)
    assert ([item.line for item in held], [item.line for item in new]) == ([1, 2], [3])


def test_the_same_snippet_in_another_file_or_of_another_rule_is_new(tmp_path: Path) -> None:
    baseline.write(tmp_path / "b.json", [(tmp_path / "a.py", finding("x.cuda()"))])
    read = baseline.read(tmp_path / "b.json")
    assert read.split([finding("x.cuda()")], tmp_path / "c.py")[1] == []
    assert read.split([finding("x.cuda()", code="MLU202")], tmp_path / "a.py")[1] == []


def test_rows_are_sorted_and_hold_no_line_numbers(tmp_path: Path) -> None:
    found = [(tmp_path / name, finding(code, 5)) for name in ("b.py", "a.py") for code in ("y.cuda()", "x.cuda()")]
    baseline.write(tmp_path / "one.json", found)
    baseline.write(tmp_path / "two.json", reversed(found))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    rows = json.loads((tmp_path / "one.json").read_text())["rows"]
    assert [(row["path"], row["snippet"]) for row in rows] == sorted((row["path"], row["snippet"]) for row in rows)
    assert set(rows[0]) == {"path", "code", "snippet", "count"}


def test_an_empty_baseline_can_be_read_back(tmp_path: Path) -> None:
    assert baseline.write(tmp_path / "b.json", []) == 0
    assert baseline.read(tmp_path / "b.json").split([finding("x")], tmp_path / "a.py")[1] == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "rows": [{}]}', '{"version": 9, "rows": []}', None])
def test_a_file_that_is_no_baseline_is_one_clear_line(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "b.json").write_text(text)
    with pytest.raises(baseline.BaselineError) as caught:
        baseline.read(tmp_path / "b.json")
    assert "\n" not in str(caught.value)
    assert "b.json" in str(caught.value)
