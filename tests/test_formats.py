"""Reports for machines other than SARIF: JSON lines, CSV, JUnit, GitLab, GitHub."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree

import pytest
from sample_run import HOSTILE_PATH, sample_run

from mlu_migrate.model import RunResult
from mlu_migrate.report import render
from mlu_migrate.report.places import numbered
from mlu_migrate.settings import Settings

RUN = sample_run()
KINDS = ["jsonl", "csv", "junit", "gitlab", "github", "sarif", "html"]


def _text(kind: str, run: RunResult = RUN, lang: str = "en") -> str:
    return render(kind, run, Settings(), lang)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_can_be_written_in_both_languages_and_for_an_empty_run(kind: str) -> None:
    for lang in ("en", "zh"):
        _text(kind, lang=lang).encode("utf-8")
        _text(kind, RunResult(()), lang).encode("utf-8")
    assert _text(kind) == _text(kind, sample_run())  # the same run gives the same bytes


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_are_no_unicode_do_not_stop_a_report(kind: str) -> None:
    file = RUN.files[0]
    path = "caf\udce9.py"
    odd = RunResult(
        (
            type(file)(
                path, file.status, None, file.source, file.output, tuple(f.with_(path=path) for f in file.findings)
            ),
        )
    )
    assert _text(kind, odd).encode("utf-8")


def test_json_lines_hold_one_object_a_line_and_end_with_the_summary() -> None:
    records = [json.loads(line) for line in _text("jsonl").splitlines()]
    assert [r["type"] for r in records].count("finding") == len(RUN.findings)
    assert {r["path"] for r in records if r["type"] == "file"} == {"bad.py", "link.py"}
    assert records[-1]["type"] == "summary" and records[-1]["files"] == 7
    assert records[0]["code"] and records[0]["fingerprint"]


def test_csv_has_a_row_a_finding_and_defuses_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(_text("csv"))))
    assert len(rows) == len(RUN.findings)
    assert HOSTILE_PATH in {row["path"] for row in rows}
    assert not [v for row in rows for v in row.values() if v.startswith(("=", "+", "-", "@"))]


def test_csv_text_that_looks_like_a_formula_gets_an_apostrophe() -> None:
    finding = RUN.findings[0].with_(before='=HYPERLINK("x")')
    file = RUN.files[0]
    run = RunResult((type(file)(file.path, file.status, None, b"", None, (finding,)),))
    (row,) = csv.DictReader(io.StringIO(_text("csv", run)))
    assert row["before"] == '\'=HYPERLINK("x")'


def test_junit_is_xml_with_a_case_a_file() -> None:
    root = ElementTree.fromstring(_text("junit").encode())
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == {file.path for file in RUN.files}
    failure = cases["scripts/run.sh"].find("failure")
    assert failure is not None and "nvidia-smi" in (failure.text or "")
    assert failure.get("type") == "MLU601, MLU602, MLU606"
    assert cases["bad.py"].find("error") is not None and cases["link.py"].find("skipped") is not None
    assert root.get("tests") == "7" and root.get("errors") == "1" and root.get("failures") == "5"


def test_a_file_with_nothing_to_do_passes_in_junit() -> None:
    from mlu_migrate import engine

    run = RunResult((engine.migrate(b"x = 1\n", "clean.py", Settings()),))
    root = ElementTree.fromstring(_text("junit", run).encode())
    assert root.get("failures") == "0" and not list(root.iter("failure"))


def test_junit_drops_what_xml_cannot_hold() -> None:
    finding = next(f for f in RUN.findings if f.code == "MLU606").with_(args={"tool": "\x00]]>\ufffe", "instead": "x"})
    file = RUN.files[3]
    run = RunResult((type(file)(file.path, file.status, None, file.source, None, (finding,)),))
    (failure,) = ElementTree.fromstring(_text("junit", run).encode()).iter("failure")
    assert "]]>" in (failure.text or "")


def test_gitlab_has_what_the_code_quality_format_asks_for() -> None:
    issues = json.loads(_text("gitlab"))
    assert len(issues) == len(RUN.findings) + 1
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert issue["location"]["lines"]["begin"] >= 1 and not issue["location"]["path"].startswith("./")
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_github_annotations_escape_what_would_end_them() -> None:
    lines = _text("github").splitlines()
    assert len(lines) == len(RUN.findings) + 2
    for line in lines:
        head, _, rest = line[2:].partition("::")
        level, _, fields = head.partition(" ")
        assert level in {"notice", "warning", "error"} and rest and "\n" not in rest
        names = [field.split("=", 1)[0] for field in fields.split(",")]
        assert names[0] == "file" and set(names) <= {"file", "line", "endLine", "col", "endColumn", "title"}
    assert any("%0A" in line and "%2C%3A%25" in line for line in lines)


def test_the_gravest_annotations_come_first() -> None:
    levels = [line[2:].split(" ")[0] for line in _text("github").splitlines()][: len(RUN.findings)]
    assert levels == sorted(levels, key=["error", "warning", "notice"].index)


def test_a_finding_in_a_notebook_is_put_on_its_line_of_the_file() -> None:
    issues = [i for i in json.loads(_text("gitlab")) if i["location"]["path"] == "demo.ipynb"]
    lines = RUN.files[2].source.decode().split("\n")
    shown = [lines[i["location"]["lines"]["begin"] - 1] for i in issues]
    assert any("x.cuda()" in line for line in shown)
    assert all(i["description"].startswith("[cell 1, line ") for i in issues)


def test_fingerprints_survive_line_moves_and_differ_between_equal_snippets() -> None:
    from mlu_migrate import nonpython

    source = b"nvidia-smi\nnvidia-smi\n"
    first = [mark for _, mark in numbered(nonpython.migrate(source, "a.sh", Settings()).findings)]
    moved = [mark for _, mark in numbered(nonpython.migrate(b"\n# x\n" + source, "a.sh", Settings()).findings)]
    assert first == moved and len(set(first)) == 2
