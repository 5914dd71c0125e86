"""
A project is read and never run, and nothing it holds makes us write outside of what the user named.

Most tests use the installed commands as processes of their own, started inside the hostile project. Its traps write
their names into one file, so that a failure says which one went off.
"""

from __future__ import annotations

import html.parser
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mlu_migrate import cli

SCRIPT = str(Path(sys.executable).with_name("mlu-migrate"))
CALL = "import torch\nx = torch.ones(1).cuda()\n"
# Names that Python, git, pip and pytest run of their own accord, and modules that we or our libraries import.
MODULES = (
    "setup conftest sitecustomize usercustomize torch libcst typer rich click yaml jinja2 nbformat platformdirs json "
    "re ast tokenize pickle struct socket multiprocessing resource zipfile tempfile shutil subprocess hashlib tomllib "
    "tomli noxfile manage fabfile tasks dodo"
).split()


class Trapped:
    """A project in which everything that could be run leaves its name in one file."""

    def __init__(self, folder: Path) -> None:
        self.top = folder / "project"
        self.canary = folder / "sprung.txt"
        self.top.mkdir()
        for name in MODULES:
            self.python(f"{name}.py")
        for name in ("pkg/__init__.py", "pkg/__main__.py", "pkg/sub/__init__.py", "mlu_migrate_rules/__init__.py"):
            self.python(name)
        self.python("train.py")
        (self.top / "evil.pth").write_text(f"import os; {self.statement('evil.pth')}\n")
        (self.top / "pkg" / "evil.pth").write_text(f"import os; {self.statement('pkg/evil.pth')}\n")
        info = self.top / "evil.egg-info"
        info.mkdir()
        points = "".join(f"[{group}]\nx = train\n" for group in ("mlu_migrate", "mlu_migrate.rules", "torch.backends"))
        (info / "entry_points.txt").write_text(points)
        (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
        (self.top / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'
            '[project]\nname = "evil"\nversion = "1"\n'
            '[project.entry-points."mlu_migrate"]\nx = "train"\n[project.entry-points.pytest11]\nx = "train"\n'
            '[tool.pytest.ini_options]\naddopts = "-p train"\n'
            f'[[tool.mlu-migrate.parity]]\nname = "x"\ncommand = "{self.shell("parity command")}"\n'
        )
        self.write("run.sh", f"#!/bin/sh\n{self.shell('run.sh')}\nCUDA_VISIBLE_DEVICES=0 python train.py\n", 0o755)
        self.write("tool", f"#!{sys.executable} \n{self.statement('tool')}\n{CALL}", 0o755)
        self.write("git", f"#!/bin/sh\n{self.shell('git in the project')}\n", 0o755)
        self.write("Makefile", f"X := $(shell {self.shell('Makefile')})\nall:\n\tpython train.py --device cuda\n")
        (self.top / "conf.yaml").write_text(
            f"a: !!python/object/apply:os.system ['{self.shell('conf.yaml')}']\ndevice: cuda\nbackend: nccl\n"
        )
        cell = f"%run train.py\n!{self.shell('notebook')}\n{CALL}"
        book = {
            "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": [cell]}],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 4,
        }
        (self.top / "demo.ipynb").write_text(json.dumps(book, indent=1))

    def statement(self, name: str) -> str:
        """Python that springs a trap of that name."""
        return f"open({str(self.canary)!r}, 'a').write({name + chr(10)!r})"

    def shell(self, name: str) -> str:
        """The same for a shell."""
        return f"echo {name} >> {self.canary}"

    def python(self, name: str) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self.statement(name)}\n{CALL}")

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def with_git(self) -> Trapped:
        """Make it a checkout, the hooks and programs of its configuration being traps too."""

        def git(*arguments: str) -> None:
            identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
            subprocess.run(["git", *identity, *arguments], cwd=self.top, check=True, capture_output=True)

        git("init", "-q")
        git("add", "-A")
        git("commit", "-q", "-m", "all")
        self.write(".git/hooks/post-index-change", f"#!/bin/sh\n{self.shell('hook')}\n", 0o755)
        self.write(".git/trap", f"#!/bin/sh\n{self.shell('program of the git configuration')}\ncat\n", 0o755)
        trap = self.top / ".git" / "trap"
        self.write(".git/info/attributes", "* filter=evil diff=evil\n")
        with (self.top / ".git" / "config").open("a") as config:
            config.write(
                f"[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n\tsshCommand = {trap}\n[diff]\n\texternal = {trap}\n"
                f'[diff "evil"]\n\ttextconv = {trap}\n\tcommand = {trap}\n'
                f'[filter "evil"]\n\tclean = {trap}\n\tsmudge = {trap}\n\trequired = true\n'
            )
        for path in self.top.glob("*.py"):  # git looks into a file whose times are not those it knows
            os.utime(path, (1, 1))
        return self

    def assert_unsprung(self) -> None:
        assert not self.canary.exists(), self.canary.read_text()


