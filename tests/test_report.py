from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from mlu_migrate import report
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, RunResult, Safety, Severity
from mlu_migrate.outcome import as_linter, entry_point, status_of
from mlu_migrate.report import change, concise, full, layout, markdown, terminal
from mlu_migrate.report import json as json_report
from mlu_migrate.settings import Settings

SOURCE = b"import torch\n\nx = torch.ones(1).cuda()\ny = x  # a | b\n"

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "tool", "target", "summary", "files", "findings"],
    "properties": {
        "version": {"const": 1},
        "tool": {"type": "object", "required": ["name", "version"]},
        "target": {"type": "object", "required": ["device", "torch_mlu"]},
        "summary": {
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": 0},
            "required": "files changed unchanged skipped failed applied safe unsafe manual seconds".split(),
        },
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "status", "reason", "sha256"],
                "properties": {
                    "path": {"type": "string"},
                    "status": {"enum": ["changed", "unchanged", "skipped", "failed"]},
                    "reason": {"type": ["string", "null"]},
                    "sha256": {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"},
                },
            },
        },
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": (
                    "code name severity safety confidence applied path cell line column end_line end_column "
                    "message hint before after fingerprint url"
                ).split(),
                "properties": {
                    "code": {"pattern": "^MLU[0-9]{3}$"},
                    "name": {"type": "string"},
                    "severity": {"enum": ["info", "warning", "error"]},
                    "safety": {"enum": ["safe", "unsafe", "manual"]},
                    "confidence": {"enum": ["high", "medium", "low"]},
                    "applied": {"type": "boolean"},
                    "path": {"type": "string"},
                    "cell": {"type": ["integer", "null"]},
                    "line": {"type": "integer", "minimum": 1},
                    "column": {"type": "integer", "minimum": 1},
                    "end_line": {"type": "integer", "minimum": 1},
                    "end_column": {"type": "integer", "minimum": 1},
                    "message": {"type": "string", "minLength": 1},
                    "hint": {"type": "string"},
                    "before": {"type": "string"},
                    "after": {"type": "string"},
                    "fingerprint": {"type": "string", "minLength": 8},
                    "url": {"type": ["string", "null"]},
                },
            },
        },
    },
}


def finding(**changes: object) -> Finding:
    plain = Finding(
        code="MLU003",
        name="unused-ignore",
        severity=Severity.INFO,
        safety=Safety.SAFE,
        confidence=Confidence.HIGH,
        path="a.py",
        line=3,
        column=5,
        end_line=3,
        end_column=26,
        message_id="comment",
        args={"comment": "# mlu: keep"},
        edits=(Edit(18, 39, b"torch.ones(1).mlu()"),),
        before="torch.ones(1).cuda()",
        after="torch.ones(1).mlu()",
        applied=True,
    )
    return plain.with_(**changes)


def run_of(*findings: Finding, **files: FileStatus) -> RunResult:
    changed = any(f.applied for f in findings)
    status = FileStatus.CHANGED if changed else FileStatus.UNCHANGED
    output = SOURCE.replace(b".cuda()", b".mlu()") if changed else None
    first = FileResult("a.py", status, None, SOURCE, output, findings)
    others = [FileResult(f"{name}.py", kind, "line 2: no", b"x") for name, kind in files.items()]
    return RunResult((first, *others), seconds=1.5)


MANUAL = finding(safety=Safety.MANUAL, severity=Severity.ERROR, edits=(), applied=False, after="")
GUESS = finding(safety=Safety.UNSAFE, severity=Severity.WARNING, applied=False)
RUN = run_of(finding(), MANUAL, GUESS, bad=FileStatus.FAILED, odd=FileStatus.SKIPPED)


def test_the_json_report_has_exactly_the_agreed_shape() -> None:
    data = json.loads(json_report.render(RUN, Settings()))
    jsonschema.validate(data, SCHEMA)
    assert data["summary"] == {
        "files": 3,
        "changed": 1,
        "unchanged": 0,
        "skipped": 1,
        "failed": 1,
        "applied": 1,
        "safe": 1,
        "unsafe": 1,
        "manual": 1,
        "seconds": 1.5,
    }
    assert data["files"][0]["sha256"] == RUN.files[0].sha256
    assert data["files"][1] == {
        "path": "bad.py",
        "status": "failed",
        "reason": "line 2: no",
        "sha256": RUN.files[1].sha256,
    }


