from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mlu_migrate import __version__, cli


class Result(NamedTuple):
    status: int
    out: str
    err: str


Mlu = Callable[..., Result]


@pytest.fixture
def mlu(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mlu:
    """Runs one command line in this process, in tmp_path unless told otherwise."""

    def run(*arguments: object, cwd: Path = tmp_path) -> Result:
        monkeypatch.chdir(cwd)
        capfd.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        return Result(status, *capfd.readouterr())

    return run


def snapshot(top: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(top)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.email", "a@example.com")
    git(project, "config", "user.name", "A")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project


def test_a_path_gives_a_copy_beside_it_with_a_report_and_leaves_the_original(mlu: Mlu, project: Path) -> None:
    before = snapshot(project)
    result = mlu("project")
    copy = project.with_name("project_mlu")
    assert result.status == 0
    assert snapshot(project) == before
    assert "torch.nn.Linear(2, 2).mlu()  # to the card" in (copy / "train.py").read_text()
    assert (copy / "data.bin").read_bytes() == (project / "data.bin").read_bytes()
    assert (copy / "mlu-migrate-report.md").read_text().startswith("# ")
    report = json.loads((copy / "mlu-migrate-report.json").read_text())
    assert report["summary"]["changed"] == 1
    assert {file["path"] for file in report["files"]} >= {"train.py", "pkg/plain.py"}


def test_the_summary_names_what_changed_and_the_next_command_and_fits_80_columns(mlu: Mlu, project: Path) -> None:
    result = mlu("project")
    assert "MLU201" in result.out
    assert "mlu-migrate run project_mlu/train.py" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_the_current_folder_is_copied_beside_itself(mlu: Mlu, project: Path) -> None:
    assert mlu(".", cwd=project).status == 0
    assert (project.parent / "project_mlu" / "train.py").is_file()


def test_a_file_gives_a_file_beside_it(mlu: Mlu, project: Path) -> None:
    result = mlu("project/train.py")
    assert result.status == 0
    assert ".mlu()" in (project / "train_mlu.py").read_text()
    assert sorted(path.name for path in project.iterdir()) == sorted(
        ["train.py", "train_mlu.py", "pkg", "data.bin", "pyproject.toml"]
    )


def test_a_file_in_the_way_is_not_overwritten_unless_forced(mlu: Mlu, project: Path) -> None:
    (project / "train_mlu.py").write_text("mine")
    result = mlu("project/train.py")
    assert (result.status, len(result.err.strip().splitlines())) == (2, 1)
    assert (project / "train_mlu.py").read_text() == "mine"
    assert mlu("project/train.py", "--force").status == 0
    assert ".mlu()" in (project / "train_mlu.py").read_text()


def test_output_is_the_root_of_one_folder_and_holds_several_paths(mlu: Mlu, project: Path) -> None:
    assert mlu("project", "-o", "one").status == 0
    assert mlu("project/pkg", "project/train.py", "-o", "two").status == 0
    assert ".mlu()" in (project.parent / "one" / "train.py").read_text()
    assert ".mlu()" in (project.parent / "two" / "train.py").read_text()
    assert (project.parent / "two" / "pkg" / "plain.py").is_file()
    report = json.loads((project.parent / "two" / "mlu-migrate-report.json").read_text())
    assert {file["path"] for file in report["files"]} == {"train.py", "pkg/__init__.py", "pkg/plain.py"}


def test_two_paths_of_one_name_cannot_go_into_one_folder(mlu: Mlu, tmp_path: Path) -> None:
    for name in ("a/x", "b/x"):
        (tmp_path / name).mkdir(parents=True)
    result = mlu("a/x", "b/x", "-o", "out")
    assert result.status == 2
    assert "called x" in result.err
    assert not (tmp_path / "out").exists()


def test_several_folders_without_output_get_a_copy_each(mlu: Mlu, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    assert mlu("a", "b").status == 0
    for name in ("a", "b"):
        report = json.loads((tmp_path / f"{name}_mlu" / "mlu-migrate-report.json").read_text())
        assert [file["path"] for file in report["files"]] == ["m.py"]


def test_diff_prints_a_patch_that_git_applies_writes_nothing_and_exits_1(mlu: Mlu, project: Path) -> None:
    before = snapshot(project.parent)
    result = mlu("project", "--diff")
    assert result.status == 1
    assert snapshot(project.parent) == before
    (project.parent / "patch").write_text(result.out)
    git(project, "apply", "../patch")
    assert ".mlu()" in (project / "train.py").read_text()
    assert mlu("project", "--diff") == Result(0, "", "")


def test_check_writes_nothing_and_exits_1_when_something_would_change(mlu: Mlu, project: Path) -> None:
    before = snapshot(project.parent)
    result = mlu("project", "--check")
    assert result.status == 1
    assert "would change" in result.out
    assert snapshot(project.parent) == before
    assert mlu("project/pkg", "--check").status == 0


def test_check_and_diff_can_be_combined(mlu: Mlu, project: Path) -> None:
    result = mlu("project", "--check", "--diff")
    assert result.status == 1
    assert result.out.startswith("--- a/train.py")


def test_write_changes_in_place_when_git_can_undo_it_and_says_how(mlu: Mlu, repository: Path) -> None:
    result = mlu("project", "-w")
    assert result.status == 0
    assert ".mlu()" in (repository / "train.py").read_text()
    undo = next(line for line in result.out.splitlines() if "restore" in line).split("undo", 1)[1].strip()
    subprocess.run(undo, shell=True, check=True, cwd=repository.parent)
    assert ".cuda()" in (repository / "train.py").read_text()


def test_write_again_changes_nothing(mlu: Mlu, repository: Path) -> None:
    mlu("project", "-w")
    git(repository, "commit", "-qam", "migrated")
    before = snapshot(repository)
    assert mlu("project", "-w").status == 0
    assert snapshot(repository) == before


def test_write_is_refused_outside_git_and_on_uncommitted_changes_unless_allowed(mlu: Mlu, repository: Path) -> None:
    (repository / "pkg" / "plain.py").write_text("x = 2\n")
    dirty = snapshot(repository)
    result = mlu("project", "-w")
    assert (result.status, len(result.err.strip().splitlines())) == (2, 1)
    assert "pkg/plain.py" in result.err
    assert snapshot(repository) == dirty
    assert mlu("project", "-w", "--allow-dirty").status == 0
    assert ".mlu()" in (repository / "train.py").read_text()


def test_write_is_refused_outside_git(mlu: Mlu, project: Path) -> None:
    result = mlu("project", "-w")
    assert result.status == 2
    assert "--allow-dirty" in result.err
    assert ".cuda()" in (project / "train.py").read_text()


def test_write_is_refused_for_files_that_git_does_not_track(mlu: Mlu, repository: Path) -> None:
    (repository / "new.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    result = mlu("project", "-w")
    assert result.status == 2
    assert "new.py" in result.err
    assert ".cuda()" in (repository / "train.py").read_text()


def test_stdin_goes_to_stdout(project: Path) -> None:
    source = (project / "train.py").read_bytes().replace(b"\n", b"\r\n")
    command = [sys.executable, "-m", "mlu_migrate", "-", "--stdin-filename", "train.py"]
    done = subprocess.run(command, input=source, capture_output=True, cwd=project)
    assert done.returncode == 0
    assert b".mlu()" in done.stdout
    assert done.stdout.count(b"\r\n") == done.stdout.count(b"\n")
    checked = subprocess.run([*command, "--check"], input=source, capture_output=True, cwd=project)
    assert (checked.returncode, checked.stdout) == (1, b"")


def test_unparsable_stdin_comes_back_unchanged_with_status_2(project: Path) -> None:
    source = b"import torch\nprint 'cuda'\n"
    done = subprocess.run([sys.executable, "-m", "mlu_migrate", "-"], input=source, capture_output=True, cwd=project)
    assert (done.returncode, done.stdout) == (2, source)
    assert b"line 2" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nowhere"], "nowhere"),
        (["chekc", "project"], "did you mean the command check"),
        (["project", "--nonsense"], "--nonsense"),
        (["project", "--torch-mlu", "9"], "torch-mlu"),
        (["project", "--select", "MLU999"], "MLU999"),
        (["project", "--select", "E501"], "E501"),
        (["project", "--report", "x.pdf"], ".sarif"),
        (["project", "--config", "none.toml"], "none.toml"),
        (["project", "--baseline", "none.json"], "none.json"),
        (["project", "-w", "-o", "x"], "choose one"),
        (["project", "--diff", "-o", "x"], "--diff"),
        (["project", "-"], "stdin"),
        (["project", "--since", "HEAD", "--check"], "git"),
        (["project", "--fail-level", "loud"], "fail-level"),
        (["project", "--jobs", "many"], "--jobs"),
        (["project", "-o", "project/out"], "inside the input"),
        (["project/pkg", "-o", "project"], "inside the output"),
        (["project", "-o", "project"], "-w"),
        (["rule", "MLU999"], "MLU999"),
        (["why", "project/train.py"], "train.py:12"),
        (["why", "project/train.py:99"], "99"),
        (["why", "project/none.py:1"], "none.py"),
        (["check"], "PATH"),
    ],
)
def test_wrong_use_is_one_clear_line_status_2_and_nothing_written(
    mlu: Mlu, project: Path, arguments: list[str], word: str
) -> None:
    before = snapshot(project.parent)
    result = mlu(*arguments)
    assert result.status == 2
    assert len(result.err.strip().splitlines()) == 1, result.err
    assert word in result.err
    assert result.out == ""
    assert snapshot(project.parent) == before


@pytest.mark.parametrize(
    "text", ["[tool.mlu-migrate\n", "[tool.mlu-migrate]\nselct = ['MLU2']\n", "[tool.mlu-migrate]\nunsafe = 'yes'\n"]
)
def test_a_broken_pyproject_is_one_clear_line(mlu: Mlu, project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    result = mlu("project")
    assert (result.status, result.out) == (2, "")
    assert len(result.err.strip().splitlines()) == 1
    assert "pyproject.toml" in result.err
    assert not project.with_name("project_mlu").exists()


def test_check_lists_findings_like_a_linter_and_applies_nothing(mlu: Mlu, project: Path) -> None:
    before = snapshot(project.parent)
    result = mlu("check", "project", "--format", "concise")
    assert result.status == 0
    assert any(line.startswith("train.py:5:") and "MLU201" in line for line in result.out.splitlines())
    assert "note" in result.err
    assert snapshot(project.parent) == before


def test_the_fail_level_decides_when_check_exits_1(mlu: Mlu, project: Path) -> None:
    assert mlu("check", "project").status == 0
    assert mlu("check", "project", "--fail-level", "info").status == 1
    (project / "gone.py").write_text("import torch\nprint(torch.cuda.utilization())\n")
    assert mlu("check", "project").status == 1


def test_strict_makes_a_migration_exit_1_when_an_error_is_left(mlu: Mlu, project: Path) -> None:
    (project / "gone.py").write_text("import torch\nprint(torch.cuda.utilization())\n")
    assert mlu("project").status == 0
    assert mlu("project", "--strict").status == 1


@pytest.mark.parametrize("command", [["check"], []])
def test_json_is_all_there_is_on_stdout_and_has_the_agreed_shape(mlu: Mlu, project: Path, command: list[str]) -> None:
    result = mlu(*command, "project", "--format", "json")
    report = json.loads(result.out)
    assert list(report) == ["version", "tool", "target", "summary", "files", "findings"]
    assert report["version"] == 1
    assert report["tool"] == {"name": "mlu-migrate", "version": __version__}
    assert report["target"] == {"device": "mlu", "torch_mlu": "2.4"}
    assert set(report["summary"]) == {
        *("files", "changed", "unchanged", "skipped", "failed"),
        *("applied", "safe", "unsafe", "manual", "seconds"),
    }
    finding = next(row for row in report["findings"] if row["code"] == "MLU201")
    assert set(finding) == {
        *("code", "name", "severity", "safety", "confidence", "applied", "path", "cell", "line", "column"),
        *("end_line", "end_column", "message", "hint", "before", "after", "fingerprint", "url"),
    }
    assert (finding["path"], finding["line"], finding["applied"]) == ("train.py", 5, not command)


def test_an_unparsable_file_is_named_copied_and_does_not_stop_the_run(mlu: Mlu, project: Path) -> None:
    bad = b"import torch\nprint 'cuda'\n"
    (project / "old.py").write_bytes(bad)
    result = mlu("project")
    copy = project.with_name("project_mlu")
    assert result.status == 2
    assert "old.py" in result.out
    assert "line 2" in result.out
    assert (copy / "old.py").read_bytes() == bad
    assert ".mlu()" in (copy / "train.py").read_text()


def test_reports_are_written_by_suffix(mlu: Mlu, project: Path, tmp_path: Path) -> None:
    names = ["r.md", "r.json", "r.html", "r.sarif", "r.csv"]
    mlu("check", "project", *(word for name in names for word in ("--report", name)))
    assert json.loads((tmp_path / "r.json").read_text())["version"] == 1
    assert json.loads((tmp_path / "r.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "r.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert all((tmp_path / name).stat().st_size > 0 for name in names)


@pytest.mark.parametrize("kind", ["full", "concise", "json", "jsonl", "github", "gitlab", "sarif", "junit"])
def test_every_format_prints(mlu: Mlu, project: Path, kind: str) -> None:
    result = mlu("check", "project", "--format", kind)
    assert result.status == 0
    assert ("testsuite" if kind == "junit" else "MLU201") in result.out


def test_statistics_count_by_rule(mlu: Mlu, project: Path) -> None:
    result = mlu("check", "project", "--format", "concise", "--statistics")
    assert any(line.split()[:2] == ["1", "MLU201"] for line in result.out.splitlines())


def test_select_and_ignore_limit_what_is_done(mlu: Mlu, project: Path) -> None:
    codes = {row["code"] for row in json.loads(mlu("check", "project", "--format", "json").out)["findings"]}
    assert "MLU201" in codes
    only = json.loads(mlu("check", "project", "--format", "json", "--select", "MLU2").out)["findings"]
    assert {row["code"] for row in only} == {code for code in codes if code.startswith("MLU2")}
    assert "MLU201" not in mlu("check", "project", "--ignore", "MLU201,MLU001").out


def test_settings_come_from_pyproject_and_a_flag_beats_them(mlu: Mlu, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.mlu-migrate]\nignore = ["MLU2"]\nexclude = ["pkg"]\n')
    report = json.loads(mlu("check", "project", "--format", "json").out)
    assert not any(row["code"] == "MLU201" for row in report["findings"])
    assert not any(file["path"].startswith("pkg/") for file in report["files"])
    assert "MLU201" in mlu("check", "project", "--select", "MLU201").out
    assert "MLU201" in mlu("check", "project", "--isolated").out


def test_ignore_comments_hold_for_writing_too(mlu: Mlu, project: Path) -> None:
    line = "model = torch.nn.Linear(1, 1).cuda()  # mlu: keep[MLU201] shown to users\n"
    (project / "kept.py").write_text(f"import torch\n{line}")
    mlu("project")
    assert (project.with_name("project_mlu") / "kept.py").read_text() == f"import torch\n{line}"


def test_a_baseline_silences_what_it_holds_and_keeps_its_code(mlu: Mlu, project: Path) -> None:
    assert mlu("check", "project", "--baseline", "b.json", "--write-baseline", "--fail-level", "info").status == 0
    quiet = mlu("check", "project", "--baseline", "b.json", "--fail-level", "info")
    assert (quiet.status, quiet.out) == (0, "")
    source = (project / "train.py").read_text()
    (project / "train.py").write_text("# a new first line\n" + source.replace("main()\n", "torch.cuda.init()\n", 1))
    again = mlu("check", "project", "--baseline", "b.json", "--format", "json")
    assert [row["code"] for row in json.loads(again.out)["findings"]] == ["MLU101"]
    mlu("project", "--baseline", "b.json")
    copied = (project.with_name("project_mlu") / "train.py").read_text()
    assert "torch.nn.Linear(2, 2).cuda()" in copied
    assert "torch.mlu.init()" in copied


def test_a_baseline_says_the_same_for_one_file_and_for_the_folder(mlu: Mlu, project: Path) -> None:
    mlu("check", "project", "--baseline", "b.json", "--write-baseline")
    assert mlu("check", "project/train.py", "--baseline", "b.json", "--fail-level", "info").status == 0


def test_add_ignore_writes_comments_that_make_the_next_check_clean(mlu: Mlu, project: Path) -> None:
    assert mlu("check", "project", "--add-ignore").status == 0
    assert "# to the card  # mlu: keep[MLU201]\n" in (project / "train.py").read_text()
    again = mlu("check", "project", "--fail-level", "info")
    assert (again.status, again.out) == (0, "")


def test_since_looks_only_at_what_git_says_has_changed(mlu: Mlu, repository: Path) -> None:
    (repository / "new.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    result = mlu("check", "project", "--since", "HEAD", "--format", "json")
    assert [file["path"] for file in json.loads(result.out)["files"]] == ["new.py"]
    assert mlu("check", "project", "--since", "no-such-branch").status == 2


def test_why_tells_of_a_rewrite_a_comment_a_kept_string_and_nothing(mlu: Mlu, project: Path) -> None:
    (project / "why.py").write_text(
        "import torch\nx = torch.ones(1).cuda()\ny = x.cuda()  # mlu: keep\n# about cuda\nprint('cuda rocks')\nz = 1\n"
    )
    assert "MLU201" in mlu("why", "project/why.py:2").out
    assert "ignore comment" in mlu("why", "project/why.py:3").out
    assert "comment" in mlu("why", "project/why.py:4").out
    assert "`cuda` at column 8" in mlu("why", "project/why.py:5").out
    assert "Nothing on this line" in mlu("why", "project/why.py:6").out
    assert "switched off" in mlu("why", "project/why.py:2", "--ignore", "MLU2").out


def test_the_audit_lists_words_that_stay(mlu: Mlu, project: Path) -> None:
    (project / "words.py").write_text(
        "# needs a gpu\nuse_cuda = 'cuda rocks'  # mlu: keep[MLU004]\nNVIDIA = 1\nprint('cuda rocks')\n"
    )
    plain = json.loads(mlu("check", "project", "--format", "json").out)["findings"]
    assert not [row for row in plain if row["path"] == "words.py" and row["code"] == "MLU004"]
    report = json.loads(mlu("check", "project", "--audit", "--format", "json").out)
    rows = [row for row in report["findings"] if row["code"] == "MLU004"]
    assert [(row["path"], row["line"], row["before"]) for row in rows] == [
        ("words.py", 1, "gpu"),
        ("words.py", 3, "NVIDIA"),
        ("words.py", 4, "cuda"),
    ]


def test_rules_lists_every_rule_and_rule_shows_its_page(mlu: Mlu) -> None:
    listed = mlu("rules").out.splitlines()
    assert any(line.startswith("MLU201  cuda-method") for line in listed)
    page = mlu("rule", "mlu201").out
    assert "## Before" in page
    assert "## Source" in page
    assert mlu("rule", "cuda-method").out == page


def test_messages_can_be_had_in_chinese(mlu: Mlu, project: Path) -> None:
    result = mlu("project", "--lang", "zh")
    assert "已修改" in result.out


def test_quiet_says_nothing_when_all_is_well(mlu: Mlu, project: Path) -> None:
    assert mlu("project", "-q") == Result(0, "", "")


def test_a_command_word_can_also_be_a_folder(mlu: Mlu, project: Path) -> None:
    project.rename(project.with_name("check"))
    assert mlu("./check").status == 0
    assert project.with_name("check_mlu").is_dir()


def test_the_version_is_answered_without_importing_anything_large() -> None:
    program = (
        "import sys; sys.argv = ['mlu-migrate', '--version']\n"
        "from mlu_migrate.__main__ import main\n"
        "status = main()\n"
        "heavy = {'libcst', 'rich', 'torch', 'typer', 'pathspec'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else status)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"mlu-migrate {__version__}\n")


def test_migrating_never_imports_torch(project: Path) -> None:
    program = (
        "import sys; sys.argv = ['mlu-migrate', 'project']\n"
        "from mlu_migrate.__main__ import main\n"
        "status = main()\n"
        "sys.exit('imported torch' if {'torch', 'mlu_backend'} & set(sys.modules) else status)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=project.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [[], *([word] for word in (*cli.COMMANDS, "migrate"))])
def test_help_fits_80_columns_and_shows_the_use(mlu: Mlu, command: list[str]) -> None:
    result = mlu(*command, "--help")
    assert result.status == 0
    assert "sage: " in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_output_that_nobody_reads_any_more_is_no_error(project: Path) -> None:
    for number in range(40):
        (project / f"m{number}.py").write_text("import torch\nx = torch.ones(1).cuda()\n" * 20)
    done = subprocess.run(
        f"{sys.executable} -m mlu_migrate check project | head -1", shell=True, capture_output=True, cwd=project.parent
    )
    assert done.stdout.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing_half_done(project: Path, number: signal.Signals) -> None:
    slow = project / "slow.py"
    slow.write_text("import torch\n" + "x = torch.ones(1).cuda()\n" * 20_000)
    before = snapshot(project)
    command = [sys.executable, "-m", "mlu_migrate", "project"]
    running = subprocess.Popen(command, cwd=project.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(1.0)
    running.send_signal(number)
    _, err = running.communicate(timeout=100)
    assert b"Traceback" not in err
    assert snapshot(project) == before
    assert not project.with_name("project_mlu").exists()
    if number != signal.SIGKILL:
        assert running.returncode == 2
        assert b"interrupted" in err
        assert not list(project.parent.glob(".project_mlu*"))
    slow.unlink()
    assert subprocess.run(command, cwd=project.parent, capture_output=True).returncode == 0
    assert not list(project.parent.glob(".project_mlu*"))


@pytest.mark.parametrize("path", [".", "../project", "pkg/..", "train.py", "pkg/../train.py", "{absolute}", "-"])
def test_what_other_files_define_counts_however_the_path_is_written(
    mlu: Mlu, project: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``Batch.cuda`` is the project's own, so the call of a Batch stays; known only from pkg/batch.py."""
    (project / "pkg" / "batch.py").write_text("class Batch:\n    def cuda(self):\n        return self\n")
    source = "from pkg.batch import Batch\nimport torch\n\nb = Batch().cuda()\nx = torch.ones(1).cuda()\n"
    (project / "train.py").write_text(source)
    if path == "-":
        done = subprocess.run(
            [sys.executable, "-m", "mlu_migrate", "-", "--stdin-filename", "train.py"],
            input=source.encode(),
            capture_output=True,
            cwd=project,
        )
        result = done.stdout.decode()
    else:
        result = mlu(path.format(absolute=project), "--diff", cwd=project).out
    assert "+x = torch.ones(1).mlu()" in result or "\nx = torch.ones(1).mlu()" in result
    assert "Batch().mlu()" not in result


def test_since_still_knows_what_unchanged_files_define(mlu: Mlu, repository: Path) -> None:
    (repository / "pkg" / "batch.py").write_text("class Batch:\n    def cuda(self):\n        return self\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "batch")
    (repository / "train.py").write_text("from pkg.batch import Batch\nimport torch\n\nb = Batch().cuda()\n")
    assert "Batch().mlu()" not in mlu("project", "--since", "HEAD", "--diff").out


def test_doctor_lists_what_is_installed_for_people_and_for_machines(mlu: Mlu) -> None:
    result = mlu("doctor")
    assert result.status == 0
    assert any(line.startswith("torch ") for line in result.out.splitlines())
    assert json.loads(mlu("doctor", "--json").out)["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")


@pytest.mark.parametrize(
    ("arguments", "status", "out"),
    [
        (
            ["--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--cards", "--", "-h"],
            0,
            "['--cards', '--', '-h']",
        ),
        (["--cards", "2", "--", sys.executable, "-c", "import os; print(os.environ['MLU_EMULATOR_CARDS'])"], 0, "2"),
        (["--cards=3", "-m", "script", "-v", "--support"], 5, "['-v', '--support']"),
        (["script.py", "--cards", "4"], 5, "['--cards', '4']"),
    ],
)
def test_run_hands_everything_after_the_program_to_the_program(
    mlu: Mlu, tmp_path: Path, arguments: list[str], status: int, out: str
) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(5)\n")
    assert mlu("run", *arguments)[:2] == (status, f"{out}\n")


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "--cards", "99", "x.py"], ["run", "--", "no-such-program-anywhere"]]
)
def test_a_program_that_cannot_be_run_is_one_clear_line(mlu: Mlu, arguments: list[str]) -> None:
    result = mlu(*arguments)
    assert result.status == 2
    assert len(result.err.strip().splitlines()) == 1


def test_parity_of_nothing_is_wrong_use(mlu: Mlu, project: Path) -> None:
    result = mlu("parity", "project")
    assert result.status == 2
    assert "command after --" in result.err


def test_review_writes_what_was_accepted_and_nothing_else(project: Path) -> None:
    (project / "pkg" / "more.py").write_text("import torch\ny = torch.zeros(1).cuda()\n")
    command = [sys.executable, "-m", "mlu_migrate", "review", "project"]

    def keys(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input="\n".join(text) + "\n", capture_output=True, text=True, cwd=project.parent)

    before = snapshot(project)
    assert keys("q").returncode == 0
    assert snapshot(project) == before
    assert keys("ynw").returncode == 0
    changed = {name for name, data in snapshot(project).items() if data != before[name]}
    assert len(changed) == 1
