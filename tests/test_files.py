"""What files can be: encodings, line ends, links, rights and sizes. Each is run through the command line."""

from __future__ import annotations

import ast
import codecs
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mlu_migrate import cli, copying, gathering, pipeline
from mlu_migrate.model import FileStatus


class Result(NamedTuple):
    status: int
    out: str
    err: str


Migrate = Callable[..., Result]
CALL = b"import torch\nx = torch.ones(1).cuda()\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    folder.mkdir()
    return folder


@pytest.fixture
def migrate(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Migrate:
    def run(*arguments: str) -> Result:
        monkeypatch.chdir(tmp_path)
        capfd.readouterr()
        status = cli.main(list(arguments or ("p",)))
        return Result(status, *capfd.readouterr())

    return run


def copied(top: Path, name: str = "a.py") -> bytes:
    return (top.with_name("p_mlu") / name).read_bytes()


def record(top: Path, name: str = "a.py") -> dict[str, str]:
    report = json.loads((top.with_name("p_mlu") / "mlu-migrate-report.json").read_text())
    (row,) = [row for row in report["files"] if row["path"] == name]
    return dict(row)


IMPORT = b"import torch_mlu  # noqa: F401"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        pytest.param(CALL, b"import torch\n" + IMPORT + b"\nx = torch.ones(1).mlu()\n", id="plain"),
        pytest.param(
            codecs.BOM_UTF8 + CALL,
            codecs.BOM_UTF8 + b"import torch\n" + IMPORT + b"\nx = torch.ones(1).mlu()\n",
            id="byte order mark",
        ),
        pytest.param(
            "# -*- coding: gbk -*-\nimport torch\nx = torch.ones(1).cuda()  # 显卡\n".encode("gbk"),
            b"# -*- coding: gbk -*-\nimport torch\n" + IMPORT + "\nx = torch.ones(1).mlu()  # 显卡\n".encode("gbk"),
            id="gbk",
        ),
        pytest.param(
            "# coding: latin-1\nimport torch\ns = 'é'; x = torch.ones(1).cuda()\n".encode("latin-1"),
            b"# coding: latin-1\nimport torch\n" + IMPORT + "\ns = 'é'; x = torch.ones(1).mlu()\n".encode("latin-1"),
            id="latin-1",
        ),
        pytest.param(
            CALL.replace(b"\n", b"\r\n"),
            b"import torch\r\n" + IMPORT + b"\r\nx = torch.ones(1).mlu()\r\n",
            id="crlf",
        ),
        pytest.param(
            CALL.replace(b"\n", b"\r"), b"import torch\r" + IMPORT + b"\rx = torch.ones(1).mlu()\r", id="lone cr"
        ),
        pytest.param(
            b"import torch\r\ny = 1\nx = torch.ones(1).cuda()\r\n",
            b"import torch\r\n" + IMPORT + b"\r\ny = 1\nx = torch.ones(1).mlu()\r\n",
            id="mixed line ends",
        ),
        pytest.param(
            b"import torch\n\x0c\nx = torch.ones(1).cuda()\n",
            b"import torch\n" + IMPORT + b"\n\x0c\nx = torch.ones(1).mlu()\n",
            id="form feed",
        ),
        pytest.param(CALL[:-1], b"import torch\n" + IMPORT + b"\nx = torch.ones(1).mlu()", id="no final newline"),
        pytest.param(
            b"import torch\nif 1:\n\tx = torch.ones(1).cuda()\n",
            b"import torch\n" + IMPORT + b"\nif 1:\n\tx = torch.ones(1).mlu()\n",
            id="tabs",
        ),
    ],
)
def test_only_the_bytes_of_the_edits_change(migrate: Migrate, top: Path, source: bytes, wanted: bytes) -> None:
    (top / "a.py").write_bytes(source)
    assert migrate().status == 0
    assert copied(top) == wanted


