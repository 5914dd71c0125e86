"""
Does parity catch what migrations lose, and say where?

Migrates the three programs of fixtures/parity, plants nine faults one at a time in the migrated copy, runs parity, and
prints a table of fault by program: caught (exit status 1), and located (the first divergence names the module, line or
setting that was changed). Each program also has to pass unplanted. Exit status 1 if any cell fails.

    python benchmarks/parity_faults.py [--only PROGRAM] [--fault FAULT] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mlu_backend.parity import session, trace, verdict
from mlu_backend.parity.findings import Difference, Status, Verdict

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "fixtures" / "parity"
COMMANDS = {
    "vision": {
        "one": "python train.py",
        "bf16": "python train.py --dtype bf16",
        "two": "torchrun --standalone --nproc-per-node 2 train.py",
    },
    "language": {
        "one": "python train.py",
        "bf16": "python train.py --dtype bf16",
        "two": "torchrun --standalone --nproc-per-node 2 train.py",
    },
    "recommender": {
        "one": "python train.py",
        "bf16": "python train.py bf16",
        "two": "torchrun --standalone --nproc-per-node 2 train.py",
    },
}

Located = Callable[[Difference], bool]


@dataclass(frozen=True)
class Plant:
    """
    A fault in one program: replace ``old`` by ``new`` in ``file``, run ``variant``; ``located`` judges the first
    divergence.
    """

    old: str
    new: str
    located: Located
    file: str = "train.py"
    variant: str = "one"


def at(path: str) -> Located:
    """The first divergence is in this module."""
    return lambda d: d.path == path


def called_at(text: str) -> Located:
    """The first divergence names a line that holds this text; filled in when the planted source is known."""
    located: Located = lambda d: False  # noqa: E731 - replaced in run_fault, which has the source
    located.__dict__["text"] = text
    return located


def told(words: str) -> Located:
    """The first divergence is about this setting."""
    return lambda d: d.what.startswith(words)


FAULTS: dict[str, dict[str, Plant]] = {
    "lost autocast": {
        "vision": Plant(
            'torch.autocast("mlu", dtype=dtype)',
            'torch.autocast("mlu", dtype=dtype, enabled=False)',
            called_at("model(x), y"),
        ),
        "language": Plant(
            'device_type="mlu", dtype=dtype)',
            'device_type="cpu", dtype=dtype, enabled=False)',
            called_at("flatten(0, 1).float()"),
        ),
        "recommender": Plant("with torch.mlu.amp.autocast(dtype=half):", "if True:", called_at("logits = net(")),
    },
    "fp16 for bf16": {
        "vision": Plant("torch.bfloat16 if", "torch.float16 if", called_at("model(x), y"), variant="bf16"),
        "language": Plant('"bf16": torch.bfloat16', '"bf16": torch.float16', told("loss scaling"), variant="bf16"),
        "recommender": Plant(
            "half = torch.bfloat16 if", "half = torch.float16 if", told("loss scaling"), variant="bf16"
        ),
    },
    "layer left on the CPU": {
        "vision": Plant("return self.head(x)", "return self.head.cpu()(x.cpu().float()).to(x.device)", at("Net.head")),
        "language": Plant(
            "return self.head(x)",
            "return self.head.cpu()(x.cpu().float()).to(x.device)",
            at("LanguageModel.head"),
            file="model.py",
        ),
        "recommender": Plant(
            "self.dense(numbers)]", "self.dense.cpu()(numbers.cpu()).to(ids.device)]", at("Clicks.dense")
        ),
    },
    "weight decay lost": {
        "vision": Plant(", weight_decay=0.05", ", weight_decay=0.0", told("optimizer settings")),
        "language": Plant(", weight_decay=0.1", ", weight_decay=0.0", told("optimizer settings")),
        "recommender": Plant(", weight_decay=1e-3", "", told("optimizer settings")),
    },
    "wrong seed order": {
        "vision": Plant(
            "torch.manual_seed(args.seed)\n    model = Net()",
            "model = Net()\n    torch.manual_seed(args.seed)",
            told("order of seeding"),
        ),
        "language": Plant(
            "torch.manual_seed(cfg.seed)\n    model = LanguageModel()",
            "model = LanguageModel()\n    torch.manual_seed(cfg.seed)",
            told("order of seeding"),
        ),
        "recommender": Plant(
            "torch.manual_seed(3)\nnet = Clicks()", "net = Clicks()\ntorch.manual_seed(3)", told("order of seeding")
        ),
    },
    "wrong reduction": {
        "vision": Plant("op=dist.ReduceOp.SUM", "op=dist.ReduceOp.MAX", called_at("all_reduce("), variant="two"),
        "language": Plant("op=dist.ReduceOp.SUM", "op=dist.ReduceOp.PRODUCT", called_at("all_reduce("), variant="two"),
        "recommender": Plant(
            "distributed.ReduceOp.SUM", "distributed.ReduceOp.MIN", called_at("all_reduce("), variant="two"
        ),
    },
    "one changed weight": {
        "vision": Plant(
            "model = Net()\n", "model = Net()\n    model.body.weight.data[3, 1, 0, 0] += 1e-3\n", at("Net.body")
        ),
        "language": Plant(
            "model = LanguageModel()\n",
            "model = LanguageModel()\n    model.blocks[1].attn.proj.weight.data[5, 7] += 1e-4\n",
            at("LanguageModel.blocks.1.attn.proj"),
        ),
        "recommender": Plant(
            "net = Clicks()\n", "net = Clicks()\nnet.table.weight.data[123, 4] += 1e-3\n", at("Clicks.table")
        ),
    },
    "loss scaling lost": {
        "vision": Plant('GradScaler(enabled=args.dtype == "fp16")', "GradScaler(enabled=False)", told("loss scaling")),
        "language": Plant("enabled=dtype == torch.float16)", "enabled=False)", told("loss scaling")),
        "recommender": Plant(
            "GradScaler(enabled=half == torch.float16)", "GradScaler(enabled=False)", told("loss scaling")
        ),
    },
    "dropout left on": {
        "vision": Plant("        model.eval()\n", "", called_at("(model(x).argmax(-1)")),
        "language": Plant("    model.eval()\n", "", called_at("cross_entropy(model(ids).flatten(0, 1), targets")),
        "recommender": Plant("    net.eval()\n", "", called_at("net(ids, numbers).sigmoid()")),
    },
}


class Program:
    """One migrated program and its reference traces, each recorded once."""

    def __init__(self, name: str, work: Path) -> None:
        from mlu_migrate import editmap, gathering, parity, pipeline
        from mlu_migrate.settings import Options, Settings

        self.name, self.work = name, work
        migrated = pipeline.run(gathering.targets_of([PROGRAMS / name]), Settings(), Options(cache=False))
        work.mkdir(parents=True)
        self.migrated = parity._copy(PROGRAMS / name, migrated, work)
        self.edits = work / "edits.json"
        self.edits.write_text(json.dumps(editmap.edit_map(migrated.result, self.migrated)), encoding="utf-8")
        self._references: dict[str, Path] = {}

    def plan(self, variant: str, migrated: Path, work: Path) -> session.Plan:
        return session.Plan(
            original=PROGRAMS / self.name,
            migrated=migrated,
            command=tuple(COMMANDS[self.name][variant].split()),
            work=work,
            edits=self.edits,
            timeout=300,
            cards=2,
            look_closer=False,
        )

    def reference(self, variant: str) -> Path:
        if variant not in self._references:
            work = self.work / f"reference-{variant}"
            work.mkdir()
            made = session.Session(self.plan(variant, self.migrated, work))
            outcome = made._run("reference", PROGRAMS / self.name, "emulated-cuda")
            if outcome.status != 0:
                raise SystemExit(f"{self.name}, {variant}: the reference failed\n{outcome.output}")
            self._references[variant] = outcome.trace
        return self._references[variant]

    def judge(self, variant: str, migrated: Path, name: str) -> Verdict:
        work = self.work / name.replace(" ", "-")
        work.mkdir()
        plan = replace(self.plan(variant, migrated, work), reference="emulated-cuda")
        made = session.Session(plan)
        outcome = made._run("candidate", migrated, "none")
        reference = trace.read(self.reference(variant))
        question = verdict.Question()
        candidate = trace.read(outcome.trace)
        if outcome.status != 0:
            return made._failed(reference, candidate, question, outcome)
        found = verdict.judge(reference, candidate, question)
        made._look_closer(found)
        return found


def plant(program: Program, fault: str, wanted: Plant) -> tuple[Path, Located]:
    """A planted copy, and the test of its location. A text that is not there exactly once ends the benchmark."""
    folder = program.work / f"planted-{fault.replace(' ', '-')}"
    shutil.copytree(program.migrated, folder)
    path = folder / wanted.file
    source = path.read_text(encoding="utf-8")
    if source.count(wanted.old) != 1:
        raise SystemExit(
            f"{program.name}: {fault}: {wanted.old!r} is in {wanted.file} {source.count(wanted.old)} times"
        )
    planted = source.replace(wanted.old, wanted.new)
    path.write_text(planted, encoding="utf-8")
    text = getattr(wanted.located, "__dict__", {}).get("text")
    if text is None:
        return folder, wanted.located
    lines = [i for i, line in enumerate(planted.splitlines(), 1) if text in line]
    return folder, lambda d: d.site is not None and d.site[0] == wanted.file and d.site[1] in lines


def run(only: str | None, fault: str | None) -> list[dict[str, object]]:
    """All cells: program, fault, status, caught, located, first divergence, seconds."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="mlu-parity-faults-") as folder:
        for name in [n for n in COMMANDS if only in (None, n)]:
            program = Program(name, Path(folder) / name)
            for variant in COMMANDS[name]:
                if fault is None:
                    rows.append(_cell(program, "none", variant, program.migrated, lambda d: False))
            for title, plants in FAULTS.items():
                if fault in (None, title):
                    wanted = plants[name]
                    migrated, located = plant(program, title, wanted)
                    rows.append(_cell(program, title, wanted.variant, migrated, located))
    return rows


