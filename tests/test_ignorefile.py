from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlu_migrate.ignorefile import IgnoreFile

PATHS = [
    *(
        "a",
        "b",
        "ab",
        "a.py",
        "a b",
        "a ",
        "#a",
        "!a",
        "[a]",
        "a-b",
        "a]b",
        "A",
        "7",
        "ä",
        "模型.py",
        "a\\b",
        "x.tar.gz",
    ),
    *("sub/a", "sub/a.py", "sub/deep/a", "sub/deep/b.py", "a.d/b", "foo/bar", "foo/x/bar", "foo/x/y/bar", ".hidden/a"),
]
PATTERNS = [
    *(
        "a",
        "/a",
        "a/",
        "*.py",
        "sub/*",
        "sub/**",
        "**/a",
        "foo/**/bar",
        "a*",
        "?",
        "[ab]",
        "[!a]",
        "[^a]",
        "[a-c]",
        "[]a]b",
    ),
    *(
        "\\#a",
        "\\!a",
        "#a",
        "a\\ ",
        "a ",
        "a b",
        "[[]a[]]",
        "a\\\\b",
        "[[:digit:]]",
        "[[:upper:]]",
        "*.tar.gz",
        "**",
        "sub/**/a",
    ),
    *(
        "/sub/deep",
        "deep",
        "deep/",
        "**/deep/*",
        ".*",
        "a[",
        "a[b",
        "[a-]-b",
        "a[-]b",
        "模*",
        "foo/*/bar",
        "/**/bar",
        "*/a",
        "**foo",
    ),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_git_says_it_matches(tmp_path: Path, pattern: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(f"{pattern}\n")
    asked = "\0".join(PATHS).encode()
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        input=asked,
        cwd=tmp_path,
        capture_output=True,
    )
    wanted = [name for name in done.stdout.decode().split("\0") if name]
    file = IgnoreFile([pattern])
    assert [path for path in PATHS if file.covers(path)] == wanted


def test_the_last_pattern_that_matches_decides() -> None:
    file = IgnoreFile(["*.py", "!a.py", "sub/"])
    assert [file.verdict(path, False) for path in ("a.py", "b.py", "c")] == [False, True, None]
    assert (file.verdict("sub", True), file.verdict("sub", False)) == (True, None)


def test_bringing_folders_back_brings_no_file_back() -> None:
    file = IgnoreFile(["*", "!*/", "!*.py"])
    assert file.verdict("sub", True) is False
    assert file.verdict("sub/a.txt", False) is True
    assert file.verdict("sub/a.py", False) is False


def test_comments_and_empty_lines_are_no_patterns() -> None:
    assert not IgnoreFile(["", "# a", "   ", "/", "!"])
