"""
What recording at module level costs: time as a ratio inside one run, size of the record, memory over the run.

    python benchmarks/recorder.py [--device mlu|cpu] [--steps 200] [--json FILE]

Steps with and without recording alternate in one process (medians of five blocks each), so that the machine's noise
falls on both. Budgets of design section 6 and issue 5: ratio at most 1.3 where a step takes over 50 ms; 200 steps of a
language model under 100 MB, with flat memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BLOCKS = 5
BUDGET, SIZE_BUDGET, FLAT = 1.3, 100e6, 1.1


def models(device: str) -> dict[str, tuple[object, Callable[[], object]]]:
    """Name to optimizer and a function that makes one training step."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Residual(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
            self.two = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + self.two(self.one(x)))

    vision = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        *(Residual(32) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    layer = nn.TransformerEncoderLayer(192, 6, 768, dropout=0.1, batch_first=True)
    language = nn.Sequential(
        nn.Embedding(512, 192), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(192, 512)
    )
    data = {
        "cnn": (vision, torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))),
        "transformer": (language, torch.randint(0, 512, (8, 64)), torch.randint(0, 512, (8 * 64,))),
    }
    made: dict[str, tuple[object, Callable[[], object]]] = {}
    for name, (model, x, y) in data.items():
        model, x, y = model.to(device), x.to(device), y.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(
            model: nn.Module = model,
            x: torch.Tensor = x,
            y: torch.Tensor = y,
            optimizer: torch.optim.Optimizer = optimizer,
        ) -> float:
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y)
            loss.backward()
            optimizer.step()
            return loss.item()

        made[name] = (optimizer, step)
    return made


def timed(step: Callable[[], object], count: int) -> float:
    """Seconds a step."""
    started = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - started) / count


def resident() -> int:
    """Resident memory in bytes; the peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(device: str, steps: int) -> list[dict[str, object]]:
    """One row a model: seconds a step without and with recording, ratio, size and memory."""
    if device == "mlu":
        import torch_mlu  # noqa: F401
    from mlu_backend.parity import hooks
    from mlu_backend.parity.capture import Recorder
    from mlu_backend.parity.options import Options

    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="mlu-recorder-") as folder:
        made = models(device)
        untouched = {}
        for name, (_, step) in made.items():
            timed(step, 2)
            untouched[name] = timed(step, 3)
        recorder = Recorder(Options(out=folder, root=os.getcwd()))
        hooks.install(recorder)
        for name, (_, step) in made.items():
            ratios, plain, recorded = [], [], []
            for _ in range(BLOCKS):
                recorder.stopped = True
                plain.append(timed(step, 2))
                recorder.stopped = False
                recorded.append(timed(step, 2))
                ratios.append(recorded[-1] / plain[-1])
            rows.append(
                {
                    "model": name,
                    "untouched_ms": 1e3 * untouched[name],
                    "plain_ms": 1e3 * statistics.median(plain),
                    "recorded_ms": 1e3 * statistics.median(recorded),
                    "ratio": statistics.median(ratios),
                    "low": min(ratios),
                    "high": max(ratios),
                }
            )
        recorder.stopped = False
        before = size(Path(folder))
        step = made["transformer"][1]
        memory = []
        for number in range(steps):
            step()
            if number in (steps // 4, steps - 1):
                memory.append(resident())
        recorder.close()
        rows.append(
            {
                "model": f"transformer, {steps} steps",
                "bytes": size(Path(folder)) - before,
                "memory_quarter": memory[0],
                "memory_end": memory[-1],
                "growth": memory[-1] / memory[0],
            }
        )
    return rows


def size(folder: Path) -> int:
    """Bytes below a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("mlu", "cpu"), default="mlu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = measure(args.device, args.steps)
    print("| model | step, ms | recorded, ms | ratio | low to high |\n|---|---|---|---|---|")
    for row in rows[:-1]:
        print(
            f"| {row['model']} | {row['plain_ms']:.1f} | {row['recorded_ms']:.1f} | {row['ratio']:.3f} "
            f"| {row['low']:.3f} to {row['high']:.3f} |"
        )
    last = rows[-1]
    print(
        f"\n{last['model']}: {float(last['bytes']) / 1e6:.1f} MB, "
        f"resident {float(last['memory_quarter']) / 1e6:.0f} MB "
        f"after a quarter, "
        f"{float(last['memory_end']) / 1e6:.0f} MB at the end"
    )  # type: ignore[arg-type]
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    slow = [r for r in rows[:-1] if float(r["plain_ms"]) > 50]  # type: ignore[arg-type]
    good = (
        all(float(r["ratio"]) <= BUDGET for r in slow)
        and float(last["bytes"]) * 200 / args.steps <= SIZE_BUDGET
        and float(last["growth"]) <= FLAT
    )  # type: ignore[arg-type]
    return 0 if good and slow else 1


if __name__ == "__main__":
    sys.exit(main())
