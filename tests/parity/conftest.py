"""Small recorded programs. Each runs once a session, in a process of its own, as a user's would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlu_backend import launch
from mlu_backend.parity import trace
from mlu_backend.parity.options import Options
from mlu_backend.parity.record import Outcome, record

TRAIN = """\
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.relu(self.lin(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        shared = Block(8)
        self.blocks = nn.ModuleList([shared, Block(8), shared])
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i == 1 else block(x)
        return self.head(x)


if __name__ == "__main__":
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.utils.data.TensorDataset(torch.randn(24, 8), torch.randint(0, 4, (24,)))
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.9f}")
"""


def environment(profile: str = "exact") -> dict[str, str]:
    """What a recorded program is started with; ``python`` and ``torchrun`` are those of the tests."""
    env = launch.environment(2, profile)
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
    env["OMP_NUM_THREADS"] = "1"
    return env


def run_recorded(
    folder: Path, source: str, command: Sequence[str] = ("python", "train.py"), status: int = 0, **options: object
) -> Outcome:
    """Write a program and record it; fails the test where the program ends with another status."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(source)
    known: dict[str, object] = {"out": str(folder / "trace"), "root": str(folder), "seed": 0}
    outcome = record(
        command, Options(**{**known, **options}), cwd=folder, env=environment(), timeout=240, capture_output=True
    )  # type: ignore[arg-type]
    assert outcome.status == status, outcome.output
    return outcome


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., trace.Trace]:
    """``recorded(source, **options)``: the trace of a program, made once for each program and set of options."""
    made: dict[str, trace.Trace] = {}

    def get(source: str, command: Sequence[str] = ("python", "train.py"), **options: object) -> trace.Trace:
        key = repr((source, command, sorted(options.items(), key=str)))
        if key not in made:
            folder = tmp_path_factory.mktemp("recorded")
            outcome = run_recorded(folder, source, command, **options)
            made[key] = trace.read(outcome.trace)
            made[key].meta["output"] = outcome.output
        return made[key]

    return get


@pytest.fixture(scope="session")
def training(recorded: Callable[..., trace.Trace]) -> trace.Trace:
    """The trace of TRAIN on the CPU."""
    return recorded(TRAIN)


def plain_output(folder: Path, source: str, *arguments: str) -> str:
    """What a program prints when nothing records it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "train.py", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return done.stdout
