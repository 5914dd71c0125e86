"""
What recording at module level costs: time as a ratio inside one run, size of the record, memory over the run.

    python benchmarks/recorder.py [--device mlu|cpu] [--steps 200] [--json FILE]

Steps with and without recording alternate in one process, so that the machine's noise falls on both; the ratios are
medians over neighbouring pairs, of wall time and of processor time. The budget is that of wall time, unless other
programs took more than a tenth of the processors meanwhile, when it is that of processor time. The record is that of
the migrated program fixtures/scripts/gpt_language_model, whose memory is looked at from outside.
Budgets of design section 6 and issue 5: ratio at most 1.3 where a step takes over 50 ms; 200 steps of the language
model under 100 MB, with flat memory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "fixtures" / "scripts" / "gpt_language_model"
BLOCKS = 30
BUDGET, SIZE_BUDGET, FLAT = 1.3, 100e6, 1.1
BUSY = 0.1


def models(device: str) -> dict[str, Callable[[], object]]:
    """Name to a function that makes one training step."""
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
    made: dict[str, Callable[[], object]] = {}
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

        made[name] = step
    return made


@dataclass(frozen=True)
class Spent:
    """Seconds a step."""

    wall: float
    processor: float


def timed(step: Callable[[], object], count: int) -> Spent:
    """What ``count`` steps take, each."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    return Spent((time.perf_counter() - wall) / count, (time.process_time() - processor) / count)


class Others:
    """What share of the processors other programs take while this one measures; nothing is known without /proc."""

    def __init__(self) -> None:
        self._since = self._all(), time.process_time(), time.perf_counter()

    @staticmethod
    def _all() -> float | None:
        """Seconds all processors have worked since the machine started."""
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        except OSError:
            return None
        worked = sum(int(n) for i, n in enumerate(fields) if i not in (3, 4))  # without idle and waiting for disks
        return worked / os.sysconf("SC_CLK_TCK")

    def share(self) -> float | None:
        """Between 0 and 1."""
        everything, ours, began = self._since
        now = self._all()
        if everything is None or now is None:
            return None
        theirs = now - everything - (time.process_time() - ours)
        return max(0.0, theirs / ((time.perf_counter() - began) * (os.cpu_count() or 1)))


def overhead(device: str) -> list[dict[str, object]]:
    """One row a model: milliseconds a step without and with recording, and the ratios of neighbouring pairs."""
    if device == "mlu":
        from mlu_backend import offer_torch_mlu

        offer_torch_mlu()
        import torch_mlu  # noqa: F401
    from mlu_backend.parity import hooks
    from mlu_backend.parity.capture import Recorder
    from mlu_backend.parity.options import Options

    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="mlu-recorder-") as folder:
        made = models(device)
        recorder = Recorder(Options(out=folder, root=os.getcwd()))
        hooks.install(recorder)
        for name, step in made.items():
            for recorder.stopped in (True, False):
                timed(step, 2)
            plain, recorded, others = [], [], Others()
            for _ in range(BLOCKS):
                recorder.stopped = True
                plain.append(timed(step, 2))
                recorder.stopped = False
                recorded.append(timed(step, 2))
            wall = [r.wall / p.wall for p, r in zip(plain, recorded, strict=True)]
            processor = [r.processor / p.processor for p, r in zip(plain, recorded, strict=True)]
            rows.append(
                {
                    "model": name,
                    "plain_ms": 1e3 * statistics.median(p.wall for p in plain),
                    "recorded_ms": 1e3 * statistics.median(r.wall for r in recorded),
                    "wall": statistics.median(wall),
                    "processor": statistics.median(processor),
                    "low": min(processor),
                    "high": max(processor),
                    "others": others.share(),
                }
            )
        recorder.close()
    return rows