def _cell(program: Program, fault: str, variant: str, migrated: Path, located: Located) -> dict[str, object]:
    started = time.monotonic()
    found = program.judge(variant, migrated, f"{fault}-{variant}")
    first = found.first
    row: dict[str, object] = {
        "program": program.name,
        "fault": fault,
        "variant": variant,
        "status": found.status.value,
        "caught": found.status is Status.MISMATCH,
        "located": bool(first is not None and located(first)),
        "first": f"{first.what} [{first.path or (first.site and f'{first.site[0]}:{first.site[1]}')}]"
        if first
        else "; ".join(found.reasons),
        "seconds": round(time.monotonic() - started, 1),
    }
    row["passed"] = found.status is Status.MATCH if fault == "none" else row["caught"] and row["located"]
    shutil.rmtree(program.work / f"{fault}-{variant}".replace(" ", "-"), ignore_errors=True)
    print(
        f"{program.name:12} {fault:22} {variant:5} {row['status']:10} "
        f"{'ok' if row['passed'] else 'FAILED'}  {row['first']}",
        file=sys.stderr,
    )
    return row


HEAD = """# Planted faults, and whether parity catches and locates them

Written by `python benchmarks/parity_faults.py --write benchmarks/parity_faults.md`: three programs, nine faults planted
one at a time in the migrated copy. "Located": the first divergence names the right module, line or setting."""


def table(rows: list[dict[str, object]]) -> str:
    """Fault by program, as Markdown."""
    names = list(dict.fromkeys(str(r["program"]) for r in rows))
    out = ["| fault | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for fault in dict.fromkeys(str(r["fault"]) for r in rows):
        cells = []
        for name in names:
            found = [r for r in rows if r["program"] == name and r["fault"] == fault]
            if fault == "none":
                cells.append(f"{sum(bool(r['passed']) for r in found)} of {len(found)} variants pass")
            else:
                cells.append(
                    ", ".join(
                        f"{'caught' if r['caught'] else 'MISSED'}, {'located' if r['located'] else 'NOT LOCATED'}"
                        for r in found
                    )
                )
        out.append(f"| {fault} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(COMMANDS))
    parser.add_argument("--fault", choices=sorted(FAULTS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help="write the table as a Markdown page")
    args = parser.parse_args()
    rows = run(args.only, args.fault)
    text = table(rows)
    print(text)
    if args.write:
        args.write.write_text(f"{HEAD}\n\n{text}\n", encoding="utf-8")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if all(r["passed"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
