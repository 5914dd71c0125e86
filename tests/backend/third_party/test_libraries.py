"""
accelerate, transformers and lightning, as they come from PyPI, find the emulated card and train on it.

They need what requirements.txt beside them lists; .ci/nightly installs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).with_name("programs.py")
LIMIT = 600  # seconds a program may take before it counts as hung

pytestmark = pytest.mark.slow


def run(name: str, folder: Path, *launcher: str, ranks: int = 1) -> list[dict[str, Any]]:
    """What each rank of a program reported."""
    output = folder / "report.json"
    command = [sys.executable, "-m", "mlu_backend", *launcher, str(PROGRAMS), name, str(output)]
    env = {**os.environ, "PROGRAM_FOLDER": str(folder / "out"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return [json.loads(Path(f"{output}.{rank}").read_text()) for rank in range(ranks)]


def learns(losses: list[float], epoch: int) -> bool:
    """Every epoch sees the same data, so without training the first would cost what the last does."""
    return sum(losses[-epoch:]) < 0.9 * sum(losses[:epoch])


def test_accelerate_recognises_the_card_by_itself_and_trains(tmp_path: Path) -> None:
    (report,) = run("accelerate_loop", tmp_path)
    assert report["recognised"] and report["device"].startswith("mlu") and report["model"].startswith("mlu")
    assert report["processes"] == 1 and learns(report["losses"], 4)


def test_accelerate_trains_in_two_processes_as_in_one(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (alone,) = run("accelerate_loop", tmp_path / "one")
    torchrun = ("--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    reports = run("accelerate_loop", tmp_path, *torchrun, ranks=2)
    for rank, report in enumerate(reports):
        assert report["kind"].endswith("MULTI_MLU") and report["processes"] == 2
        assert report["device"] == f"mlu:{rank}"
        assert report["losses"] == pytest.approx(alone["losses"], rel=1e-3)


def test_accelerate_launch_starts_a_process_for_each_card(tmp_path: Path) -> None:
    launcher = ("--", sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--multi_gpu")
    reports = run("accelerate_loop", tmp_path, *launcher, "--main_process_port", "0", ranks=2)
    assert [report["device"] for report in reports] == ["mlu:0", "mlu:1"]


def test_accelerate_computes_in_float16_with_a_scaler(tmp_path: Path) -> None:
    (report,) = run("accelerate_half", tmp_path)
    assert report["dtypes"] and learns(report["losses"], 4) and report["scaler"] == "GradScaler"


def test_the_trainer_of_transformers_trains_a_random_model_and_saves_it(tmp_path: Path) -> None:
    (report,) = run("transformers_trainer", tmp_path)
    assert report["device"].startswith("mlu") and report["model"].startswith("mlu")
    assert report["saved"] == ["checkpoint-16", "checkpoint-8"]
    assert len(report["losses"]) == 16 and learns(report["losses"], 4)


def test_a_lightning_module_trains_with_an_accelerator_for_the_card(tmp_path: Path) -> None:
    (report,) = run("lightning_trainer", tmp_path)
    assert report["devices"] == ["mlu:0"] and report["root"] == "mlu:0" and learns(report["losses"], 4)