@pytest.mark.parametrize("source", [b"", b"\n", b"\xef\xbb\xbf", b"# cuda\r", b"\x0c", b"x = 'cuda'\r\n\r\n  "])
def test_a_file_with_nothing_to_do_is_the_same_byte_for_byte(migrate: Migrate, top: Path, source: bytes) -> None:
    (top / "a.py").write_bytes(source)
    assert migrate().status == 0
    assert copied(top) == source


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(b"import torch\nprint 'cuda'\n", ["line 2", "Python 2"], id="Python 2"),
        pytest.param(b"import torch\ncuda = '\0'\n", ["null byte"], id="null byte"),
        pytest.param(b"import torch\ns = 'cuda \xff'\n", ["line 2", "UTF-8"], id="not UTF-8"),
        pytest.param(b"# coding: nonsense\nimport torch.cuda\n", ["nonsense"], id="unknown encoding"),
        pytest.param(b"import torch\ntorch.cuda.(\n", ["line 2"], id="syntax error"),
    ],
)
def test_a_file_that_cannot_be_read_as_python_is_named_with_the_reason_and_copied(
    migrate: Migrate, top: Path, source: bytes, words: list[str]
) -> None:
    (top / "a.py").write_bytes(source)
    (top / "good.py").write_bytes(CALL)
    result = migrate()
    assert result.status == 2
    assert copied(top) == source
    assert b".mlu()" in copied(top, "good.py")
    row = record(top)
    assert row["status"] == "failed"
    for word in words:
        assert word in row["reason"]
    assert "a.py" in result.out


def test_a_file_that_cannot_be_read_is_one_line_and_status_2(
    migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a.py").write_bytes(CALL)
    (top / "good.py").write_bytes(CALL)
    real = Path.open

    def no_right(self: Path, *arguments: object, **keywords: object) -> object:
        if self.name == "a.py":
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *arguments, **keywords)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", no_right)  # the tests may run as root, whom no mode bit stops
    result = migrate()
    assert result.status == 2
    assert "Permission denied" in record(top)["reason"]
    assert b".mlu()" in copied(top, "good.py")
    single = migrate("p/a.py")
    assert (single.status, len(single.err.strip().splitlines())) == (2, 1)
    assert "Permission denied" in single.err


def test_names_that_are_not_ascii_are_migrated_and_shown(migrate: Migrate, top: Path) -> None:
    (top / "模型.py").write_bytes(CALL)
    result = migrate("check", "p", "--format", "concise")
    assert "模型.py:2:" in result.out
    assert migrate().status == 0
    assert b".mlu()" in copied(top, "模型.py")


def test_a_name_with_a_newline_stays_on_one_line_of_output(migrate: Migrate, top: Path) -> None:
    (top / "two\nlines.py").write_bytes(CALL)
    result = migrate("check", "p", "--format", "concise")
    assert all(line.startswith("two\\nlines.py:") for line in result.out.splitlines())


def test_a_read_only_file_is_migrated_in_a_copy_and_left_alone_in_place(migrate: Migrate, top: Path) -> None:
    (top / "a.py").write_bytes(CALL)
    (top / "b.py").write_bytes(CALL)
    (top / "a.py").chmod(0o444)
    assert migrate().status == 0
    assert b".mlu()" in copied(top)
    result = migrate("p", "-w", "--allow-dirty")
    assert result.status == 2
    assert "read-only" in result.err
    assert (top / "a.py").read_bytes() == CALL
    assert (top / "b.py").read_bytes() == CALL, "all or none"


