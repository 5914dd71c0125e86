from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlu_migrate import gitinfo


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    (top / "sub").mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "user.email", "a@example.com")
    git(top, "config", "user.name", "A")
    for name in ("a.py", "sub/b.py", "sub/模型.py", "gone.py"):
        (top / name).write_text("x = 1\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


def test_changed_since_names_committed_uncommitted_and_new_files(repository: Path) -> None:
    (repository / "a.py").write_text("x = 2\n")
    git(repository, "commit", "-qam", "second")
    (repository / "sub" / "模型.py").write_text("x = 3\n")
    (repository / "new.py").write_text("")
    (repository / "gone.py").unlink()
    (repository / ".gitignore").write_text("ignored.py\n")
    (repository / "ignored.py").write_text("")
    names = {path.relative_to(repository).as_posix() for path in gitinfo.changed_since(repository / "sub", "HEAD~1")}
    assert names == {"a.py", "sub/模型.py", "new.py", ".gitignore"}


@pytest.mark.parametrize("revision", ["nothing", "--output=x", "HEAD:a.py", ""])
def test_a_revision_that_git_does_not_know_is_one_clear_line(repository: Path, revision: str) -> None:
    with pytest.raises(gitinfo.GitError, match="no revision"):
        gitinfo.changed_since(repository, revision)
    assert not (repository / "x").exists()


def test_outside_git_is_said(tmp_path: Path) -> None:
    with pytest.raises(gitinfo.GitError, match="not in"):
        gitinfo.changed_since(tmp_path, "HEAD")
    with pytest.raises(gitinfo.GitError):
        gitinfo.uncommitted(tmp_path)
    assert gitinfo.toplevel(tmp_path) is None


def test_uncommitted_names_changed_and_staged_files_but_not_new_ones(repository: Path) -> None:
    assert gitinfo.uncommitted(repository) == []
    (repository / "a.py").write_text("x = 2\n")
    (repository / "sub" / "b.py").write_text("x = 2\n")
    git(repository, "add", "sub/b.py")
    (repository / "new.py").write_text("")
    assert sorted(gitinfo.uncommitted(repository / "sub")) == ["a.py", "sub/b.py"]


def test_untracked_tells_what_git_could_not_bring_back(repository: Path) -> None:
    (repository / "new.py").write_text("")
    paths = [repository / "a.py", repository / "new.py"]
    assert gitinfo.untracked(repository, paths) == [repository / "new.py"]


def test_a_git_that_is_missing_is_one_clear_line(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(gitinfo.GitError):
        gitinfo.uncommitted(repository)


def test_variables_of_a_hook_do_not_mislead(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert gitinfo.toplevel(repository) == repository
