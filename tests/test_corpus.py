"""
Other people's code as input: the standard library of the running Python with its tests, and all that is installed
beside us. Nightly. No traceback, a result that parses, a second run that changes nothing, and no changed byte outside
the edits.
"""

from __future__ import annotations

import ast
import difflib
import importlib.metadata
import os
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlu_migrate import engine, pool, prefilter
from mlu_migrate.model import Edit, FileResult, FileStatus
from mlu_migrate.report import sidebyside
from mlu_migrate.settings import Settings

SECONDS = 120.0


def judge(context: object, path: str) -> str:
    """What is wrong with the migration of one file, or an empty text. Runs in a worker."""
    source = Path(path).read_bytes()
    settings = Settings(unsafe=True)
    result = engine.migrate(source, "a.py", settings)
    if result.status is FileStatus.FAILED:
        # A sane reason, and the bytes kept: what Python reads must not be failed for an error of ours.
        return f"{result.reason}" if "internal error" in (result.reason or "") or result.output is not None else ""
    if result.output is None:
        return "" if result.result == source else "the bytes of an unchanged file differ"
    try:
        ast.parse(result.output)
    except (SyntaxError, ValueError) as error:
        return f"the result does not parse: {error}"
    again = engine.migrate(result.output, "a.py", settings)
    if again.output is not None:
        return "a second run changes it again"
    return outside_of_edits(result)


def outside_of_edits(result: FileResult) -> str:
    """
    What changed that no applied finding speaks of: lines that differ must be lines of applied findings, or be added by
    one.
    """
    old, new = result.source.splitlines(keepends=True), (result.output or b"").splitlines(keepends=True)
    covered = {n for f in result.findings if f.applied for n in range(f.line, f.end_line + 1)}
    for finding in result.findings:
        if finding.applied:
            covered |= {_line(result.source, edit) for edit in finding.edits}
    for start, end, new_start, new_end in sidebyside.changes(old, new):
        kept = difflib.SequenceMatcher(
            None, old[start:end], new[new_start:new_end], autojunk=False
        ).get_matching_blocks()
        same = {start + at + n + 1 for at, _, size in kept for n in range(size)}
        loose = set(range(start + 1, end + 1)) - same - covered
        if loose:
            return f"line {min(loose)} changed and no finding that was applied is there"
    return ""


def _line(source: bytes, edit: Edit) -> int:
    return source.count(b"\n", 0, edit.start) + 1


def python_files(folder: Path, leave_out: tuple[str, ...] = ()) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in leave_out)
        yield from (Path(top, name) for name in sorted(names) if name.endswith((".py", ".pyi")))


def migrate_all(paths: list[Path]) -> tuple[int, list[str]]:
    """How many files were looked into, and one line for each that went wrong."""
    sizes = [path.stat().st_size for path in paths]
    outcomes = pool.run(judge, None, [str(path) for path in paths], sizes, jobs=2, seconds=SECONDS)
    wrong = []
    for path, outcome in zip(paths, outcomes):
        said = outcome.reason if outcome.value is None else outcome.value
        if said:
            wrong.append(f"{path}: {said}")
    return len(paths), wrong


@pytest.mark.slow
def test_the_standard_library_and_its_tests_go_through() -> None:
    """Files with a word that makes us look: all; of the others the prefilter has decided, and a sample is enough."""
    top = Path(sysconfig.get_paths()["stdlib"])
    paths = list(python_files(top, ("site-packages", "dist-packages")))
    assert len(paths) > 500
    count, wrong = migrate_all(paths)
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:50])


@pytest.mark.slow
def test_everything_that_is_installed_goes_through() -> None:
    paths = [
        path
        for path in python_files(Path(sysconfig.get_paths()["purelib"]))
        if path.stat().st_size < 4_000_000 and prefilter.mentions(path.read_bytes())
    ]
    assert len(paths) > 100
    count, wrong = migrate_all(paths)
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:50])


@pytest.mark.parametrize("package", ["libcst", "typer", "yaml"])
def test_the_packages_we_stand_on_go_through(package: str) -> None:
    """A quick part of the above, every word in them taken for a trigger."""
    name = {"yaml": "PyYAML"}.get(package, package)
    files = [Path(str(item.locate())) for item in importlib.metadata.files(name) or () if item.suffix == ".py"]
    assert files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in sorted(files)[:15]:
            source = b"import torch\n" + path.read_bytes() + b"\ntorch.cuda.synchronize()\n"
            result = engine.migrate(source, "a.py", Settings(unsafe=True))
            try:
                ast.parse(source)
            except SyntaxError:
                assert result.status is FileStatus.FAILED  # `from __future__` no longer comes first, for one
                continue
            assert result.output is not None, f"{path}: {result.reason}"
            assert outside_of_edits(result) == "", path
            assert result.output.endswith(b"torch.mlu.synchronize()\n")
