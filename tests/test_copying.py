from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mlu_migrate import cli, copying, copystate, tree

Mlu = Callable[..., int]


@pytest.fixture
def mlu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mlu:
    def run(*arguments: object) -> int:
        monkeypatch.chdir(tmp_path)
        return cli.main([str(argument) for argument in arguments])

    return run


@pytest.fixture
def copy(project: Path) -> Path:
    return project.with_name("project_mlu")


def test_data_links_modes_and_empty_folders_are_copied(mlu: Mlu, project: Path, copy: Path) -> None:
    (project / "empty").mkdir(mode=0o750)
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "secret").write_text("s")
    (project / "secret").chmod(0o600)
    (project / "link").symlink_to("pkg/plain.py")
    (project / "folder").symlink_to("pkg")
    (project / "broken").symlink_to("nowhere")
    (project / ".hidden").write_text("h")
    os.utime(project / "data.bin", (1_000_000_000, 1_000_000_000))
    assert mlu("project") == 0
    assert (copy / "empty").is_dir()
    assert [stat.S_IMODE((copy / name).stat().st_mode) for name in ("empty", "run.sh", "secret")] == [
        0o750,
        0o755,
        0o600,
    ]
    assert [os.readlink(copy / name) for name in ("link", "folder", "broken")] == ["pkg/plain.py", "pkg", "nowhere"]
    assert (copy / ".hidden").read_text() == "h"
    assert (copy / "data.bin").stat().st_mtime == 1_000_000_000


def test_the_mode_of_a_rewritten_file_stays(mlu: Mlu, project: Path, copy: Path) -> None:
    (project / "train.py").chmod(0o755)
    mlu("project")
    assert stat.S_IMODE((copy / "train.py").stat().st_mode) == 0o755
    assert ".mlu()" in (copy / "train.py").read_text()


