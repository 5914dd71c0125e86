"""
Faults that happen to real processes: what they leave on disk, and that running again repairs it.

The faults are those of ``benchmarks/faults.py``, which prints them as a table; here each is a test. Hostile sources are
in test_files.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mlu_migrate import atomic


def _load() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks" / "faults.py"
    spec = importlib.util.spec_from_file_location("benchmark_faults", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


table = _load()
POSSIBLE = [fault for fault in table.faults() if not fault.needs_root or table.can_mount()]
QUICK = [fault for fault in POSSIBLE if fault.name not in table.SOURCES]


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: f"{fault.name}-{fault.how}")
def test_no_fault_leaves_half_a_tree_and_running_again_repairs_it(fault: object, tmp_path: Path) -> None:
    row = table.measure(fault, tmp_path)
    assert row.good, row


OLD, NEW = b"old\n", b"new\n"


def killed_between_renames(root: Path, names: list[str], done: int) -> None:
    """What a run that was killed after ``done`` renames leaves: made by really dying there."""
    pid = os.fork()
    if pid == 0:
        real, count = os.replace, [0]

        def replace(source: Path, target: Path) -> None:
            if count[0] == done + 1:  # the first is that of the journal
                os._exit(9)
            count[0] += 1
            real(source, target)

        os.replace = replace  # type: ignore[assignment]
        atomic.write_all([(root / name, NEW) for name in names], root=root)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Four files, two of them renamed when the run died."""
    for name in "abcd":
        (tmp_path / f"{name}.py").write_bytes(OLD)
    killed_between_renames(tmp_path, ["a.py", "b.py", "c.py", "d.py"], 2)
    assert [(tmp_path / f"{name}.py").read_bytes() for name in "abcd"] == [NEW, NEW, OLD, OLD]
    return tmp_path


def test_renames_that_a_killed_run_left_are_finished_once(half: Path) -> None:
    assert atomic.recover(half) == 2
    assert [(half / f"{name}.py").read_bytes() for name in "abcd"] == [NEW] * 4
    assert sorted(path.name for path in half.iterdir()) == ["a.py", "b.py", "c.py", "d.py"]
    assert atomic.recover(half) == 0


def test_a_file_edited_since_the_run_was_killed_is_not_written_over(half: Path) -> None:
    (half / "c.py").write_bytes(b"edited since\n")
    assert atomic.recover(half) == 1
    assert (half / "c.py").read_bytes() == b"edited since\n"
    assert (half / "d.py").read_bytes() == NEW
    assert not list(half.glob(".mlu-migrate-*"))


def test_the_journal_of_a_run_that_is_still_going_is_left_alone(half: Path) -> None:
    journal = json.loads((half / atomic.JOURNAL).read_text())
    journal["pid"] = os.getppid()
    (half / atomic.JOURNAL).write_text(json.dumps(journal))
    assert atomic.recover(half) == 0
    assert (half / "c.py").read_bytes() == OLD
    assert (half / atomic.JOURNAL).exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1e400, "files": []}', '{"pid": "x", "files": 3}', "\0"])
def test_a_journal_of_another_make_moves_nothing_and_goes_away(tmp_path: Path, text: str) -> None:
    (tmp_path / atomic.JOURNAL).write_text(text)
    assert atomic.recover(tmp_path) == 0
    assert not (tmp_path / atomic.JOURNAL).exists()


def test_a_hostile_journal_moves_nothing_but_our_own_temporary_files(tmp_path: Path) -> None:
    root, outside = tmp_path / "p", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    for folder in (root, outside):
        (folder / "a.py").write_bytes(OLD)
        (folder / "other").write_bytes(NEW)
        (folder / f"{atomic.PREFIX}1-x").write_bytes(NEW)
    (root / f"{atomic.PREFIX}link").symlink_to(outside / "other")
    digest = atomic._digest(root / "a.py")
    rows = [
        ("a.py", "other", digest),
        ("a.py", f"{atomic.PREFIX}link", digest),
        ("a.py", f"{atomic.PREFIX}/../other", digest),
    ]
    for row in rows:
        (root / atomic.JOURNAL).write_text(json.dumps({"pid": 0x7FFFFFFF, "files": [row]}))
        assert atomic.recover(root) == 0
        assert (root / "a.py").read_bytes() == OLD
    for name in ("../outside/a.py", str(outside / "a.py")):
        row = (name, f"{atomic.PREFIX}1-x", digest)
        (root / atomic.JOURNAL).write_text(json.dumps({"pid": 0x7FFFFFFF, "files": [row]}))
        with pytest.raises(atomic.WriteError):
            atomic.recover(root)
    assert (outside / "a.py").read_bytes() == OLD
    assert (outside / f"{atomic.PREFIX}1-x").read_bytes() == NEW


def test_a_link_in_the_place_of_the_journal_is_not_written_through(tmp_path: Path) -> None:
    root, target = tmp_path / "p", tmp_path / "precious"
    root.mkdir()
    target.write_bytes(OLD)
    (root / atomic.JOURNAL).symlink_to(target)
    for name in "ab":
        (root / name).write_bytes(OLD)
    with pytest.raises(atomic.WriteError):
        atomic.write_all([(root / "a", NEW), (root / "b", NEW)], root=root)
    assert target.read_bytes() == (root / "a").read_bytes() == (root / "b").read_bytes() == OLD
    assert sorted(path.name for path in root.iterdir()) == [atomic.JOURNAL, "a", "b"]


def test_temporary_files_of_dead_runs_go_and_those_of_running_ones_stay(tmp_path: Path) -> None:
    dead, alive = f"{atomic.PREFIX}{0x7FFFFFFF}-x", f"{atomic.PREFIX}{os.getppid()}-x"
    for name in (dead, alive, "a"):
        (tmp_path / name).write_bytes(OLD)
    atomic.write_all([(tmp_path / "a", NEW)], root=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {alive, "a"}