def test_a_link_out_of_the_project_is_named_and_never_written_through(
    migrate: Migrate, top: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.py"
    outside.write_bytes(CALL)
    (top / "a.py").symlink_to(outside)
    (top / "b.py").write_bytes(CALL)
    assert migrate("p", "-w", "--allow-dirty").status == 0
    assert outside.read_bytes() == CALL
    assert migrate().status == 0
    assert record(top)["status"] == "skipped"
    assert os.readlink(top.with_name("p_mlu") / "a.py") == str(outside)
    alone = migrate("p/a.py", "-w", "--allow-dirty")
    assert alone.status == 2
    assert outside.read_bytes() == CALL


def test_a_file_that_vanishes_during_the_run_is_named_and_the_rest_goes_on(
    migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a.py").write_bytes(CALL)
    (top / "good.py").write_bytes(CALL)
    real = pipeline.read

    def after_deletion(path: Path) -> bytes | str:
        if path.name == "a.py":
            path.unlink(missing_ok=True)
        return real(path)

    monkeypatch.setattr(pipeline, "read", after_deletion)
    result = migrate()
    assert result.status == 2
    assert "vanished" in record(top)["reason"]
    assert b".mlu()" in copied(top, "good.py")


def test_a_file_changed_by_someone_else_during_the_run_is_not_overwritten(
    migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a.py").write_bytes(CALL)
    real = pipeline.read

    def before_a_change(path: Path) -> bytes | str:
        data = real(path)
        path.write_bytes(b"someone else's\n")
        return data

    monkeypatch.setattr(pipeline, "read", before_a_change)
    result = migrate("p", "-w", "--allow-dirty")
    assert result.status == 2
    assert "someone else" in result.err
    assert (top / "a.py").read_bytes() == b"someone else's\n"


def test_a_generated_file_of_ten_megabytes_is_migrated(migrate: Migrate, top: Path) -> None:
    table = b"".join(b"    0x%08x, 0x%08x, 0x%08x, 0x%08x,\n" % (n, n, n, n) for n in range(200_000))
    source = CALL + b"TABLE = [\n" + table + b"]\n"
    assert len(source) > 9_000_000
    (top / "a.py").write_bytes(source)
    (top / "plain.py").write_bytes(b"TABLE = [\n" + table + b"]\n")
    result = migrate()
    assert result.status == 0, result.out + result.err
    assert b".mlu()" in copied(top)[:200]
    assert copied(top).endswith(table + b"]\n")
    assert record(top, "plain.py")["status"] == "unchanged"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"x = " + b"(" * 10_000 + b"1" + b")" * 10_000, id="nested parentheses"),
        pytest.param(b"x = " + b"[" * 3_000 + b"]" * 3_000, id="nested brackets"),
        pytest.param(b"x = y" + b".cuda()" * 20_000, id="chained calls"),
        pytest.param(b"x = " + b" + ".join([b"torch.cuda"] * 20_000), id="a long sum"),
        pytest.param(b"x = '" + b"cuda " * 1_000_000 + b"'", id="one line of 5 MB"),
    ],
)
def test_a_hostile_file_costs_only_itself(migrate: Migrate, top: Path, source: bytes) -> None:
    hostile = b"import torch\n" + source + b"\ny = torch.ones(1).cuda()\n"
    (top / "a.py").write_bytes(hostile)
    (top / "good.py").write_bytes(CALL)
    result = migrate()
    assert b".mlu()" in copied(top, "good.py")
    row = record(top)
    if row["status"] == "failed":
        assert result.status == 2
        assert row["reason"]
        assert copied(top) == hostile
    else:
        assert row["status"] == "changed"
        ast.parse(copied(top))