def test_version_control_environments_and_caches_are_not_copied(mlu: Mlu, project: Path, copy: Path) -> None:
    for name in (".git/config", "__pycache__/x.pyc", "odd/pyvenv.cfg", ".venv/bin/python", ".mypy_cache/x"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (project / ".gitignore").write_text("data/\n")
    mlu("project")
    names = {path.name for path in copy.iterdir()}
    assert not names & {".git", "__pycache__", "odd", ".venv", ".mypy_cache"}
    assert ".gitignore" in names


def test_what_gitignore_names_is_copied_but_not_rewritten_and_said(mlu: Mlu, project: Path, copy: Path) -> None:
    (project / ".gitignore").write_text("local/\n")
    (project / "local").mkdir()
    source = "import torch\nx = torch.ones(1).cuda()\n"
    (project / "local" / "a.py").write_text(source)
    mlu("project")
    assert (copy / "local" / "a.py").read_text() == source
    report = json.loads((copy / "mlu-migrate-report.json").read_text())
    (row,) = [file for file in report["files"] if file["path"] == "local/a.py"]
    assert row["status"] == "skipped"
    assert "gitignore" in row["reason"]


def test_a_pipe_is_named_and_does_not_stop_the_run(
    mlu: Mlu, project: Path, copy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(project / "pipe")
    assert mlu("project") == 0
    assert "pipe" in capfd.readouterr().err
    assert not (copy / "pipe").exists()


def test_a_second_run_leaves_every_byte_as_it_is(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    ignored = {"mlu-migrate-report.json"}  # holds the seconds of the run
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name not in ignored}
    assert mlu("project") == 0
    assert {
        path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name not in ignored
    } == before


def test_a_refresh_brings_changes_new_files_and_deletions(mlu: Mlu, project: Path, copy: Path) -> None:
    (project / "old.py").write_text("x = 1\n")
    mlu("project")
    (project / "old.py").unlink()
    (project / "new.py").write_text("import torch\ny = torch.ones(1).cuda()\n")
    (project / "train.py").write_text("import torch\nz = torch.zeros(1).cuda()\n")
    (project / "data.bin").write_bytes(b"other")
    assert mlu("project") == 0
    assert not (copy / "old.py").exists()
    assert ".mlu()" in (copy / "new.py").read_text()
    assert "torch.zeros(1).mlu()" in (copy / "train.py").read_text()
    assert (copy / "data.bin").read_bytes() == b"other"


def test_files_that_the_user_put_into_the_copy_stay(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    (copy / "checkpoint.pt").write_bytes(b"mine")
    assert mlu("project") == 0
    assert (copy / "checkpoint.pt").read_bytes() == b"mine"


def test_a_folder_that_is_not_ours_is_refused_and_untouched(mlu: Mlu, project: Path, copy: Path) -> None:
    copy.mkdir()
    (copy / "train.py").write_text("mine")
    assert mlu("project") == 2
    assert [path.name for path in copy.iterdir()] == ["train.py"]
    assert (copy / "train.py").read_text() == "mine"


def test_an_empty_folder_is_filled(mlu: Mlu, project: Path, copy: Path) -> None:
    copy.mkdir()
    assert mlu("project") == 0
    assert (copy / "train.py").is_file()


def test_a_folder_that_is_not_ours_is_written_over_with_force(mlu: Mlu, project: Path, copy: Path) -> None:
    copy.mkdir()
    (copy / "train.py").write_text("theirs")
    (copy / "other.txt").write_text("stays")
    assert mlu("project", "--force") == 0
    assert ".mlu()" in (copy / "train.py").read_text()
    assert (copy / "other.txt").read_text() == "stays"
    assert mlu("project") == 0


def edit(path: Path) -> str:
    text = path.read_text().replace("print(model)", "print('by hand', model)")
    path.write_text(text)
    return text


def test_edits_by_hand_are_named_and_the_refresh_is_refused(
    mlu: Mlu, project: Path, copy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mlu("project")
    text = edit(copy / "train.py")
    capfd.readouterr()
    assert mlu("project") == 2
    err = capfd.readouterr().err
    assert "train.py" in err
    assert "--merge" in err
    assert (copy / "train.py").read_text() == text


@pytest.mark.parametrize("name", ["train.py", "data.bin"])
def test_force_keeps_edits_by_hand_and_refreshes_the_rest(
    mlu: Mlu, project: Path, copy: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    mlu("project")
    (copy / name).write_bytes(b"# by hand\n")
    (project / "pkg" / "plain.py").write_text("x = 2\n")
    capfd.readouterr()
    assert mlu("project", "--force") == 0
    assert f"{name}: edited by hand" in capfd.readouterr().err
    assert (copy / name).read_bytes() == b"# by hand\n"
    assert (copy / "pkg" / "plain.py").read_text() == "x = 2\n"
    assert mlu("project") == 2, "still edited by hand"


def test_merge_brings_new_changes_into_edits_by_hand(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    edit(copy / "train.py")
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source + "\ntorch.cuda.synchronize()\n")
    assert mlu("project", "--merge") == 0
    merged = (copy / "train.py").read_text()
    assert "print('by hand', model)" in merged
    assert "torch.mlu.synchronize()" in merged
    (project / "train.py").write_text(source + "\ntorch.cuda.synchronize()\ntorch.cuda.empty_cache()\n")
    assert mlu("project", "--merge") == 0
    assert "torch.mlu.empty_cache()" in (copy / "train.py").read_text()
    assert "by hand" in (copy / "train.py").read_text()


def test_changes_missed_by_force_come_with_a_later_merge(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    edit(copy / "train.py")
    (project / "train.py").write_text((project / "train.py").read_text() + "\ntorch.cuda.synchronize()\n")
    mlu("project", "--force")
    assert "synchronize" not in (copy / "train.py").read_text()
    mlu("project", "--merge")
    assert "torch.mlu.synchronize()" in (copy / "train.py").read_text()


def test_a_merge_conflict_is_marked_named_and_gives_status_1(
    mlu: Mlu, project: Path, copy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mlu("project")
    edit(copy / "train.py")
    (project / "train.py").write_text((project / "train.py").read_text().replace("print(model)", "print(1)"))
    capfd.readouterr()
    assert mlu("project", "--merge") == 1
    assert "train.py" in capfd.readouterr().err
    text = (copy / "train.py").read_text()
    assert "<<<<<<< edited by hand" in text
    assert "print('by hand', model)" in text
    assert "print(1)" in text


def test_an_edited_file_that_is_gone_upstream_is_kept(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    text = edit(copy / "train.py")
    (project / "train.py").unlink()
    assert mlu("project", "--force") == 0
    assert (copy / "train.py").read_text() == text


def test_a_file_deleted_in_the_copy_comes_back(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    (copy / "pkg" / "plain.py").unlink()
    (copy / "data.bin").unlink()
    assert mlu("project") == 0
    assert (copy / "pkg" / "plain.py").is_file()
    assert (copy / "data.bin").is_file()


def test_without_the_merge_base_edits_are_still_seen_by_the_report(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    (copy / copystate.BASE).unlink()
    text = edit(copy / "train.py")
    assert mlu("project") == 2
    assert mlu("project", "--merge") == 0
    assert (copy / "train.py").read_text() == text


def test_a_refresh_that_was_killed_half_way_can_be_repeated(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    (project / "train.py").write_text("import torch\nz = torch.zeros(1).cuda()\n")
    (project / "pkg" / "plain.py").write_text("x = 3\n")
    program = (
        "import os, sys\n"
        "from mlu_migrate import atomic, cli\n"
        "real = atomic.write_all\n"
        "def half(items, *, root=None):\n"
        "    real(list(items)[:1], root=root)\n"
        "    os._exit(9)\n"
        "atomic.write_all = half\n"
        "cli.main(['project'])\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=project.parent, capture_output=True).returncode == 9
    assert mlu("project") == 0
    assert "torch.zeros(1).mlu()" in (copy / "train.py").read_text()
    assert (copy / "pkg" / "plain.py").read_text() == "x = 3\n"
    assert not (copy / copystate.JOURNAL).exists()


def test_what_a_killed_run_left_beside_the_copy_is_swept_away(mlu: Mlu, project: Path, copy: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    rest = copy.parent / f".project_mlu.partial-{done.stdout.strip()}"
    (rest / "deep").mkdir(parents=True)
    assert mlu("project") == 0
    assert not rest.exists()


def test_a_copy_that_cannot_be_finished_is_not_there_at_all(
    mlu: Mlu, project: Path, copy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import resource
    import signal

    (project / "weights.bin").write_bytes(b"w" * 300_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # as a full disk, per file
    try:
        capfd.readouterr()
        assert mlu("project") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert len(capfd.readouterr().err.strip().splitlines()) == 1
    assert sorted(path.name for path in project.parent.iterdir()) == ["project"]


def test_read_only_files_and_folders_are_copied_and_refreshed(mlu: Mlu, project: Path, copy: Path) -> None:
    (project / "train.py").chmod(0o444)
    (project / "pkg").chmod(0o555)
    try:
        assert mlu("project") == 0
        assert stat.S_IMODE((copy / "train.py").stat().st_mode) == 0o444
        assert stat.S_IMODE((copy / "pkg").stat().st_mode) == 0o555
        (project / "train.py").chmod(0o644)
        (project / "train.py").write_text("import torch\nz = torch.zeros(1).cuda()\n")
        assert mlu("project") == 0
        assert "torch.zeros(1).mlu()" in (copy / "train.py").read_text()
    finally:
        (project / "pkg").chmod(0o755)


def test_names_with_newlines_and_bytes_that_are_no_text_are_copied(mlu: Mlu, project: Path, copy: Path) -> None:
    source = b"import torch\nx = torch.ones(1).cuda()\n"
    for name in (b"two\nlines.py", b"latin\xe9.py", "模型.py".encode()):
        with open(os.path.join(os.fsencode(project), name), "wb") as file:
            file.write(source)
    assert mlu("project") == 0
    for name in (b"two\nlines.py", b"latin\xe9.py", "模型.py".encode()):
        with open(os.path.join(os.fsencode(copy), name), "rb") as file:
            assert b".mlu()" in file.read()
    assert mlu("project") == 0


def test_a_hostile_report_cannot_make_a_refresh_leave_the_copy(mlu: Mlu, project: Path, copy: Path) -> None:
    mlu("project")
    outside = project.parent / "outside.txt"
    outside.write_text("mine")
    with zipfile.ZipFile(copy / copystate.BASE) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["copied"]["../outside.txt"] = [4, 0]
    manifest["files"]["../outside.txt"] = ["0"]
    manifest["files"][str(outside)] = ["0"]
    with zipfile.ZipFile(copy / copystate.BASE, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    assert mlu("project") == 0
    assert outside.read_text() == "mine"


def test_a_file_replaced_by_a_link_is_an_edit_by_hand_and_not_written_through(
    mlu: Mlu, project: Path, copy: Path
) -> None:
    mlu("project")
    outside = project.parent / "outside.py"
    outside.write_text("mine")
    for name in ("train.py", "data.bin"):
        (copy / name).unlink()
        (copy / name).symlink_to(outside)
    (project / "train.py").write_text("import torch\nz = torch.zeros(1).cuda()\n")
    (project / "data.bin").write_bytes(b"new")
    assert mlu("project") == 2
    assert mlu("project", "--force") == 0
    assert (copy / "train.py").is_symlink()
    assert outside.read_text() == "mine"


def test_a_folder_replaced_by_a_link_is_kept_and_nothing_is_written_or_removed_below_it(
    mlu: Mlu, project: Path, copy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mlu("project")
    outside = project.parent / "outside"
    (copy / "pkg").rename(outside)
    (copy / "pkg").symlink_to(outside)
    (project / "pkg" / "plain.py").write_text("x = 2\n")
    (project / "pkg" / "new.bin").write_bytes(b"new")
    (project / "pkg" / "__init__.py").unlink()
    capfd.readouterr()
    assert mlu("project") == 0
    assert "pkg: edited by hand" in capfd.readouterr().err
    assert (copy / "pkg").is_symlink()
    assert (outside / "plain.py").read_text() == "x = 1\n"
    assert sorted(path.name for path in outside.iterdir()) == ["__init__.py", "plain.py"]
    (copy / "pkg").unlink()
    outside.rename(copy / "pkg")
    assert mlu("project") == 0
    assert (copy / "pkg" / "plain.py").read_text() == "x = 2\n"


def test_a_large_copy_gets_a_word(mlu: Mlu, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (project / "weights.bin").open("wb") as file:
        file.truncate(copying.LARGE + 1)
    found, problems = tree.entries_of(project)
    said: list[str] = []
    with pytest.raises(copying.CopyError):
        copying.copy(found, project / "train.py" / "x", {}, {}, talk=said.append)
    assert problems == []
    assert any("1.0 GB" in line for line in said)


@pytest.mark.parametrize(
    ("name", "expected"), [("a.py", "a_mlu.py"), ("a.b.py", "a.b_mlu.py"), ("script", "script_mlu")]
)
def test_the_place_of_a_single_file(tmp_path: Path, name: str, expected: str) -> None:
    assert copying.default_place(tmp_path / name) == tmp_path / expected