@pytest.fixture
def trapped(tmp_path: Path) -> Trapped:
    return Trapped(tmp_path)


def run(command: list[str], cwd: Path, keys: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, input=keys, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    return done


def test_the_traps_do_go_off_when_something_runs_them(trapped: Trapped) -> None:
    subprocess.run([sys.executable, "train.py"], cwd=trapped.top, capture_output=True)
    subprocess.run(["sh", "run.sh"], cwd=trapped.top, capture_output=True)
    subprocess.run([sys.executable, "-c", "import libcst"], cwd=trapped.top, capture_output=True)
    trapped.with_git()
    subprocess.run(["git", "status"], cwd=trapped.top, capture_output=True)
    names = trapped.canary.read_text().splitlines()
    assert {"train.py", "run.sh", "libcst.py", "program of the git configuration"} <= set(names)


MODULE = [sys.executable, "-m", "mlu_migrate"]


@pytest.mark.parametrize(
    ("start", "arguments", "keys"),
    [
        pytest.param([SCRIPT], [".", "-o", "../out", "--configs", "write", "--unsafe", "--audit"], "", id="copy"),
        pytest.param([SCRIPT], [".", "--check", "--diff", "--format", "sarif"], "", id="check-diff"),
        pytest.param([SCRIPT], [".", "-w", "--allow-dirty", "--configs", "write"], "", id="write"),
        pytest.param(MODULE, ["check", ".", "--jobs", "2", "--report", "../r.html"], "", id="check"),
        pytest.param(MODULE, ["review", "."], "y\na\nw\n", id="review"),
        pytest.param(MODULE, ["why", "train.py:3"], "", id="why"),
        pytest.param(MODULE, ["rules"], "", id="rules"),
        pytest.param([SCRIPT], ["-"], CALL, id="stdin"),
    ],
)
def test_no_command_runs_or_imports_anything_of_the_project(
    trapped: Trapped, start: list[str], arguments: list[str], keys: str
) -> None:
    done = run([*start, *arguments], trapped.top, keys)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout or done.stderr
    trapped.assert_unsprung()
    if "-o" in arguments:
        assert ".mlu()" in (trapped.top.parent / "out" / "setup.py").read_text()


@pytest.mark.parametrize(
    "arguments", [["check", ".", "--since", "HEAD"], [".", "-w"], [".", "-o", "../out"]], ids=["since", "write", "copy"]
)
def test_hooks_monitors_and_filters_of_the_checkout_are_not_run(trapped: Trapped, arguments: list[str]) -> None:
    trapped.with_git()
    done = run([SCRIPT, *arguments], trapped.top)
    assert done.returncode in (0, 1), done.stderr
    trapped.assert_unsprung()


def test_workers_that_are_spawned_import_nothing_of_the_project_either(trapped: Trapped, tmp_path: Path) -> None:
    driver = tmp_path / "driver" / "drive.py"
    driver.parent.mkdir()
    driver.write_text(
        "import multiprocessing, sys\n"
        "from mlu_migrate import cli\n\n"
        'if __name__ == "__main__":\n'
        "    real = multiprocessing.get_context\n"
        '    multiprocessing.get_context = lambda kind=None: real("spawn")\n'
        '    sys.exit(cli.main(["check", ".", "--jobs", "2", "--no-cache", "--format", "concise"]))\n'
    )
    done = run([sys.executable, str(driver)], trapped.top)
    assert "train.py:3:" in done.stdout, done.stderr
    trapped.assert_unsprung()


def test_a_folder_with_our_own_name_in_the_project_is_not_taken_for_us(trapped: Trapped) -> None:
    for name in ("__init__", "__main__", "cli", "rules/__init__", "rules/evil"):
        trapped.python(f"mlu_migrate/{name}.py")
    assert run([SCRIPT, "check", "."], trapped.top).returncode in (0, 1)
    trapped.assert_unsprung()


# What is written, and where. These run in this process: what counts is which files are opened.


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Here = Callable[[list[str], Path], Done]


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Runs one command line of ours in a folder."""

    def start(arguments: list[str], cwd: Path) -> Done:
        monkeypatch.chdir(cwd)
        capfd.readouterr()
        status = cli.main(arguments)
        done = Done(status, *capfd.readouterr())
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr
        return done

    return start


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.relative_to(folder).as_posix(): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's that nobody named: no byte and no mode in it may change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.py").write_text(CALL)
    (folder / "precious.py").chmod(0o640)
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize("way", ["dots", "absolute", "link"])
@pytest.mark.parametrize("flags", [["--write-baseline"], []], ids=["written", "read"])
def test_a_baseline_outside_the_project_is_refused_when_the_project_asks_for_it(
    here: Here, project: Path, outside: Path, way: str, flags: list[str]
) -> None:
    target = {"dots": "../outside/precious.py", "absolute": str(outside / "precious.py"), "link": "b.json"}[way]
    (project / "b.json").symlink_to(outside / "precious.py")
    with (project / "pyproject.toml").open("a") as file:
        file.write(f'[tool.mlu-migrate]\nbaseline = "{target}"\n')
    before = contents(outside)
    done = here(["check", ".", *flags], project)
    assert done.returncode == 2
    assert "leads out of the project" in done.stderr
    assert contents(outside) == before


def test_the_baseline_of_a_checkout_may_lie_above_the_package(here: Here, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "pkg" / "pyproject.toml").write_text('[tool.mlu-migrate]\nbaseline = "../agreed.json"\n')
    assert here(["check", "pkg", "--write-baseline"], project).returncode == 0
    assert json.loads((project / "agreed.json").read_text())["version"] == 1


def test_a_link_in_the_place_of_the_default_baseline_is_not_written_through(
    here: Here, project: Path, outside: Path
) -> None:
    (project / "mlu-migrate-baseline.json").symlink_to(outside / "precious.py")
    before = contents(outside)
    done = here(["check", ".", "--write-baseline"], project)
    assert done.returncode == 2
    assert "not written" in done.stderr
    assert contents(outside) == before


def test_paths_in_a_baseline_and_in_evidence_are_only_compared(here: Here, project: Path, outside: Path) -> None:
    rows = [
        {"path": path, "code": "MLU201", "snippet": "torch.ones(1).cuda()", "count": 1, "line": 2, "column": 1}
        for path in ("../outside/precious.py", str(outside / "precious.py"), "/etc/passwd", "..", "")
    ]
    (project / "base.json").write_text(json.dumps({"version": 1, "rows": rows}))
    (project / "seen.json").write_text(json.dumps({"version": 1, "device_strings": rows}))
    before = contents(outside)
    done = here([".", "-w", "--allow-dirty", "--baseline", "base.json", "--evidence", "seen.json"], project)
    assert done.returncode == 0, done.stderr
    assert ".mlu()" in (project / "train.py").read_text()
    assert contents(outside) == before


@pytest.mark.parametrize("key", ["exclude", "extend-exclude"])
def test_globs_of_the_settings_bring_in_nothing_from_outside(
    here: Here, project: Path, outside: Path, key: str
) -> None:
    with (project / "pyproject.toml").open("a") as file:
        file.write(f'[tool.mlu-migrate]\n{key} = ["../outside/**", "/", "!../outside/precious.py", "!/etc/**"]\n')
    before = contents(outside)
    here([".", "-w", "--allow-dirty"], project)
    assert contents(outside) == before


def test_names_that_a_notebook_or_a_script_mentions_are_not_opened_or_written(
    here: Here, project: Path, outside: Path
) -> None:
    target = outside / "precious.py"
    sources = [[f"%%writefile {target}\n", CALL], ["%%writefile ../outside/new.py\n", CALL], [f"%load {target}\n"]]
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for source in sources
    ]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (project / "a.ipynb").write_text(json.dumps(book, indent=1))
    (project / "run.sh").write_text(f"cp {target} .\npython ../outside/precious.py --device cuda > ../outside/log\n")
    before = contents(outside)
    assert here([".", "-w", "--allow-dirty", "--configs", "write"], project).returncode == 0
    assert ".mlu()" in (project / "a.ipynb").read_text()
    assert contents(outside) == before


OWN_FILES = ("mlu-migrate-report.md", "mlu-migrate-report.json", ".mlu-migrate-journal.json", ".mlu-migrate-base.zip")


@pytest.mark.parametrize("flag", ["--force", "--merge"])
@pytest.mark.parametrize("name", [*OWN_FILES, "train.py", "data.bin", "pkg", "pkg/plain.py", "new"])
def test_links_in_an_output_folder_are_never_written_through(
    here: Here, project: Path, outside: Path, name: str, flag: str
) -> None:
    """A copy of an earlier run, in which something was replaced by a link that leads out."""
    copy = project.with_name("project_mlu")
    assert here(["project"], project.parent).returncode == 0
    place = copy / name
    inside = place.read_bytes() if place.is_file() else None
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    target = outside / "empty" if place.suffix == "" else outside / "precious.py"
    if name == "mlu-migrate-report.json":  # by which a copy of ours is known: it has to be one to get any further
        (outside / "precious.py").write_bytes(inside or b"")
    place.symlink_to(target)
    (project / "train.py").write_text(CALL + "y = x.cuda()\n")
    (project / "pkg" / "plain.py").write_text(CALL)
    (project / "data.bin").write_bytes(b"new")
    if name == "new":
        place.rename(copy / "late")
        (project / "late").mkdir()
        (project / "late" / "more.py").write_text(CALL)
    before = contents(outside)
    here(["project", flag], project.parent)
    assert contents(outside) == before


def test_an_output_folder_of_someone_else_that_is_full_of_links_is_not_written_through(
    here: Here, project: Path, outside: Path
) -> None:
    copy = project.with_name("project_mlu")
    (copy / "pkg").mkdir(parents=True)
    migrated = CALL.replace("import torch\n", "import torch\nimport torch_mlu  # noqa: F401\n").replace("cuda", "mlu")
    (project / "same.py").write_text(CALL)
    (outside / "same.py").write_text(migrated)
    (outside / "same.py").chmod(0o600)
    for name, target in (("train.py", "precious.py"), ("same.py", "same.py"), ("data.bin", "precious.py")):
        (copy / name).symlink_to(outside / target)
    (copy / "pkg" / "plain.py").symlink_to("../../outside/precious.py")
    before = contents(outside)
    here(["project", "--force"], project.parent)
    assert contents(outside) == before


@pytest.mark.parametrize("kind", ["file", "nowhere"])
def test_a_link_in_the_place_of_a_single_file_is_not_written_through(
    here: Here, project: Path, outside: Path, kind: str
) -> None:
    target = outside / ("precious.py" if kind == "file" else "not_there.py")
    (project / "train_mlu.py").symlink_to(target)
    before = contents(outside)
    assert here(["train.py"], project).returncode == 2
    assert here(["train.py", "--force"], project).returncode == 2
    assert contents(outside) == before


@pytest.mark.parametrize("path", ["../outside/precious.py", "{outside}/precious.py", "pkg/../../outside/precious.py"])
def test_paths_in_the_records_of_a_copy_reach_nothing_outside_it(
    here: Here, project: Path, outside: Path, path: str
) -> None:
    """Rows that claim a file outside was put there by us, and is gone from the original: a refresh removes such."""
    import hashlib
    import zipfile

    copy = project.with_name("project_mlu")
    assert here(["project"], project.parent).returncode == 0
    name = path.format(outside=outside)
    digest = hashlib.sha256((outside / "precious.py").read_bytes()).hexdigest()
    report = json.loads((copy / "mlu-migrate-report.json").read_text())
    report["files"].append({"path": name, "status": "changed", "reason": None, "sha256": digest})
    (copy / "mlu-migrate-report.json").write_text(json.dumps(report))
    with zipfile.ZipFile(copy / ".mlu-migrate-base.zip") as archive:
        members = {item.filename: archive.read(item) for item in archive.infolist()}
    manifest = json.loads(members["manifest.json"])
    manifest["files"][name] = [digest]
    manifest["copied"][name] = [1, 1]
    members["manifest.json"] = json.dumps(manifest).encode()
    members[f"files/{name}"] = b"planted\n"
    with zipfile.ZipFile(copy / ".mlu-migrate-base.zip", "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    (copy / ".mlu-migrate-journal.json").write_text(json.dumps({name: digest}))
    before = contents(outside)
    for flag in ("--force", "--merge"):
        here(["project", flag], project.parent)
    assert contents(outside) == before


# What is shown.

SCRIPTS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)",
    "<!--",
    "]]>",
    "{{7*7}}",
    "{% raw %}",
    "javascript:alert(1)",
)


class Page(html.parser.HTMLParser):
    """The elements of a page, and what its attributes are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def hostile_project(top: Path) -> None:
    """Names of files and folders, code, comments, messages, reasons of failure and settings that inject markup."""
    top.mkdir()
    for number, script in enumerate(SCRIPTS):
        folder = top / f"{script.replace('/', chr(0x2215))}{number}"
        folder.mkdir()
        (folder / f"{script.replace('/', chr(0x2215))}.py").write_text(
            f"import torch\nname = {script!r}\nx = torch.ones(1).cuda()  # {script}\n"
            f"torch.cuda.made_up({script!r})\nimport os\nos.environ[{script + 'CUDA_VISIBLE_DEVICES'!r}] = 'cuda'\n"
            f"y = getattr(torch.cuda, {script!r})\nz = torch.load({script!r}, map_location={'cuda' + script!r})\n"
        )
        (folder / "broken.py").write_text(f"import torch.cuda\n{script} (\n")
        (folder / "encoded.py").write_text(f"# coding: {script.split()[0]}\nimport torch.cuda\n")
        (folder / "run.sh").write_text(f"CUDA_VISIBLE_DEVICES='{script}' nvidia-smi {script}\n")
        (folder / "requirements.txt").write_text(f"cupy-cuda12x\n{script}\n")


def test_the_page_of_a_project_whose_names_and_code_inject_script_has_the_elements_of_any_page(
    here: Here, tmp_path: Path
) -> None:
    hostile_project(tmp_path / "hostile")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.py").write_text(CALL)
    for name in ("hostile", "plain"):
        here(["check", name, "--audit", "--report", f"{name}.html"], tmp_path)
    page, usual = (Page((tmp_path / f"{name}.html").read_text("utf-8")) for name in ("hostile", "plain"))
    assert page.tags.count("script") == usual.tags.count("script")
    assert set(page.tags) <= set(usual.tags) | {"section", "li", "ul", "tr", "td", "th", "tbody", "table", "details"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not [value for name, value in page.attributes if name in ("href", "src") and "script:" in value.lower()]
    shown = json.dumps((tmp_path / "hostile.html").read_text("utf-8"))
    assert "alert(1)" in shown, "the names are there, as text"


def test_the_data_of_the_page_ends_where_it_should_and_holds_every_name(here: Here, tmp_path: Path) -> None:
    hostile_project(tmp_path / "hostile")
    here(["check", "hostile", "--audit", "--report", "r.html"], tmp_path)
    text = (tmp_path / "r.html").read_text("utf-8")
    start = text.index('<script type="application/json" id="data">') + len('<script type="application/json" id="data">')
    data = text[start : text.index("</script>", start)]
    assert "<" not in data
    held = json.dumps(json.loads(data), ensure_ascii=False)
    for script in SCRIPTS:
        assert json.dumps(script.replace("/", chr(0x2215)), ensure_ascii=False)[1:-1] in held


def test_terminal_escapes_in_names_and_code_do_not_reach_the_terminal(tmp_path: Path) -> None:
    top = tmp_path / "p"
    top.mkdir()
    (top / "\x1b]0;owned\x07\x1b[2J.py").write_bytes(b"import torch\nx = torch.ones(1).cuda()  # \x1b[31m\x07\x9b\n")
    (top / "b\x1b[2J.py").write_bytes(b"import torch.cuda\n\x1b[31m (\n")
    (top / "pipe\x1b[2J.py").symlink_to(tmp_path / "nowhere")
    for arguments in (["check", "p"], ["check", "p", "--format", "concise"], ["p"], ["review", "p"]):
        done = run([SCRIPT, *arguments], tmp_path, "e\nq\n")
        for text in (done.stdout, done.stderr):
            assert "\x1b" not in text and "\x07" not in text, arguments


# What is loaded.


class Bomb:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.canary),)


