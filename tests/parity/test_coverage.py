"""Which edited lines ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlu_backend.parity import coverage
from mlu_backend.parity.editmap import EditMap, EditMapError
from mlu_backend.parity.editmap import read as read_map
from parity.conftest import run_recorded

SOURCE = """\
import os
os.environ["A"] = "1"
import torch

def used(x):
    return x.to(
        "cpu",
    )

def unused(x):
    return x.to("cpu")

class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 1e9:
            x = x + 1
        return used(x)

Net()(torch.ones(1))
"""


def edits(*lines: int) -> EditMap:
    rows = [{"code": "MLU203", "lines": [n, n], "source": [n, n], "applied": True} for n in lines]
    return EditMap({"train.py": rows})


def written(folder: Path, *lines: int) -> Path:
    path = folder / "map.json"
    path.write_text(json.dumps({"version": 1, "files": edits(*lines).files}))
    return path


def test_lines_that_ran_and_lines_that_did_not_are_told_apart(tmp_path: Path) -> None:
    wanted = (2, 7, 11, 16, 17)
    outcome = run_recorded(tmp_path, SOURCE, edits=str(written(tmp_path, *wanted)))
    report = coverage.judge(edits(*wanted), tmp_path, coverage.read(outcome.trace))
    assert {r["line"]: r["exercised"] for r in report["list"]} == {2: True, 7: True, 11: False, 16: False, 17: True}
    assert {r["line"]: r["function"] for r in report["list"]} == {
        2: "",
        7: "used",
        11: "unused",
        16: "Net.forward",
        17: "Net.forward",
    }
    assert coverage.summary(report) == "3 of 5 edits ran; 2 were not reached"
    assert list(coverage.unreached_functions(report)) == ["train.py: unused", "train.py: Net.forward"]


def test_a_file_of_which_nothing_ran_is_counted_and_not_listed_by_function(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "other.py").write_text("c = 1\n\n\ndef f():\n    return 2\n")
    rows = {
        name: [{"code": "MLU203", "lines": [n, n], "source": [n, n], "applied": True} for n in lines]
        for name, lines in {"train.py": (1, 2), "other.py": (1, 5)}.items()
    }
    report = coverage.judge(EditMap(rows), tmp_path, [("train.py", 1)])
    assert coverage.unused_files(report) == {"other.py": 2}
    assert list(coverage.unreached_functions(report)) == ["train.py: top level"]


@pytest.mark.parametrize("name", ["settrace", "monitoring"])
def test_both_ways_of_tracing_see_the_same(tmp_path: Path, name: str) -> None:
    if name == "monitoring":
        newer = next((p for p in Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")), None)
        python = str(newer) if newer else sys.executable
    else:
        python = sys.executable
    script = (
        "import sys; from pathlib import Path\n"
        "import importlib.util as u\n"
        f"sys.path.insert(0, {str(Path(coverage.__file__).parents[2])!r})\n"
        "import types; package = types.ModuleType('mlu_backend'); package.__path__ = [sys.path[0] + '/mlu_backend']\n"
        "sys.modules['mlu_backend'] = package\n"
        "from mlu_backend.parity import coverage\n"
        "def main():\n    coverage.start(Path('map.json'), Path('.'), '.')\nmain()\n"
        "import prog\nprog.used(3)\n"
    )
    (tmp_path / "prog.py").write_text("def used(x):\n    return x\ndef unused(x):\n    return x\n")
    rows = [{"code": "MLU1", "lines": [n, n], "source": [n, n], "applied": True} for n in (1, 2, 4)]
    (tmp_path / "map.json").write_text(json.dumps({"version": 1, "files": {"prog.py": rows}}))
    env = {**os.environ, "PYTHONPATH": ""}
    subprocess.run([python, "-c", script], cwd=tmp_path, env=env, check=True, timeout=120)
    assert coverage.read(tmp_path) == {("prog.py", 1), ("prog.py", 2)}


def test_an_edit_inside_a_folded_constant_counts_with_its_statement() -> None:
    source = "x = (\n    1,\n    'cuda',\n)\ny = 2\n"
    lines, function = coverage.places(source, 3, 3)
    assert lines and lines <= {1, 2, 3} and function == ""


def test_an_edit_in_a_comment_or_another_language_cannot_be_traced(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n\n# cuda\n\ny = 2\n")
    (tmp_path / "run.sh").write_text("export MLU_VISIBLE_DEVICES=0\n")
    both = EditMap(
        {**edits(3).files, "run.sh": [{"code": "MLU601", "lines": [1, 1], "source": [1, 1], "applied": True}]}
    )
    report = coverage.judge(both, tmp_path, [])
    assert report["edits"] == 0 and report["not_traceable"] == 2
    assert "2 more in other files than Python or in comments" in coverage.summary(report)


def test_findings_left_for_people_are_told_where_their_line_ran(tmp_path: Path) -> None:
    rows = [
        {"code": code, "lines": [n, n], "source": [n, n], "applied": False, "severity": severity, "message": "m"}
        for code, n, severity in (("MLU903", 7, "warning"), ("MLU102", 17, "error"), ("MLU904", 11, "error"))
    ]
    rows.append({"code": "MLU203", "lines": [7, 7], "source": [7, 7], "applied": False, "safety": "unsafe"})
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"version": 1, "files": {"train.py": rows}}))
    outcome = run_recorded(tmp_path, SOURCE, edits=str(path))
    report = coverage.judge(read_map(path), tmp_path, coverage.read(outcome.trace))
    assert [(r["code"], r["source"], r["message"]) for r in report["left"]] == [("MLU102", 17, "m"), ("MLU903", 7, "m")]
    assert report["edits"] == 0


def test_the_header_of_a_compound_statement_is_not_its_body() -> None:
    source = "def f(a):\n    if (a and\n            a > 1):\n        return 1\n    return 2\n"
    assert coverage.places(source, 3, 3)[0] <= {2, 3}
    assert 4 not in coverage.places(source, 2, 3)[0]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "files": {}}', '{"version": 1, "files": {"a.py": [{"code": "X"}]}}']
)
def test_an_edit_map_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(EditMapError, match=r"m\.json"):
        read_map(path)