def test_names_that_are_no_text_survive_in_json() -> None:
    text = json_report.render(run_of(finding(path="latin\udce9.py")), Settings())
    assert "latin" in json.loads(text)["findings"][0]["path"]
    text.encode("utf-8")


def test_a_file_that_was_not_read_has_no_digest() -> None:
    row = json_report.file_record(FileResult("a.py", FileStatus.SKIPPED, "a link"))
    assert row["sha256"] is None
    assert json_report.file_record(FileResult("a.py", FileStatus.UNCHANGED))["sha256"] is not None


def test_one_line_a_finding_in_the_concise_format() -> None:
    lines = concise.render(RUN, Settings()).splitlines()
    assert lines[0].startswith("a.py:3:5: MLU003 info [*] ")
    assert lines[1].startswith("a.py:3:5: MLU003 error `")
    assert lines[2].startswith("a.py:3:5: MLU003 warning [+] ")
    assert lines[3:] == ["bad.py: failed: line 2: no", "odd.py: skipped: line 2: no"]


def test_a_place_in_a_notebook_names_the_cell() -> None:
    assert report.place(finding(cell=4)) == "a.py:cell 4:3:5"


def test_the_full_format_shows_the_code_and_marks_the_place() -> None:
    text = full.render(run_of(finding()), Settings())
    lines = text.splitlines()
    code = lines.index("  3 | x = torch.ones(1).cuda()")
    assert lines[code + 1] == "    |     ^^^^^^^^^^^^^^^^^^^^^"[: len(lines[code + 1])]
    assert lines[code + 1].index("^") == lines[code].index("torch")
    assert any("torch.ones(1).mlu()" in line for line in lines)


def test_a_long_line_is_shown_around_the_place() -> None:
    source = b"x = [" + b"1, " * 100 + b"torch.ones(1).cuda()]\n"
    column = source.index(b"torch") + 1
    item = finding(line=1, column=column, end_line=1, end_column=column + 20)
    text = full.render(RunResult((FileResult("a.py", FileStatus.UNCHANGED, None, source, None, (item,)),)), Settings())
    code, marks = text.splitlines()[2:4]
    assert max(map(len, text.splitlines())) <= 80
    assert marks.index("^") == code.index("torch.ones")


def test_marks_stand_below_wide_characters() -> None:
    source = "s = '显卡'; x.cuda()\n".encode()
    item = finding(line=1, column=11, end_line=1, end_column=19)
    text = full.render(RunResult((FileResult("a.py", FileStatus.UNCHANGED, None, source, None, (item,)),)), Settings())
    code, marks = text.splitlines()[2:4]
    assert layout.columns(code[: code.index("x.cuda")]) == layout.columns(marks[: marks.index("^")])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_summary_fits_80_columns_and_has_every_section(lang: str) -> None:
    long = finding(before="x" * 200 + ".cuda()", after="y" * 200, path="a/" * 30 + "b.py")
    hard = MANUAL.with_(args={"comment": "word " * 60})
    text = terminal.render(
        run_of(long, hard, GUESS, bad=FileStatus.FAILED), Settings(), lang, steps=[("read", "report.md")], baselined=3
    )
    unbreakable = 2 + len("a/" * 30 + "b.py:3:5")
    assert max(layout.columns(line) for line in text.splitlines()) <= max(80, unbreakable)
    assert "bad.py" in text
    assert "report.md" in text


def test_the_summary_of_clean_code_says_so() -> None:
    text = terminal.render(RunResult((FileResult("a.py", FileStatus.UNCHANGED, source=b"x"),)), Settings())
    assert "Nothing here needs to change" in text


def test_colour_is_used_only_when_asked_for() -> None:
    assert "\x1b" not in terminal.render(RUN, Settings())
    assert "\x1b[" in terminal.render(RUN, Settings(), colour=True)


def test_a_rewrite_that_behaves_differently_is_listed_to_check() -> None:
    warned = run_of(finding(severity=Severity.WARNING))
    assert "behaves differently" in terminal.render(warned, Settings())
    assert "behaves differently" in markdown.render(warned, Settings())
    assert "behaves differently" not in terminal.render(run_of(finding()), Settings())


def test_markdown_has_the_work_list_before_the_changes() -> None:
    text = markdown.render(RUN, Settings())
    assert text.index("cannot work") < text.index("guess") < text.index("Every change")
    assert "| 3 | MLU003 | `torch.ones(1).cuda()` | `torch.ones(1).mlu()` |" in text