def test_a_booby_trapped_project_is_read_and_never_run(top: Path, tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'sprung')!r}, 'a').close()\nimport torch\nx = torch.ones(1).cuda()\n"
    for name in ("setup.py", "conftest.py", "sitecustomize.py", "torch.py", "libcst.py", "json.py", "mlu_migrate.py"):
        (top / name).write_text(trap)
    (top / "evil.pth").write_text(f"import os; open({str(tmp_path / 'sprung')!r}, 'a').close()\n")
    (top / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
    )
    (top / ".git").mkdir()
    (top / ".git" / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch {tmp_path / 'sprung'}\n"
    )
    script = Path(sys.executable).with_name("mlu-migrate")
    done = subprocess.run([script, ".", "-o", str(tmp_path / "out")], cwd=top, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ".mlu()" in (tmp_path / "out" / "setup.py").read_text()
    assert not (tmp_path / "sprung").exists()


def test_two_runs_on_one_tree_at_the_same_time_both_give_a_whole_copy(top: Path, tmp_path: Path) -> None:
    for number in range(30):
        (top / f"m{number}.py").write_bytes(CALL)
    command = [sys.executable, "-m", "mlu_migrate", "p", "-o"]
    running = [
        subprocess.Popen([*command, f"out{n}"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for n in range(2)
    ]
    for process in running:
        assert process.wait(100) == 0
    one, other = ({p.name: p.read_bytes() for p in (tmp_path / f"out{n}").glob("*.py")} for n in range(2))
    assert one == other
    assert len(one) == 30


def test_files_are_the_same_whether_cached_or_not_and_with_any_number_of_processes(top: Path) -> None:
    from mlu_migrate.settings import Options, Settings

    for number in range(20):
        (top / f"m{number}.py").write_bytes(CALL + b"# %d\n" % number)
    runs = [
        pipeline.run(gathering.targets_of([top]), Settings(), Options(jobs=jobs, cache=cache)).result.files
        for jobs, cache in ((1, False), (3, True), (1, True))
    ]
    assert runs[0] == runs[1] == runs[2]
    assert {file.status for file in runs[0]} == {FileStatus.CHANGED}


def test_a_path_that_is_too_long_for_the_copy_is_one_line_and_leaves_nothing(
    migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = top.parent
    monkeypatch.chdir(top)
    names = ["d" * 200] * 19
    for name in names:
        os.mkdir(name)
        os.chdir(name)
    room = 4095 - len("p/" + "/".join(names) + "/.py")
    with open("x" * min(room, 240) + ".py", "wb") as file:
        file.write(CALL)
    result = migrate()
    assert result.status == 2
    assert "too long" in result.err
    assert sorted(path.name for path in parent.iterdir()) == ["p"]


def test_names_that_differ_in_case_only_are_refused_where_the_file_system_cannot_hold_both(
    migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a.py").write_bytes(CALL)
    (top / "A.py").write_bytes(CALL)
    assert migrate("p", "-o", "fine").status == 0
    monkeypatch.setattr(copying, "_ignores_case", lambda place: True)
    result = migrate()
    assert result.status == 2
    assert "A.py" in result.err
    assert "a.py" in result.err
    assert not top.with_name("p_mlu").exists()


def test_sockets_and_pipes_are_named_and_not_copied(
    migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    (top / "a.py").write_bytes(CALL)
    monkeypatch.chdir(top)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("listener.py")
        os.mkfifo("pipe.py")
        result = migrate()
    assert result.status == 0
    assert "listener.py" in result.err
    assert {record(top, name)["status"] for name in ("listener.py", "pipe.py")} == {"skipped"}


def test_a_folder_that_cannot_be_listed_is_named(migrate: Migrate, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "a.py").write_bytes(CALL)
    (top / "secret").mkdir()
    real = os.scandir

    def no_right(path: object = ".") -> object:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", no_right)  # the tests may run as root, whom no mode bit stops
    result = migrate()
    assert result.status == 2
    assert "secret/: Permission denied" in result.err
    assert b".mlu()" in copied(top)


def test_a_file_of_a_hundred_thousand_lines_is_migrated(migrate: Migrate, top: Path) -> None:
    body = b"".join(b"def f%d(x):\n    return x + %d\n" % (n, n) for n in range(50_000))
    (top / "a.py").write_bytes(CALL + body + b"y = torch.zeros(1).cuda()\n")
    result = migrate()
    assert result.status == 0, result.out
    assert copied(top).endswith(body + b"y = torch.zeros(1).mlu()\n")


def test_two_runs_into_the_same_place_leave_one_whole_copy(top: Path, tmp_path: Path) -> None:
    for number in range(30):
        (top / f"m{number}.py").write_bytes(CALL)
    command = [sys.executable, "-m", "mlu_migrate", "p"]
    running = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)
    ]
    statuses = []
    for process in running:
        _, err = process.communicate(timeout=100)
        assert b"Traceback" not in err
        statuses.append(process.returncode)
    assert 0 in statuses
    assert set(statuses) <= {0, 2}
    copy = top.with_name("p_mlu")
    assert all(b".mlu()" in (copy / f"m{number}.py").read_bytes() for number in range(30))
    assert not list(tmp_path.glob(".p_mlu*"))
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
