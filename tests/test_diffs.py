from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from mlu_migrate import diffs
from mlu_migrate.model import FileResult, FileStatus


def changed(before: bytes, after: bytes, path: str = "a.py") -> FileResult:
    return FileResult(path, FileStatus.CHANGED, None, before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\nb", b"a\nB"),
        (b"a\nb", b"a\nb\n"),
        (b"a\r\nb\r\n", b"a\r\nB\r\n"),
        (b"a\rb\r", b"a\rB\r"),
        (b"\xff\xfe\n1\n", b"\xff\xfe\n2\n"),
        (b"1\n" * 50 + b"x\n" + b"1\n" * 50, b"1\n" * 50 + b"1\ny\n" + b"1\n" * 50),
        (b"x\n" + b"1\n" * 50, b"y\n" + b"1\n" * 50),
        (b"1\n" * 50, b"1\n" * 50 + b"z\n"),
        (b"1\n" * 9, b"0\n" + b"1\n" * 9),
    ],
)
def test_patch_makes_the_output_from_the_source(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a.py").write_bytes(before)
    patch = diffs.unified(changed(before, after))
    subprocess.run(["git", "apply", "-p1", "-"], input=patch, cwd=tmp_path, check=True)
    assert (tmp_path / "a.py").read_bytes() == after


def test_random_changes_make_patches_that_apply(tmp_path: Path) -> None:
    dice = random.Random(7)
    for _ in range(30):
        lines = [b"%d\n" % dice.randrange(5) for _ in range(dice.randrange(1, 60))]
        after = list(lines)
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(after) + 1)
            after[at : at + dice.randrange(3)] = [b"new %d\n" % dice.randrange(9)] * dice.randrange(3)
        before, wanted = b"".join(lines), b"".join(after)
        if before == wanted or not wanted:
            continue
        (tmp_path / "a.py").write_bytes(before)
        subprocess.run(["git", "apply", "-"], input=diffs.unified(changed(before, wanted)), cwd=tmp_path, check=True)
        assert (tmp_path / "a.py").read_bytes() == wanted


def test_a_file_without_a_change_has_no_diff() -> None:
    assert diffs.unified(FileResult("a.py", FileStatus.UNCHANGED, source=b"x")) == b""
    assert diffs.unified(changed(b"x", b"x")) == b""


def test_a_name_with_a_newline_stays_on_the_header_line() -> None:
    assert diffs.unified(changed(b"x\n", b"y\n", "a\nb.py")).splitlines()[0] == b"--- a/a\\nb.py"
