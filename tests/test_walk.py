from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlu_migrate import walk


def tree(top: Path, *names: str) -> Path:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return top


def found(top: Path, root: Path | None = None, **rules: object) -> list[str]:
    result = walk.find(top, root or top, walk.Rules(**rules), lambda path: path.suffix == ".sh")  # type: ignore[arg-type]
    return [item.rel for item in result.files]


def test_python_and_other_known_files_are_found_in_order_of_path(tmp_path: Path) -> None:
    tree(tmp_path, "b.py", "a/z.py", "a.py", "a/run.sh", "a/data.bin", "types.pyi")
    assert found(tmp_path) == ["a/run.sh", "a/z.py", "a.py", "b.py", "types.pyi"]


def test_version_control_environments_caches_and_installed_packages_are_left_out(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "a.py",
        ".git/hooks/x.py",
        ".venv/b.py",
        "__pycache__/c.py",
        "node_modules/d.py",
        "lib/site-packages/e.py",
    )
    tree(tmp_path, "oddly_named/pyvenv.cfg", "oddly_named/lib/f.py", "env/atari.py")
    assert found(tmp_path) == ["a.py", "env/atari.py"]


def test_a_package_called_build_is_looked_at_but_what_setuptools_left_is_not(tmp_path: Path) -> None:
    tree(tmp_path, "src/build/__init__.py", "build/lib/pkg/a.py")
    assert found(tmp_path) == ["src/build/__init__.py"]


def test_gitignore_files_count_at_every_level_and_deeper_ones_win(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "out/b.py", "pkg/gen_1.py", "pkg/gen_2.py", "pkg/c.py")
    (tmp_path / ".gitignore").write_text("out/\ngen_*.py\n[bad\n")
    (tmp_path / "pkg" / ".gitignore").write_text("!gen_2.py\n")
    assert found(tmp_path) == ["a.py", "pkg/c.py", "pkg/gen_2.py"]
    assert "out/b.py" in found(tmp_path, gitignore=False)


def test_ignore_files_above_the_folder_count_from_the_project_root(tmp_path: Path) -> None:
    tree(tmp_path, "pkg/sub/a.py", "pkg/sub/b.py", "pkg/sub/c.py")
    (tmp_path / ".gitignore").write_text("/pkg/sub/a.py\n")
    (tmp_path / "pkg" / ".gitignore").write_text("sub/b.py\n")
    assert found(tmp_path / "pkg" / "sub", tmp_path) == ["c.py"]


def test_a_folder_that_is_itself_ignored_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    tree(tmp_path, "work_mlu/a.py")
    (tmp_path / ".gitignore").write_text("*_mlu/\n")
    assert found(tmp_path / "work_mlu", tmp_path) == ["a.py"]


def test_the_exclude_file_of_the_git_folder_counts(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "local.py", ".git/info/exclude")
    (tmp_path / ".git" / "info" / "exclude").write_text("local.py\n")
    assert found(tmp_path) == ["a.py"]


def test_globs_extend_or_replace_the_default_excludes(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "tests/b.py", "node_modules/c.py", "vendor/deep/d.py")
    assert found(tmp_path, extend_exclude=("tests", "vendor/**/d.py")) == ["a.py"]
    assert found(tmp_path, exclude=("tests/",)) == ["a.py", "node_modules/c.py", "vendor/deep/d.py"]


def test_links_are_not_followed_and_one_out_of_the_project_is_named(tmp_path: Path) -> None:
    top = tree(tmp_path / "top", "a.py", "pkg/b.py")
    outside = tree(tmp_path / "outside", "secret.py")
    (top / "again.py").symlink_to("a.py")
    (top / "loop").symlink_to(".")
    (top / "away.py").symlink_to(outside / "secret.py")
    (top / "circle.py").symlink_to("circle.py")
    result = walk.find(top, top, walk.Rules(), lambda path: False)
    assert [item.rel for item in result.files] == ["a.py", "pkg/b.py"]
    assert [item.rel for item in result.refused] == ["away.py", "circle.py"]


def test_a_pipe_with_a_python_name_is_named_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "plain")
    result = walk.find(tmp_path, tmp_path, walk.Rules(), lambda path: False)
    assert [item.rel for item in result.refused] == ["pipe.py"]


def test_a_script_without_suffix_is_python_by_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/usr/bin/env python3\nx = 1\n")
    (tmp_path / "notes").write_text("python\n")
    assert found(tmp_path) == ["train"]


def test_names_that_are_not_utf8_or_hold_a_newline_are_found(tmp_path: Path) -> None:
    (tmp_path / "模型.py").write_text("x = 1\n")
    (tmp_path / "two\nlines.py").write_text("x = 1\n")
    with open(os.path.join(os.fsencode(tmp_path), b"latin\xe9.py"), "wb") as file:
        file.write(b"x = 1\n")
    assert sorted(found(tmp_path)) == sorted(["two\nlines.py", "模型.py", "latin\udce9.py"])


def test_a_copy_we_made_inside_the_tree_is_left_alone(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py", "a_mlu/x.py", f"a_mlu/{walk.OUTPUT_MARK}")
    assert found(tmp_path) == ["a/x.py"]
    assert found(tmp_path / "a_mlu") == ["x.py"]


def test_a_file_named_by_the_user_is_taken_whatever_ignores_it_unless_a_glob_excludes_it(tmp_path: Path) -> None:
    path = tree(tmp_path, "node_modules/a.py") / "node_modules" / "a.py"
    assert isinstance(walk.single(path, "a.py", walk.Rules(), tmp_path, lambda path: False), walk.Candidate)
    rules = walk.Rules(extend_exclude=("node_modules/",))
    assert walk.single(path, "a.py", rules, tmp_path, lambda path: False) is None


@pytest.mark.parametrize(("name", "failed"), [("gone.py", True), ("photo.jpg", False)])
def test_a_named_file_that_cannot_be_used_says_why(tmp_path: Path, name: str, failed: bool) -> None:
    tree(tmp_path, "photo.jpg")
    result = walk.single(tmp_path / name, name, walk.Rules(), tmp_path, lambda path: False)
    assert isinstance(result, walk.Refused)
    assert (result.failed, bool(result.reason)) == (failed, True)


def test_a_glob_that_the_shell_left_alone_is_expanded(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py", "b/y.py")
    assert walk.expand(f"{tmp_path}/**/*.py") == [tmp_path / "a/x.py", tmp_path / "b/y.py"]
    assert walk.expand(f"{tmp_path}/no[1].py") == [Path(f"{tmp_path}/no[1].py")]
