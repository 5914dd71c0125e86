"""The hooks for pre-commit: the manifest, what the entries do, and the real pre-commit in a scratch repository."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pre_commit.clientlib import load_manifest

ROOT = Path(__file__).parent.parent
HOOKS = {hook["id"]: hook for hook in load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))}
DIRTY = "import torch\n\nx = torch.zeros(1).cuda()\n"
FIXED = "import torch\nimport torch_mlu  # noqa: F401\n\nx = torch.zeros(1).mlu()\n"


def _git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    _git(folder, "init", "-q")
    (folder / "clean.py").write_text("x = 1\n")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "start")
    return folder


def _run(hook: str, folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(HOOKS[hook]["entry"])
    assert program == "mlu-migrate"
    command = [sys.executable, "-m", "mlu_migrate", *arguments, *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_manifest_names_both_hooks_for_python_and_notebooks() -> None:
    assert set(HOOKS) == {"mlu-migrate-check", "mlu-migrate-fix"}
    for hook in HOOKS.values():
        assert hook["language"] == "python" and hook["types_or"] == ["python", "pyi", "jupyter"]
        assert hook["require_serial"] is False and hook["pass_filenames"] is True


def test_clean_files_pass_and_are_not_touched(repository: Path) -> None:
    for hook in HOOKS:
        assert _run(hook, repository, "clean.py").returncode == 0
    assert (repository / "clean.py").read_text() == "x = 1\n"


def test_the_check_fails_on_dirty_files_and_writes_nothing(repository: Path) -> None:
    (repository / "dirty.py").write_text(DIRTY)
    result = _run("mlu-migrate-check", repository, "clean.py", "dirty.py")
    assert result.returncode == 1 and "dirty.py" in result.stdout + result.stderr
    assert (repository / "dirty.py").read_text() == DIRTY
    assert sorted(path.name for path in repository.iterdir()) == [".git", "clean.py", "dirty.py"]


def test_the_fix_rewrites_dirty_files_once(repository: Path) -> None:
    (repository / "dirty.py").write_text(DIRTY)
    _git(repository, "add", "-A")
    assert _run("mlu-migrate-fix", repository, "clean.py", "dirty.py").returncode == 0
    assert (repository / "dirty.py").read_text() == FIXED
    assert _run("mlu-migrate-check", repository, "clean.py", "dirty.py").returncode == 0
    assert sorted(path.name for path in repository.iterdir()) == [".git", "clean.py", "dirty.py"]


def test_processes_on_different_files_do_not_disturb_each_other(repository: Path) -> None:
    names = [f"d{n}.py" for n in range(8)]
    for name in names:
        (repository / name).write_text(DIRTY)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: _run("mlu-migrate-fix", repository, *names[n::4]), range(4)))
    assert [r.returncode for r in results] == [0, 0, 0, 0]
    assert {(repository / name).read_text() for name in names} == {FIXED}


@pytest.mark.slow
def test_the_real_pre_commit_passes_fixes_and_is_quiet_afterwards(repository: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tool)], check=True)
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tool, check=True, capture_output=True, text=True
    ).stdout.strip()
    (repository / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {tool}\n  rev: {revision}\n  hooks:\n  - id: mlu-migrate-check\n    stages: [manual]\n"
        "  - id: mlu-migrate-fix\n"
    )
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}

    def pre_commit(*arguments: str) -> int:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", *arguments]
        return subprocess.run(command, cwd=repository, env=environment, capture_output=True, timeout=900).returncode

    check = ("--hook-stage", "manual", "mlu-migrate-check")
    _git(repository, "add", "-A")
    assert pre_commit() == 0 and pre_commit(*check) == 0
    (repository / "dirty.py").write_text(DIRTY)
    _git(repository, "add", "-A")
    assert pre_commit(*check) == 1 and (repository / "dirty.py").read_text() == DIRTY
    assert pre_commit() == 1 and (repository / "dirty.py").read_text() == FIXED
    _git(repository, "add", "-A")
    assert pre_commit() == 0 and pre_commit(*check) == 0
    assert not list((tmp_path / "home").glob("**/site-packages/torch"))
