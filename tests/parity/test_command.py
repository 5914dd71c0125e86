"""``mlu-migrate parity``: the edit map, named entries, wrong use, and one run from start to end."""

from __future__ import annotations

import json
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mlu_migrate import command, editmap, gathering, parity_args, parity_entries, pipeline
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, RunResult, Safety, Severity
from mlu_migrate.output import Output
from mlu_migrate.parity_entries import folders, titles
from mlu_migrate.settings import Options, Settings


def finding(line: int, before: str, after: str, **changes: object) -> Finding:
    made = Finding(
        "MLU201",
        "cuda-method",
        Severity.INFO,
        Safety.SAFE,
        Confidence.HIGH,
        "a.py",
        line,
        1,
        line,
        9,
        "m",
        edits=(Edit(0, 1, b"x"),),
        before=before,
        after=after,
        applied=True,
    )
    return made.with_(**changes)


def lines_of(tmp_path: Path, before: str, after: str, *found: Finding) -> list[list[int]]:
    (tmp_path / "a.py").write_text(after)
    file = FileResult("a.py", FileStatus.CHANGED, source=before.encode(), output=after.encode(), findings=found)
    rows = editmap.edit_map(RunResult((file,)), tmp_path)["files"]["a.py"]
    return [row["lines"] for row in rows]


def test_an_edited_line_is_found_below_an_inserted_one(tmp_path: Path) -> None:
    before, after = "import torch\nx = y.cuda()\n", "import torch\nimport torch_mlu\nx = y.mlu()\n"
    assert lines_of(tmp_path, before, after, finding(2, "y.cuda()", "y.mlu()")) == [[3, 3]]


def test_an_inserted_line_is_found_where_it_was_put(tmp_path: Path) -> None:
    before, after = "import torch\nx = 1\n", "import torch\nimport torch_mlu\nx = 1\n"
    assert lines_of(tmp_path, before, after, finding(1, "", "import torch_mlu")) == [[2, 2]]


def test_an_insertion_whose_snippet_is_its_neighbour_is_found_by_what_it_inserts(tmp_path: Path) -> None:
    before, after = "import torch\nx = 1\n", "import torch\nimport torch_mlu\nx = 1\n"
    inserted = finding(1, "import torch", "import torch", edits=(Edit(12, 12, b"\nimport torch_mlu"),))
    assert lines_of(tmp_path, before, after, inserted) == [[2, 2]]


def test_neighbouring_edits_keep_their_own_lines(tmp_path: Path) -> None:
    before, after = "a.cuda()\nb.cuda()\nc\n", "a.mlu()\nb.mlu()\nc\n"
    found = (finding(1, "a.cuda()", "a.mlu()"), finding(2, "b.cuda()", "b.mlu()"))
    assert lines_of(tmp_path, before, after, *found) == [[1, 1], [2, 2]]


def test_a_file_edited_by_hand_since_still_has_the_right_lines(tmp_path: Path) -> None:
    before, after = "x = y.cuda()\n", "# checked by hand\n\nx = y.mlu()\n"
    assert lines_of(tmp_path, before, after, finding(1, "y.cuda()", "y.mlu()")) == [[3, 3]]


def test_crlf_files_have_the_same_lines(tmp_path: Path) -> None:
    before, after = "import torch\r\nx = y.cuda()\r\n", "import torch\r\nimport torch_mlu\r\nx = y.mlu()\r\n"
    assert lines_of(tmp_path, before, after, finding(2, "y.cuda()", "y.mlu()")) == [[3, 3]]


def test_findings_that_were_not_applied_are_in_the_map_and_advice_is_not(tmp_path: Path) -> None:
    guess = finding(1, '"cuda"', '"mlu"', applied=False, safety=Safety.UNSAFE)
    advice = finding(1, "x", "", applied=False, edits=())
    file = FileResult("a.py", FileStatus.UNCHANGED, source=b'd = "cuda"\n', findings=(guess, advice))
    (row,) = editmap.edit_map(RunResult((file,)), tmp_path)["files"]["a.py"]
    assert row["applied"] is False and row["safety"] == "unsafe"


def test_warnings_for_people_are_in_the_map_with_their_words(tmp_path: Path, project: Path) -> None:
    run = pipeline.run(gathering.targets_of([project]), Settings(), Options(cache=False, jobs=1))
    rows = [row for rows in editmap.edit_map(run.result, tmp_path)["files"].values() for row in rows]
    left = [row for row in rows if not row["applied"] and row["severity"] in ("error", "warning")]
    assert len(left) == sum(f.severity.value != "info" and not f.applied for f in run.result.findings)
    assert all(row["message"] for row in left)


def test_every_edit_of_a_real_migration_lies_on_a_line_that_changed(tmp_path: Path, project: Path) -> None:
    run = pipeline.run(gathering.targets_of([project]), Settings(), Options(cache=False, jobs=1))
    for file in run.result.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(file.result)
    files = editmap.edit_map(run.result, tmp_path)["files"]
    assert files
    for name, rows in files.items():
        new = (tmp_path / name).read_text().splitlines()
        old = (project / name).read_text().splitlines()
        for row in rows:
            assert any(line not in old for line in new[row["lines"][0] - 1 : row["lines"][1]]), row


