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
        "column": SOURCE.splitlines()[line - 1].find('"cuda"') + 1,
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
    place = {"path": "train.py", "line": 2, "column": 21, "code": "MLU203"}
    assert row == {**place, "text": "cuda", "seen_at": "train.py:9"}


def columns(tmp_path: Path, source: str, sink: int, function: str = "to") -> list[tuple[int, int]]:
    """Line and column of all literals "cuda" that are proven when each has a finding."""
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    found = [
        finding(number, column=at + 1)
        for number, line in enumerate(source.split("\n"), 1)
        for at in range(len(line))
        if line.startswith('"cuda"', at)
    ]
    seen = [{"file": "train.py", "line": sink, "text": "cuda", "function": "f", "sink": function}]
    rows = evidence.proven(EditMap({"train.py": found}), seen, tmp_path)
    return [(row["line"], row["column"]) for row in rows]


@pytest.mark.parametrize(
    ("source", "sink", "expected"),
    [
        ('C = {"é": 1, "place": "cuda", "vendor": "cuda"}\nx.to(C["place"])\n', 2, [(1, 23)]),
        ('A = {"place": "cuda"}\nB = {"place": "cuda"}\nx.to(A["place"])\n', 3, []),
        ('C = {"tag": "cuda"}\nprint(C["tag"], x.to(y))\n', 2, []),
        ('C = {"tag": "cuda"}\nx.to(y if C["tag"] == "cuda" else z)\n', 2, []),
        ('print("cuda", x.to(y))\n', 1, []),
        ('x.to(y or "cuda")\n', 1, [(1, 11)]),
        ('C = {"place": "cuda"}\nd = C["place"]\nx.to(d)\n', 3, [(1, 15)]),
        ('C = {"place": "cuda"}\nd = C["place"]\nd = f()\nx.to(d)\n', 4, []),
        ('C = {"place": "cuda"}\nx.to(C.get("place", "cuda"))\n', 2, [(1, 15), (2, 21)]),
        ('class C:\n    place = "cuda"\nx.to(getattr(C, "place"))\n', 3, [(2, 13)]),
        ('C = {"place": "cuda"}\nNet(4, tag="x", device=C["place"])\n', 2, [(1, 15)]),
        ('d = f(label="cuda")\nx.to(d)\n', 2, []),
    ],
    ids=[
        "another key of the line",
        "two of that name",
        "an argument of another call",
        "a condition",
        "a word printed on the line",
        "in the argument itself",
        "through a name",
        "through a name assigned twice",
        "with a default",
        "getattr",
        "a constructor of the program's",
        "an argument of what is assigned",
    ],
)
def test_only_what_can_have_been_the_string_is_proven(
    tmp_path: Path, source: str, sink: int, expected: list[tuple[int, int]]
) -> None:
    assert columns(tmp_path, source, sink) == expected