def language_model(steps: int) -> dict[str, object]:
    """Size of the record of the migrated program; its memory after a quarter of the time and at the end."""
    from mlu_backend import launch
    from mlu_backend.parity import trace
    from mlu_backend.parity.options import Options
    from mlu_backend.parity.record import record, size
    from mlu_migrate import gathering, parity, pipeline
    from mlu_migrate.settings import Options as Wanted
    from mlu_migrate.settings import Settings

    with tempfile.TemporaryDirectory(prefix="mlu-recorder-") as folder:
        run = pipeline.run(gathering.targets_of([PROGRAM]), Settings(), Wanted(cache=False))
        copy = parity._copy(PROGRAM, run, Path(folder))
        out = Path(folder, "trace")
        watch = Watch(out)
        watch.start()
        command = [sys.executable, "train.py", f"--steps={steps}"]
        options = Options(out=str(out), root=str(copy), seed=0)
        outcome = record(command, options, cwd=copy, env=launch.environment(1), timeout=3600, capture_output=True)
        watch.stop()
        if outcome.status != 0:
            raise SystemExit(f"{PROGRAM.name} failed:\n{outcome.output[-2000:]}")
        (process,) = trace.read(out).processes
        made = max(e["step"] for e in process.of("step")) + 1
        return {
            "model": PROGRAM.name,
            "steps": made,
            "bytes": size(out),
            "memory_quarter": watch.at(0.25),
            "memory_end": watch.at(1.0),
            "growth": watch.at(1.0) / watch.at(0.25),
        }


class Watch(threading.Thread):
    """Resident memory of the process that writes the trace, over the time in which it does."""

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self._out, self._ended = out, threading.Event()
        self._seen: list[int] = []

    def run(self) -> None:
        """Look ten times a second. The folder of a recorded process ends in its number."""
        while not self._ended.wait(0.1):
            for place in self._out.glob("p*/events.jsonl"):
                number = place.parent.name.rsplit("-", 1)[-1]
                with contextlib.suppress(OSError):
                    pages = int(Path("/proc", number, "statm").read_text().split()[1])
                    if pages:
                        self._seen.append(pages * os.sysconf("SC_PAGE_SIZE"))

    def stop(self) -> None:
        """No more."""
        self._ended.set()
        self.join()

    def at(self, share: float) -> int:
        """Bytes after this share of the time: the median of the looks around it, since memory breathes with a step."""
        if len(self._seen) < 20:
            raise SystemExit("the program was too short, or this system has no /proc: memory was not seen")
        last = max(9, int(share * len(self._seen)) - 1)
        return int(statistics.median(self._seen[last - 9 : last + 1]))


def counts(row: dict[str, object]) -> str:
    """Which ratio of a row the budget is held against."""
    others = row["others"]
    return "wall" if isinstance(others, float) and others <= BUSY else "processor"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("mlu", "cpu"), default="mlu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = overhead(args.device)
    print("| model | step, ms | recorded, ms | wall | processor | low to high | used by others |\n" + "|---" * 7 + "|")
    for row in rows:
        others = "unknown" if row["others"] is None else f"{100 * float(row['others']):.0f} %"  # type: ignore[arg-type]
        print(
            f"| {row['model']} | {row['plain_ms']:.1f} | {row['recorded_ms']:.1f} | {row['wall']:.3f} "
            f"| {row['processor']:.3f} | {row['low']:.3f} to {row['high']:.3f} | {others} |"
        )
    last = language_model(args.steps)
    print(
        f"\n{last['model']}, {last['steps']} steps: {float(last['bytes']) / 1e6:.1f} MB, resident "  # type: ignore[arg-type]
        f"{float(last['memory_quarter']) / 1e6:.0f} MB after a quarter, "  # type: ignore[arg-type]
        f"{float(last['memory_end']) / 1e6:.0f} MB at the end"  # type: ignore[arg-type]
    )
    if args.json:
        args.json.write_text(json.dumps([*rows, last], indent=1), encoding="utf-8")
    slow = [r for r in rows if float(r["plain_ms"]) > 50]  # type: ignore[arg-type]
    good = (
        all(float(r[counts(r)]) <= BUDGET for r in slow)  # type: ignore[arg-type]
        and float(last["bytes"]) * 200 / float(last["steps"]) <= SIZE_BUDGET  # type: ignore[arg-type]
        and float(last["growth"]) <= FLAT  # type: ignore[arg-type]
    )
    return 0 if good and slow else 1


if __name__ == "__main__":
    sys.exit(main())
