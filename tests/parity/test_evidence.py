"""Strings seen reaching a device make guesses certain, and only those."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlu_backend.parity import evidence
from mlu_backend.parity.editmap import EditMap

SOURCE = """\
import argparse
CONFIG = {"device": "cuda", "tag": "cuda"}
LABEL = "cuda"
def build(where="cuda"):
    return model.to(where)
parser = argparse.ArgumentParser()
parser.add_argument("--run-on", default="cuda")
args = parser.parse_args()
x = x.to(CONFIG["device"])
y = y.to(args.run_on)
z = z.to("cuda")
build()
"""


def finding(line: int, **changes: object) -> dict[str, object]:
    return {
        "code": "MLU203",
        "lines": [line, line],
        "source": [line, line],
        "before": '"cuda"',
        "applied": False,
        "safety": "unsafe",
        **changes,
    }


def proven(tmp_path: Path, found: list[dict[str, object]], *sinks: int, text: str = "cuda") -> list[int]:
    (tmp_path / "train.py").write_text(SOURCE)
    seen = [{"file": "train.py", "line": line, "text": text, "function": "f", "sink": "to"} for line in sinks]
    rows = evidence.proven(EditMap({"train.py": found}), seen, tmp_path)
    return [row["line"] for row in rows]


@pytest.mark.parametrize(
    ("line", "sink"),
    [(2, 9), (4, 5), (7, 10), (11, 11)],
    ids=["key", "default of a parameter", "option", "on the line itself"],
)
def test_a_literal_bound_to_the_name_that_reached_a_device_is_proven(tmp_path: Path, line: int, sink: int) -> None:
    assert proven(tmp_path, [finding(line)], sink) == [line]


def test_a_literal_of_another_name_is_not(tmp_path: Path) -> None:
    assert proven(tmp_path, [finding(3)], 9, 10, 5) == []


def test_another_string_at_the_same_place_is_not(tmp_path: Path) -> None:
    assert proven(tmp_path, [finding(2)], 9, text="cuda:1") == []


def test_nothing_is_proven_when_nothing_was_seen(tmp_path: Path) -> None:
    assert proven(tmp_path, [finding(2), finding(4)]) == []


def test_applied_and_manual_findings_need_no_proof(tmp_path: Path) -> None:
    assert proven(tmp_path, [finding(2, applied=True), finding(2, safety="manual")], 9) == []


def test_the_place_where_it_was_seen_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    seen = [{"file": "train.py", "line": 9, "text": "cuda", "function": "<module>", "sink": "to"}]
    (row,) = evidence.proven(EditMap({"train.py": [finding(2)]}), seen, tmp_path)
    assert row == {"path": "train.py", "line": 2, "code": "MLU203", "text": "cuda", "seen_at": "train.py:9"}
