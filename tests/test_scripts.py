"""
Whole GPU programs (fixtures/scripts) and the sample project of the README: migrated, run on the emulated `mlu`.

A program says in its program.toml how it is started, whether it runs without a card, and which of its runs must print
the same losses. Runs are cached for the session, so that a command used by several tests runs once. What
tests/parity/test_programs.py compares call by call anyway is left to the nightly run here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SCRIPTS = FIXTURES / "scripts"
SAMPLE = FIXTURES / "sample_project"
LIMIT = 240  # seconds a run may take before it counts as hung
STEP = re.compile(r"^\W*step\s+(\d+).*?\bloss:?\s+(-?\d+\.\d+(?:e[-+]\d+)?)", re.MULTILINE)
FINAL = re.compile(r"^final loss:?\s+(\S+)", re.MULTILINE)
KEYS = {"name", "shows", "style", "command", "steps", "ranks", "quick", "cpu", "device_random", "reference"}
# Printed losses have six decimals; the single-step limit of the design is 2e-5.
SAME = 2e-5


@dataclass(frozen=True)
class Program:
    folder: Path
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def command(self) -> str:
        return str(self.facts["command"])

    @property
    def same_losses(self) -> dict[str, str]:
        return dict(self.facts.get("same_losses", {}))


def load_programs() -> list[Program]:
    files = sorted(SCRIPTS.glob("*/program.toml"))
    return [Program(file.parent, tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]


PROGRAMS = load_programs()


def each(programs: list[Program]) -> pytest.MarkDecorator:
    """One case a program; those that are not quick are left to the nightly run, like whole tests marked slow."""
    cases = [pytest.param(p, id=p.name, marks=() if p.facts["quick"] else pytest.mark.slow) for p in programs]
    return pytest.mark.parametrize("program", cases)


ALL = each(PROGRAMS)
COMPARED = each([program for program in PROGRAMS if program.same_losses])
DECIDED = each([program for program in PROGRAMS if "decisions" in program.facts])


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return f"exit status {self.status}\n{self.out[-3000:]}\n{self.err[-5000:]}"

    @property
    def losses(self) -> dict[int, float]:
        return {int(step): float(loss) for step, loss in STEP.findall(self.out)}

    @property
    def final(self) -> float:
        found = FINAL.findall(self.out)
        assert len(found) == 1, f"expected one line that starts with 'final loss'\n{self.text}"
        return float(found[0])


def environment() -> dict[str, str]:
    """That of a user in an activated environment: our Python first on PATH, no trace of an outer run."""
    outer = ("MLU_EMULATOR", "MLU_VISIBLE", "CUDA_", "TORCHELASTIC", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
    env["OMP_NUM_THREADS"] = "1"  # one order of summation, whatever the machine
    return env


def execute(command: list[str], cwd: Path, more: Mapping[str, str] | None = None) -> Outcome:
    done = subprocess.run(
        command, cwd=cwd, env={**environment(), **(more or {})}, capture_output=True, text=True, timeout=LIMIT
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def migrate(source: Path, target: Path) -> Outcome:
    return execute([sys.executable, "-m", "mlu_migrate", str(source), "-o", str(target), "--no-cache"], source.parent)


@dataclass(frozen=True)
class Bench:
    """
    Copies of the programs, their migrations and their runs.

    Each is made once, whichever worker process asks first: results lie in files, and a lock a program keeps the others
    waiting.
    """

    root: Path

    def _once(self, folder: Path, name: str, make: Callable[[], Outcome]) -> Outcome:
        place = self.root / "outcomes" / folder.name
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
        with FileLock(f"{place}.lock"):
            if not file.exists():
                file.write_text(json.dumps(asdict(make())), encoding="utf-8")
            return Outcome(**json.loads(file.read_text(encoding="utf-8")))

    def original(self, folder: Path) -> Path:
        copy = self.root / "original" / folder.name

        def make() -> Outcome:
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__", "runs"))
            return Outcome(0, "", "")

        self._once(folder, "copy", make)
        return copy

    def migrated(self, folder: Path) -> Path:
        source, target = self.original(folder), self.root / "migrated" / folder.name
        done = self._once(folder, "migrate", lambda: migrate(source, target))
        assert done.status == 0, done.text
        return target

    def support(self, folder: Path) -> Path:
        return self.root / f"{folder.name}.support.json"

    def on_cpu(self, folder: Path, command: str) -> Outcome:
        place = self.original(folder)
        return self._once(folder, f"cpu {command}", lambda: execute(shlex.split(command), place))

    def on_mlu(self, folder: Path, command: str) -> Outcome:
        place = self.migrated(folder)
        run = [sys.executable, "-m", "mlu_backend", "--cards", "2", f"--support={self.support(folder)}", "--"]
        return self._once(folder, f"mlu {command}", lambda: execute(run + shlex.split(command), place))


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    base = tmp_path_factory.getbasetemp()
    # the worker processes of pytest-xdist have folders of their own in a common one
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "gpu_programs"
    root.mkdir(exist_ok=True)
    return Bench(root)


def test_there_is_a_program_for_each_kind_of_gpu_code() -> None:
    shown = " ".join(str(program.facts["shows"]) for program in PROGRAMS).lower()
    wanted = ["gradscaler", "bf16", "torchrun", "ctc", "sparse gradients", "3d conv", "nms", "transposed conv", "ema"]
    wanted += ["rollouts", "scatter", "fully_shard", "dtensor", "pipelinestage", "int8", "cudagraph", "cache"]
    assert [word for word in wanted if word not in shown] == []


@ALL
def test_the_description_of_a_program_is_complete(program: Program) -> None:
    facts = program.facts
    assert set(facts) >= KEYS, KEYS - set(facts)
    assert facts["name"] == program.name
    assert facts["cpu"] or facts["cpu_error"], "a program that needs a card says how it fails without one"
    assert facts["ranks"] == (2 if "torchrun" in program.command else 1)
    for command in [program.command, *program.same_losses.values()]:
        scripts = [word for word in shlex.split(command) if word.endswith(".py")]
        assert len(scripts) == 1 and (program.folder / scripts[0]).is_file(), command
    readme = (program.folder / "README.md").read_text(encoding="utf-8")
    assert shlex.split(program.command)[-3] in readme or program.command in readme


@pytest.mark.slow
@ALL
def test_the_original_runs_without_a_card_or_says_why_not(program: Program, bench: Bench) -> None:
    outcome = bench.on_cpu(program.folder, program.command)
    if program.facts["cpu"]:
        assert outcome.status == 0, outcome.text
        assert math.isfinite(outcome.final)
        assert sorted(outcome.losses) == list(range(program.facts["steps"])), outcome.text
    else:
        assert outcome.status != 0, f"ran although its program.toml says that it cannot\n{outcome.text}"
        assert re.search(program.facts["cpu_error"], outcome.out + outcome.err), outcome.text


@ALL
def test_every_file_of_the_migrated_program_compiles(program: Program, bench: Bench) -> None:
    target = bench.migrated(program.folder)
    originals = sorted(path.relative_to(program.folder) for path in program.folder.rglob("*.py"))
    assert sorted(path.relative_to(target) for path in target.rglob("*.py")) == originals
    changed = 0
    for name in originals:
        text = (target / name).read_bytes()
        compile(text, str(name), "exec", dont_inherit=True)
        changed += text != (program.folder / name).read_bytes()
    assert changed > 0, "a GPU program was migrated without a change"


@DECIDED
def test_what_a_person_must_decide_is_in_the_report(program: Program, bench: Bench) -> None:
    report = json.loads((bench.migrated(program.folder) / "mlu-migrate-report.json").read_text(encoding="utf-8"))
    left = {finding["code"] for finding in report["findings"] if finding["safety"] == "manual"}
    assert left >= set(program.facts["decisions"])


@ALL
def test_a_second_migration_changes_nothing(program: Program, bench: Bench, tmp_path: Path) -> None:
    first = bench.migrated(program.folder)
    again = migrate(first, tmp_path / program.name)
    assert again.status == 0, again.text
    for path in first.rglob("*.py"):
        assert (tmp_path / program.name / path.relative_to(first)).read_bytes() == path.read_bytes(), path.name


@pytest.mark.slow
@ALL
def test_the_migrated_program_runs_on_the_emulated_device(program: Program, bench: Bench) -> None:
    outcome = bench.on_mlu(program.folder, program.command)
    assert outcome.status == 0, outcome.text
    assert math.isfinite(outcome.final)
    assert sorted(outcome.losses) == list(range(program.facts["steps"])), outcome.text
    assert operators(bench.support(program.folder)), "no operator ran on the device: the program stayed on the CPU"


@pytest.mark.slow
@COMPARED
def test_runs_that_should_agree_print_the_same_losses(program: Program, bench: Bench) -> None:
    outcomes = {
        kind: (bench.on_cpu if kind == "original_on_cpu" else bench.on_mlu)(program.folder, command)
        for kind, command in program.same_losses.items()
    }
    for kind, outcome in outcomes.items():
        assert outcome.status == 0, f"{kind}: {outcome.text}"
    (first, *others) = outcomes
    for other in others:
        a, b = outcomes[first], outcomes[other]
        assert sorted(a.losses) == sorted(b.losses)
        for step, loss in a.losses.items():
            assert math.isclose(loss, b.losses[step], rel_tol=SAME, abs_tol=SAME), (
                f"step {step}: {first} {loss}, {other} {b.losses[step]}"
            )
        assert math.isclose(a.final, b.final, rel_tol=SAME, abs_tol=SAME)


def test_the_sample_project_is_migrated_into_programs_that_run(bench: Bench) -> None:
    target = bench.migrated(SAMPLE)
    for path in target.rglob("*.py"):
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    report = json.loads((target / "mlu-migrate-report.json").read_text(encoding="utf-8"))
    assert report["summary"]["applied"] > 30
    assert report["summary"]["manual"] > 3, "the sample has things that a person must decide"
    trained = bench.on_mlu(SAMPLE, "python train.py --steps 3 --device mlu")
    assert trained.status == 0, trained.text
    assert sorted(trained.losses) == [0, 1, 2]
    assert "peak memory" in trained.out, f"trained on the CPU\n{trained.text}"
    measured = bench.on_mlu(SAMPLE, "python evaluate.py --checkpoint runs/base/last.pt")
    assert measured.status == 0, measured.text
    assert re.search(r"^final mean IoU \d\.\d+ on mlu", measured.out, re.MULTILINE), measured.text
    timed = bench.on_mlu(SAMPLE, "python benchmark.py")
    assert timed.status == 0, timed.text
    assert "ms a call" in timed.out


def test_the_launch_script_of_the_sample_project_trains_on_two_cards(bench: Bench) -> None:
    bench.migrated(SAMPLE)
    outcome = bench.on_mlu(SAMPLE, "bash scripts/train.sh --steps 3")
    assert outcome.status == 0, outcome.text
    assert sorted(outcome.losses) == [0, 1, 2]
    assert "peak memory" in outcome.out, f"trained on the CPU\n{outcome.text}"


def operators(table: Path) -> list[str]:
    """Names of the operators that ran on the device, from the table that ``--support=FILE`` leaves."""
    rows = json.loads(table.read_text(encoding="utf-8"))["operators"]
    return [str(row["operator"]) for row in rows]
