"""
Every file under fixtures/rules and fixtures/projects, asked four things: the text is as wanted, a second run changes
nothing, the
result compiles, a no-op is untouched. `x.findings.json` beside a case lists findings that must be present; an empty
list says that there are none.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlu_migrate import engine, project
from mlu_migrate.model import FileResult, FileStatus
from mlu_migrate.settings import Settings

ROOT = Path(__file__).parent.parent / "fixtures"
BEFORE = sorted(ROOT.glob("rules/*/*.before.py"))
NOOP = sorted(ROOT.glob("rules/*/*.noop.py"))
PROJECTS = sorted(p for p in ROOT.glob("projects/*") if (p / "before").is_dir())


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.partition('.')[0]}"


def settings_of(path: Path) -> Settings:
    """`case.settings.json` beside a case holds fields of Settings."""
    given = path.with_name(path.name.partition(".")[0] + ".settings.json")
    return Settings(**json.loads(given.read_text("utf-8"))) if given.exists() else Settings()


def run(source: bytes, file_name: str, settings: Settings) -> FileResult:
    collector = project.Collector()
    collector.add(file_name, source)
    return engine.migrate(source, file_name, settings, collector.facts())


def check_findings(path: Path, results: list[FileResult]) -> None:
    given = path.with_name(path.name.partition(".")[0] + ".findings.json") if path.is_file() else path / "findings.json"
    if not given.exists():
        return
    have = [(f.path, f.code, f.line, f.severity.value) for r in results for f in r.findings]
    rows = json.loads(given.read_text("utf-8"))
    assert rows or not have, f"nothing is to be said, but {have}"
    for row in rows:
        wanted = (row["code"], row["line"], row["severity"])
        places = [h for h in have if h[1:] == wanted and row.get("path", h[0]) == h[0]]
        assert places, f"{wanted} is not among {have}"


@pytest.mark.parametrize("path", BEFORE, ids=name)
def test_a_case_is_migrated_as_its_after_file_says(path: Path) -> None:
    settings = settings_of(path)
    source = path.read_bytes()
    wanted = path.with_name(path.name.replace(".before.", ".after.")).read_bytes()
    result = run(source, "case.py", settings)
    assert result.status is not FileStatus.FAILED, result.reason
    assert result.result.decode() == wanted.decode()
    again = run(result.result, "case.py", settings)
    assert again.result == result.result, "a second run changes the file"
    if path.name.partition(".")[0].endswith("_py2") is False:
        compile(result.result, str(path), "exec", dont_inherit=True)
    check_findings(path, [result])


@pytest.mark.parametrize("path", NOOP, ids=name)
def test_a_no_op_is_left_byte_for_byte(path: Path) -> None:
    source = path.read_bytes()
    result = run(source, "case.py", settings_of(path))
    assert result.result.decode("utf-8", "replace") == source.decode("utf-8", "replace")
    assert result.status is not FileStatus.CHANGED
    check_findings(path, [result])


@pytest.mark.parametrize("path", PROJECTS, ids=lambda p: p.name)
def test_a_project_is_migrated_as_a_whole(path: Path) -> None:
    before, after = path / "before", path / "after"
    files = sorted(before.rglob("*.py"))
    facts = project.scan(before, files)
    results = []
    for file in files:
        relative = file.relative_to(before)
        result = engine.migrate(file.read_bytes(), relative.as_posix(), Settings(), facts)
        assert result.result.decode() == (after / relative).read_text("utf-8"), relative
        results.append(result)
    again = project.scan(after, sorted(after.rglob("*.py")))
    for file in sorted(after.rglob("*.py")):
        second = engine.migrate(file.read_bytes(), file.relative_to(after).as_posix(), Settings(), again)
        assert second.result == file.read_bytes(), f"a second run changes {file.name}"
    check_findings(path, results)


def test_every_case_has_its_counterpart() -> None:
    for path in BEFORE:
        assert path.with_name(path.name.replace(".before.", ".after.")).exists(), path
