"""``parity-record``: what it says, and that a place which cannot be written is seen before the program runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlu_backend.parity import record

PROGRAM = "import torch\nnet = torch.nn.Linear(2, 1)\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
STEP = "net(torch.ones(1, 2)).sum().backward()\nopt.step()\nprint('ran')\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: OUT"),
        (["out"], "comes after --"),
        (["out", "--"], "comes after --"),
        (["out", "--level", "foo", "--", "x"], "invalid choice: 'foo'"),
        (["out", "--every", "0", "--", "x"], "every must be 1 or more"),
        (["{p}/out", "--", "pyhton"], "cannot record: pyhton: No such file or directory"),
        (["{p}/no/x.zip", "--", "{python}", "{p}/train.py"], "no: no such folder"),
        (["{p}/folder.zip", "--", "{python}", "{p}/train.py"], "is a folder"),
        (["{p}/train.py", "--", "{python}", "{p}/train.py"], "is a file"),
        (["{p}", "--", "{python}", "{p}/train.py"], "is not empty and holds no trace"),
    ],
)
def test_wrong_use_is_seen_before_the_program_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    (tmp_path / "folder.zip").mkdir()
    made = [a.format(p=tmp_path, python=sys.executable) for a in arguments]
    assert record.main(made, "mlu-migrate parity-record") == 2
    told = capfd.readouterr()
    assert words in told.err and "mlu_backend" not in told.err and told.out == ""


def test_help_is_that_of_the_command_that_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert record.main(["--help"], "mlu-migrate parity-record") == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: mlu-migrate parity-record OUT [options] -- COMMAND...") and "``" not in text


def test_what_was_recorded_is_told_beside_the_programs_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM + STEP)
    place = tmp_path / "ref.zip"
    command = [str(place), "--root", str(tmp_path), "--", sys.executable, str(tmp_path / "train.py")]
    assert record.main(command) == 0
    told = capfd.readouterr()
    assert told.out == "ran\n" and f"recorded in {place}: " in told.err
    assert "1 optimizer step, 1 process, " in told.err and told.err.endswith(" kB\n")


def test_a_program_of_which_nothing_was_recorded_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert record.main([str(tmp_path / "out"), "--", sys.executable, "-c", "print('ran')"]) == 0
    assert "nothing was recorded in" in capfd.readouterr().err
