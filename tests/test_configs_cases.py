"""
Every folder of fixtures/configs is a case: ``input`` holds one file, ``report`` and ``unsafe`` what the default run
and one with ``--configs write --unsafe`` make of it (no file: unchanged), ``findings.json`` what is said about it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlu_migrate import nonpython
from mlu_migrate.messages import render
from mlu_migrate.model import FileResult, FileStatus
from mlu_migrate.settings import Settings

FIXTURES = Path(__file__).parent.parent / "fixtures" / "configs"
CASES = sorted(path.name for path in FIXTURES.iterdir())
MODES = {"report": Settings(), "unsafe": Settings(configs="write", unsafe=True)}


def _input(case: str) -> tuple[str, bytes]:
    (file,) = (path for path in (FIXTURES / case / "input").rglob("*") if path.is_file())
    return file.relative_to(FIXTURES / case / "input").as_posix(), file.read_bytes()


def _outside_of_edits(result: FileResult) -> bytes:
    """The output as it must be if nothing but the applied edits was done."""
    out, position = [], 0
    for edit in sorted(edit for f in result.findings if f.applied for edit in f.edits):
        out += [result.source[position : edit.start], edit.text]
        position = edit.end
    return b"".join([*out, result.source[position:]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_a_file_becomes_what_the_case_wants(case: str, mode: str) -> None:
    path, source = _input(case)
    wanted = FIXTURES / case / mode / path
    result = nonpython.migrate(source, path, MODES[mode])
    assert result.result == (wanted.read_bytes() if wanted.exists() else source)
    assert (result.status is FileStatus.CHANGED) == wanted.exists()
    assert result.result == _outside_of_edits(result)


@pytest.mark.parametrize("case", CASES)
def test_the_findings_are_those_of_the_case(case: str) -> None:
    path, source = _input(case)
    found = nonpython.migrate(source, path, Settings()).findings
    rows = [[f.line, f.column, f.code, f.message_id, f.severity.value, f.safety.value] for f in found]
    assert rows == json.loads((FIXTURES / case / "findings.json").read_text("utf-8"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_a_second_run_changes_nothing(case: str, mode: str) -> None:
    path, source = _input(case)
    first = nonpython.migrate(source, path, MODES[mode])
    second = nonpython.migrate(first.result, path, MODES[mode])
    assert second.status is FileStatus.UNCHANGED


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("case", CASES)
def test_every_finding_has_a_filled_message_and_hint(case: str, lang: str) -> None:
    path, source = _input(case)
    for finding in nonpython.migrate(source, path, Settings()).findings:
        message, hint = render(finding, lang)
        assert message and "{" not in message.replace("${", "") and f"{finding.name}:" not in message
        if finding.code.startswith("MLU6"):
            assert hint and "{" not in hint


@pytest.mark.parametrize("case", CASES)
def test_off_says_and_changes_nothing(case: str) -> None:
    path, source = _input(case)
    result = nonpython.migrate(source, path, Settings(configs="off"))
    assert result.status is FileStatus.UNCHANGED and not result.findings


@pytest.mark.parametrize("case", CASES)
def test_positions_name_the_text_that_is_meant(case: str) -> None:
    path, source = _input(case)
    lines = source.decode("utf-8-sig").split("\n")
    for f in nonpython.migrate(source, path, Settings()).findings:
        if f.line == f.end_line:
            assert lines[f.line - 1][f.column - 1 : f.end_column - 1] == f.before