def test_markdown_of_hostile_names_and_code_stays_markdown() -> None:
    evil = finding(
        path="<script>|.py", before="a | `b` <img src=x>", after="``c``", args={"comment": "<b>x</b> [l](http://e)"}
    )
    run = RunResult((FileResult("<script>|.py", FileStatus.CHANGED, None, SOURCE, b"x", (evil,)),))
    text = markdown.render(run, Settings())
    outside = "".join(part for index, part in enumerate(text.replace("``", "").split("`")) if index % 2 == 0)
    assert "<script>" not in outside
    assert "<b>" not in outside
    row = next(line for line in text.splitlines() if line.startswith("| 3 "))
    assert row.replace("\\|", "").count("|") == 5


def test_the_kind_of_a_report_follows_its_suffix() -> None:
    assert report.kind_of(Path("x.MD")) == "markdown"
    assert report.kind_of(Path("x.sarif")) == "sarif"
    assert report.kind_of(Path("x.txt")) is None


def test_control_characters_never_reach_the_terminal() -> None:
    assert report.printable("a\nb\x1b[31m\udce9é") == "a\\nb\\x1b[31m\\udce9é"


def test_statistics_count_by_rule() -> None:
    assert terminal.statistics(RUN).split() == ["3", "MLU003", "safe", "unused-ignore"]


def test_an_insertion_is_shown_as_what_is_put_in() -> None:
    added = finding(before="import torch", after="import torch", edits=(Edit(12, 12, b"\nimport torch_mlu"),))
    assert report.change(added) == ("", "import torch_mlu")
    assert "+ import torch_mlu" in terminal.render(run_of(added), Settings())


@pytest.mark.parametrize(
    ("run", "judge", "changes", "level", "status"),
    [
        (run_of(), True, True, "info", 0),
        (run_of(finding()), False, False, "error", 0),
        (run_of(finding()), False, True, "error", 1),
        (run_of(MANUAL), True, False, "error", 1),
        (run_of(MANUAL), False, False, "error", 0),
        (run_of(GUESS), True, False, "error", 0),
        (run_of(GUESS), True, False, "warning", 1),
        (run_of(finding()), True, False, "info", 0),
        (run_of(odd=FileStatus.SKIPPED), True, True, "info", 0),
        (run_of(MANUAL, bad=FileStatus.FAILED), True, True, "info", 2),
    ],
)
def test_the_exit_status_is_that_of_the_design(
    run: RunResult, judge: bool, changes: bool, level: str, status: int
) -> None:
    assert status_of(run, level, judge=judge, changes_matter=changes) == status


def test_a_linter_has_applied_nothing() -> None:
    run = as_linter(RUN)
    assert report.summary(run)["applied"] == 0
    assert report.summary(run)["changed"] == 0
    assert [file.status for file in run.files[1:]] == [FileStatus.FAILED, FileStatus.SKIPPED]


def test_the_program_to_run_is_a_changed_script_near_the_top() -> None:
    main = b'import torch\nif __name__ == "__main__":\n    main()\n'
    names = ["tools/train.py", "test_all.py", "export.py", "train.py", "lib.py"]
    files = [
        FileResult(name, FileStatus.CHANGED, source=b"x" if name == "lib.py" else main, output=b"y") for name in names
    ]
    assert entry_point(RunResult(tuple(files))) == "train.py"
    assert entry_point(RunResult(tuple(files[4:]))) is None


def test_paragraphs_break_between_words_and_east_asian_characters() -> None:
    assert layout.wrap("one two three", 8, 0, 2) == ["one two", "  three"]
    lines = layout.wrap("未能迁移的文件都会在报告中列出,并说明原因。" * 3, 20, 0, 0)
    assert all(layout.columns(line) <= 20 for line in lines)
    assert "".join(lines) == "未能迁移的文件都会在报告中列出,并说明原因。" * 3


def test_underscores_inside_words_stay_readable_in_markdown() -> None:
    assert markdown._prose("torch_mlu and __init__ and _x_") == r"torch_mlu and \_\_init\_\_ and \_x\_"


def test_a_line_put_into_a_notebook_is_shown_as_code_and_not_as_json() -> None:
    from mlu_migrate import nonpython

    head = '"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null'
    cell = "{" + head + ', "source": ["import torch\\n", "torch.cuda.synchronize()"]}'
    book = '{"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [' + cell + "]}"
    result = nonpython.migrate(book.encode(), "a.ipynb", Settings())
    (added,) = (f for f in result.findings if f.code == "MLU001")
    assert change(added) == ("", "import torch_mlu # noqa: F401")