@pytest.mark.parametrize("where", ["stats-00000.safetensors", "tensors-00000.safetensors", "events.jsonl", "meta.json"])
@pytest.mark.parametrize("kind", ["pickle", "torch", "npy"])
def test_a_record_that_holds_a_pickle_is_refused_and_not_loaded(tmp_path: Path, where: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    from mlu_backend.parity import trace

    canary = tmp_path / "sprung"
    data = pickle.dumps(Bomb(canary))
    if kind == "torch":
        torch.save(Bomb(canary), tmp_path / "bomb")
        data = (tmp_path / "bomb").read_bytes()
    elif kind == "npy":
        header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
        data = b"\x93NUMPY\x01\x00" + (len(header)).to_bytes(2, "little") + header + data
    root = tmp_path / "record"
    folder = root / "p0000-1"
    folder.mkdir(parents=True)
    trace.write_meta(root)
    (folder / "events.jsonl").write_text("")
    (root / where if where == "meta.json" else folder / where).write_bytes(data)
    with pytest.raises(trace.TraceError):
        trace.read(root)
    assert not canary.exists()


def test_the_archive_of_a_record_unpacks_nothing_outside_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import zipfile

    from mlu_backend.parity import trace

    target = tmp_path / "r.zip"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("meta.json", json.dumps({"version": trace.VERSION}))
        archive.writestr("p0000-1/events.jsonl", "")
        archive.writestr("../escaped", "x")
        archive.writestr(f"{tmp_path}/absolute", "x")
        link = zipfile.ZipInfo("p0000-1/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, str(tmp_path))
    read = trace.read(target)
    assert [process.name for process in read.processes] == ["p0000-1"]
    assert not (read.path / "p0000-1" / "link").is_symlink()
    assert not list(tmp_path.rglob("escaped")) and not (read.path.parent / "escaped").exists()
    assert not (tmp_path / "absolute").exists()


def test_nothing_of_ours_reads_pickles() -> None:
    """Two modules that unpickle, or evaluate text as code, would be named here with the reason."""
    import ast

    import mlu_migrate

    top = Path(mlu_migrate.__file__).parent.parent
    unpickling = {"pickle", "cPickle", "shelve", "dill", "cloudpickle", "marshal", "joblib"}
    for path in [*(top / "mlu_migrate").rglob("*.py"), *(top / "mlu_backend" / "parity").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                assert not {item.name.split(".")[0] for item in node.names} & unpickling, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in unpickling, path
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "torch.load", "yaml.load", "os.system", "__import__"), path
                assert not any(key.arg == "shell" for key in node.keywords), path
