"""Command lines at the edge of what is meant: stdin under other names, mixtures, comments of other formats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CUDA = b"import torch\nx = torch.ones(1).cuda()\n"
SCRIPT = b"#!/bin/sh\nCUDA_VISIBLE_DEVICES=0 python a.py\n"


def mlu(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "mlu_migrate", *arguments]
    environment = {**os.environ, "MLU_MIGRATE_CACHE_DIR": str(folder / "cache"), "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, env=environment)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.py", "--stdin-filename", "x.py"), "give - as the path"),
        (("a.py", "-o", "b.py"), "-o names a folder"),
        (("check", "-"), "only mlu-migrate - reads stdin"),
        (("review", "-"), "only mlu-migrate - reads stdin"),
        (("check", "a.py", "--support", "s.json"), "--support needs --report FILE.html"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "a.py").write_bytes(CUDA)
    done = mlu(tmp_path, *arguments)
    assert done.returncode == 2 and said in done.stderr.decode() and done.stderr.count(b"\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["a.py"]


def test_stdin_under_a_name_without_a_suffix_is_what_its_first_line_says(tmp_path: Path) -> None:
    done = mlu(tmp_path, "-", "--stdin-filename", "launch", stdin=SCRIPT)
    assert (done.returncode, done.stdout) == (0, SCRIPT.replace(b"CUDA_", b"MLU_"))
    done = mlu(tmp_path, "-", "--stdin-filename", "launch", stdin=CUDA)
    assert done.stdout.endswith(b"x = torch.ones(1).mlu()\n")


def test_a_check_of_stdin_prints_the_format_that_was_asked_for_and_writes_reports(tmp_path: Path) -> None:
    done = mlu(tmp_path, "-", "--check", "--format", "json", "--report", "r.json", stdin=CUDA)
    assert done.returncode == 1
    findings = json.loads(done.stdout)["findings"]
    assert [f["code"] for f in findings] == ["MLU001", "MLU201"]
    assert json.loads((tmp_path / "r.json").read_text())["findings"] == findings


def test_add_ignore_says_which_files_cannot_take_a_comment(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_bytes(CUDA)
    (tmp_path / "p" / "run.sh").write_bytes(SCRIPT)
    done = mlu(tmp_path, "check", "p", "--add-ignore")
    assert done.returncode == 2 and b"run.sh" in done.stderr and b"--write-baseline" in done.stderr
    assert b"# mlu: keep[MLU201]" in (tmp_path / "p" / "a.py").read_bytes()
    assert (tmp_path / "p" / "run.sh").read_bytes() == SCRIPT


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonc", '{\n "device": "cuda" // mlu: keep\n}\n'),
        ("a.ini", "; mlu: keep-file\n[a]\ndevice = cuda\n"),
        ("a.bat", "rem mlu: off\nset CUDA_VISIBLE_DEVICES=0\nrem mlu: on\n"),
        ("a.md", "<!-- mlu: keep-file -->\n```bash\npython x.py --device cuda\n```\n"),
        ("Jenkinsfile", "sh 'python x.py --device cuda' // mlu: keep[MLU602] as it is\n"),
        ("a.yaml", "device: cuda  # mlu: keep\n"),
        ("a.fish", "# mlu: keep-file\nset -x CUDA_VISIBLE_DEVICES 0\n"),
    ],
)
def test_a_keep_comment_is_written_as_the_format_writes_comments(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    done = mlu(tmp_path, "check", name, "--format", "json", "--fail-level", "info", "--configs", "write")
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])


def test_an_unused_keep_comment_in_a_configuration_is_told_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("device: cpu  # mlu: keep\nname: cuda\n")
    done = mlu(tmp_path, "check", "a.yaml", "--format", "json")
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["code"], found["line"], found["column"]) == ("MLU003", 1, 14)