def entries(project: Path, text: str) -> tuple[parity_entries.Entry, ...]:
    (project / "pyproject.toml").write_text(text)
    return parity_entries.entries(project)


def test_entries_are_read_with_every_option(tmp_path: Path) -> None:
    (entry, second) = entries(
        tmp_path,
        '[[tool.mlu-migrate.parity]]\nname = "train"\ncommand = "python train.py --x \'a b\'"\nsteps = 3\nseed = 5\n'
        'reference = "cpu"\nprofile = "mlu590"\nlevel = "op"\ntimeout = 60\ntolerance = "limits.toml"\n'
        '[[tool.mlu-migrate.parity]]\ncommand = ["python", "eval.py"]\ncandidate-command = "python eval.py -d mlu"\n',
    )
    assert entry == parity_entries.Entry(
        ("python", "train.py", "--x", "a b"), "train", None, "cpu", 3, 5, "mlu590", "op", tmp_path / "limits.toml", 60.0
    )
    assert second == parity_entries.Entry(("python", "eval.py"), candidate_command=("python", "eval.py", "-d", "mlu"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[tool.mlu-migrate.parity]]\nname = "x"\n', "needs a command"),
        ('[[tool.mlu-migrate.parity]]\ncommand = "x"\nstep = 3\n', "has no setting step, did you mean steps?"),
        ('[[tool.mlu-migrate.parity]]\ncommand = "x"\nsteps = "3"\n', "steps must be a number"),
        ('[[tool.mlu-migrate.parity]]\ncommand = ""\n', "the command is empty"),
        ('[[tool.mlu-migrate.parity]]\ncommand = "python \'x"\n', "the command cannot be read"),
        ("[[tool.mlu-migrate.parity]]\ncommand = 3\n", "the command cannot be read"),
        ("[tool.mlu-migrate]\nparity = 3\n", "are written [[tool.mlu-migrate.parity]]"),
        (2 * '[[tool.mlu-migrate.parity]]\nname = "x"\ncommand = "x"\n', "2 parity entries are named x"),
        ("not toml =", "pyproject.toml"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(parity_entries.ParityError) as caught:
        entries(tmp_path, text)
    assert words in str(caught.value)


def test_a_project_without_entries_has_none(tmp_path: Path) -> None:
    assert parity_entries.entries(tmp_path) == ()
    assert entries(tmp_path, "[project]\nname = 'x'\n") == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{p}/gone", "--", "python"], "no such folder"),
        (["{p}/file", "--", "python"], "mlu-migrate parity {p} -- python file"),
        (["{p}", "python", "t.py"], "comes after --"),
        (["{p}", "--step", "3", "--", "python"], "unrecognized arguments: --step 3, did you mean --steps?"),
        (["{p}", "--", ""], "the command is empty"),
        (["{p}", "--", "pyhton", "t.py"], "pyhton: cannot run: no such program"),
        (["{p}", "--", "python t.py"], "write it without quotes: -- python t.py"),
        (["{p}", "--", "t.py", "a b"], "write python in front: python t.py 'a b'"),
        (["{p}", "--", "A=1", "python", "t.py"], "env A=1 python t.py"),
        (["{p}", "--", "./file"], "it is not executable; write: bash ./file"),
        (["{p}", "--", "own.sh"], "is run as ./own.sh"),
        (["{p}", "--candidate-command", "pyhton", "--", "python"], "pyhton: cannot run"),
        (["{p}", "--cards", "0", "--", "python"], "cards must be 1 or more"),
        (["{p}", "--reference", "emulated-gpu", "--", "python"], "did you mean emulated-cuda?"),
        (["{p}", "--report", "{p}/folder.md", "--", "python"], "it is a folder"),
        (["{p}", "--tolerance", "{p}/none.toml", "--", "python"], "none.toml: No such file or directory"),
        (["{p}", "--keep", "{p}/file/x", "--", "python"], "Not a directory"),
        (["{p}"], "nothing to run"),
        (["{p}", "--name", "x"], "no parity entry named x"),
        (["{p}", "--profile", "gpu", "--", "python"], "invalid choice"),
        (["{p}", "--wrong", "--", "python"], "unrecognized arguments: --wrong"),
        (["{p}", "--steps", "-1", "--", "python"], "must not be negative"),
        (["{p}", "--reference", "{p}/none.zip", "--", "python"], "no such file"),
        (["{p}", "--report", "{p}/x.doc", "--", "python"], "a report ends in one of"),
        (["{p}", "--report", "{p}/no/x.md", "--", "python"], "its folder is not there"),
        (["{p}", "--keep", "{p}", "--", "python"], "a folder that is empty or not there"),
        (["{p}", "--migrated", "{p}/gone", "--", "python"], "no such folder"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "own.sh").write_text("")
    (tmp_path / "folder.md").mkdir()
    status = parity_args.main("parity", [a.format(p=tmp_path) for a in arguments], Output())
    told = capsys.readouterr()
    assert status == 2 and told.out == "" and words.format(p=tmp_path) in told.err and len(told.err.splitlines()) == 1


def test_folders_of_entries_are_apart_and_stay_inside() -> None:
    names = ["train", "../../up", "migrated", "fp16/op", "", "fp16 op", "..", "run-5"]
    made = folders([parity_entries.Entry(("x",), name) for name in names])
    assert made == ["train", "up", "migrated-3", "fp16-op", "run-5", "fp16-op-6", "run-7", "run-5-8"]


def test_several_entries_without_names_go_by_their_commands() -> None:
    assert titles([parity_entries.Entry(("python", "a b.py")), parity_entries.Entry(("x",), "n")]) == [
        "python 'a b.py'",
        "n",
    ]
    assert titles([parity_entries.Entry(("python", "a.py"))]) == [""]


def test_a_reference_in_pyproject_is_found_from_the_project(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, '[[tool.mlu-migrate.parity]]\ncommand = "x"\nreference = "ref.zip"\n')
    assert entry.reference == str(tmp_path / "ref.zip")


def test_verdicts_have_colours_and_nothing_else_has() -> None:
    text = "a: PARITY: match, bit for bit\n  match\n\nPARITY NOT JUDGED\n  why\n\nPARITY: mismatch\n"
    shown = parity_args._coloured(text)
    assert shown.count("\x1b[1;") == 3 and re.sub(r"\x1b\[[0-9;]*m", "", shown) == text
    assert "\x1b[1;32ma: PARITY: match, bit for bit\x1b[0m" in shown


def test_traces_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert parity_args.main("parity-compare", [str(tmp_path), str(tmp_path)], Output()) == 2
    assert "no trace here" in capsys.readouterr().err


def test_help_fits_eighty_columns_and_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert parity_args.main("parity", ["--help"], Output()) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for option in (
        "--migrated",
        "--reference",
        "--steps",
        "--seed",
        "--profile",
        "--level",
        "--tolerance",
        "--keep",
        "--timeout",
        "--report",
        "--candidate-command",
    ):
        assert option in text


@pytest.mark.parametrize(
    ("given", "migrated"),
    [
        ("python train.py --device=cuda --name 'a b'", "python train.py --device=mlu --name 'a b'"),
        ("torchrun --nproc-per-node 2 t.py --backend nccl", "torchrun --nproc-per-node 2 t.py --backend cncl"),
        ("env CUDA_VISIBLE_DEVICES=1 python t.py device=cuda:0", "env MLU_VISIBLE_DEVICES=1 python t.py device=mlu:0"),
        ("python t.py --use_cuda --title cuda", "python t.py --use_cuda --title cuda"),
        ("python t.py --steps 3", "python t.py --steps 3"),
    ],
)
def test_the_migrated_program_gets_the_command_in_its_own_words(given: str, migrated: str) -> None:
    assert shlex.join(command.migrated(shlex.split(given), Settings())) == migrated


def test_one_word_migrates_runs_compares_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    top = tmp_path / "project"
    top.mkdir()
    (top / "train.py").write_text(
        "import argparse\nimport torch\n\np = argparse.ArgumentParser()\np.add_argument('--device', default='cpu')\n"
        "args = p.parse_args()\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(4, 2).to(args.device)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor _ in range(2):\n"
        "    loss = model(torch.randn(3, 4).to(args.device)).pow(2).mean()\n    loss.backward()\n    optimizer.step()\n"
        "torch.cuda.synchronize()\n"
    )
    (top / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\n'
        '[[tool.mlu-migrate.parity]]\nname = "train"\ncommand = "python train.py --device cuda"\n'
    )
    reports = [str(tmp_path / f"r{suffix}") for suffix in (".md", ".json", ".html", ".xml")]
    more = [word for path in reports for word in ("--report", path)]
    status = parity_args.main("parity", [str(top), "--cards", "2", *more], Output(quiet=True))
    told = capsys.readouterr().out
    assert told.startswith("train: PARITY: match, bit for bit\n")
    assert "the candidate was run as: python train.py --device mlu" in told
    assert status == 0
    data = json.loads(Path(reports[1]).read_text())
    assert data["coverage"]["edits"] == data["coverage"]["exercised"] == 2
    assert Path(reports[0]).read_text().startswith("# train: PARITY: match")
    assert 'id="parity"' in Path(reports[2]).read_text() and "Error by layer and step" in Path(reports[2]).read_text()
    assert ET.parse(reports[3]).getroot()[0].attrib["failures"] == "0"
    assert sorted(p.name for p in top.iterdir()) == ["pyproject.toml", "train.py"]


def test_a_program_in_which_nothing_imports_torch_mlu_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n\nmodel = torch.nn.Linear(4, 2).to(torch.accelerator.current_accelerator())\n"
        "model(torch.ones(1, 4, device=model.weight.device)).sum().backward()\n"
    )
    status = parity_args.main("parity", [str(tmp_path), "--", "python", "train.py"], Output(quiet=True))
    assert status != 0
    assert "no Python file of the migrated copy imports torch_mlu" in " ".join(capsys.readouterr().out.split())
