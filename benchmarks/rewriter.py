"""
Speed of the rewriter, as ratios inside one run: `python benchmarks/rewriter.py [--json FILE] [--runs 5] [--corpus
FOLDER]`.

Without --corpus, pinned pure-Python wheels are taken from PyPI (a wheel is unpacked, never built: downloading a source
archive through pip would run its setup.py). CPU time is measured, of this process or of a fresh one with one job; only
start-up is wall time. Each figure is the median, with the least and the greatest, of --runs runs.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedNameProvider

from mlu_migrate import engine, project
from mlu_migrate.collecting import held_back
from mlu_migrate.prefilter import mentions
from mlu_migrate.settings import Settings

PINNED = (
    "accelerate==1.11.0 diffusers==0.35.1 lightning==2.5.5 monai==1.5.1 optimum==1.27.0 peft==0.17.1 timm==1.0.20 "
    "torch_geometric==2.6.1 torchmetrics==1.8.2 transformers==4.57.1 trl==0.23.1"
).split()

EXE = [sys.executable, "-m", "mlu_migrate"]


class QualifiedCodemod(cst.CSTTransformer):
    """What a codemod is usually written like: metadata for every node, names resolved by the provider."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        names = self.get_metadata(QualifiedNameProvider, original_node, set())
        if any(n.name == "torch.cuda" for n in names):
            return updated_node.with_changes(attr=cst.Name("mlu"))
        return updated_node


def fetch(folder: Path) -> None:
    """Unpack the pinned wheels into ``folder``."""
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", wheels]
        subprocess.run([*pip, *PINNED], check=True)
        for wheel in sorted(Path(wheels).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / wheel.name.partition("-")[0])


def cpu(action: Callable[[], object]) -> float:
    """CPU seconds of one call, without what earlier calls left for the collector."""
    gc.collect()
    start = time.process_time()
    action()
    return time.process_time() - start


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def migrate_all(files: list[tuple[str, bytes]]) -> None:
    """The project scan and the engine, as a run with one job does them."""
    collector = project.Collector()
    with held_back():
        for name, data in files:
            collector.add(name, data)
        facts = collector.facts()
    settings = Settings()
    for name, data in files:
        engine.migrate(data, name, settings, facts)


def parse_all(files: list[tuple[str, bytes]]) -> None:
    """`libcst.parse_module` of the files that mention a trigger."""
    for _, data in files:
        if mentions(data):
            try:
                cst.parse_module(data)
            except Exception:
                continue


def codemod_all(files: list[tuple[str, bytes]]) -> None:
    """A plain libcst codemod with qualified names over the files that mention a trigger."""
    for _, data in files:
        if mentions(data):
            try:
                MetadataWrapper(cst.parse_module(data)).visit(QualifiedCodemod())
            except Exception:
                continue


def start_up(command: list[str]) -> float:
    """Wall seconds of a fresh process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def program(command: list[str]) -> tuple[float, float]:
    """CPU seconds (with those of its own children) and peak memory in MiB of a program run to its end."""
    # A process takes over the peak of the one it was forked from, so a small one stands in between.
    done = subprocess.run([sys.executable, "-S", "-c", _MEASURE, *command], capture_output=True, text=True, check=True)
    status, seconds, memory = done.stdout.split()
    if status not in ("0", "1"):
        raise SystemExit(f"status {status}: {' '.join(command)}")
    return float(seconds), float(memory)


def migrate_folder(folder: Path, copy: Path) -> tuple[float, float]:
    """The whole program on a folder, in one process."""
    return program([*EXE, str(folder), "-o", str(copy), "--jobs", "1", "--no-cache", "--isolated"])


def as_programs(files: list[tuple[str, bytes]], scratch: Path, runs: int) -> dict[str, float]:
    """`mlu-migrate` against the regex converter, both as programs that copy and convert the same folder."""
    folder = lay_out(files, scratch / "corpus")
    ratios = []
    for number in range(runs):
        ours, theirs = scratch / f"ours{number}", scratch / f"theirs{number}"
        spent = migrate_folder(folder, ours)[0]
        converter = Path(__file__).with_name("regex_converter.py")
        ratios.append(spent / program([sys.executable, str(converter), str(folder), str(theirs)])[0])
        shutil.rmtree(ours)
        shutil.rmtree(theirs)
    shutil.rmtree(folder)
    return spread(ratios)


def lay_out(files: list[tuple[str, bytes]], folder: Path) -> Path:
    """Write the files into a new folder."""
    for name, data in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def growth(files: list[tuple[str, bytes]], scratch: Path) -> dict[str, float]:
    """
    CPU seconds and peak MiB of the program, in one process, for projects of 10k, 100k and 1M lines (files spread over
    the corpus) and for single files of 10k and 100k lines.
    """
    out: dict[str, float] = {}
    total = sum(data.count(b"\n") for _, data in files)
    for lines in (10_000, 100_000, 1_000_000):
        step, chosen, count = max(1, round(total / lines)), [], 0
        for start in range(step):
            for name, data in files[start::step]:
                if count < lines:
                    chosen.append((name, data))
                    count += data.count(b"\n")
        folder = lay_out(chosen, scratch / f"project{lines}")
        seconds, memory = migrate_folder(folder, scratch / f"copy{lines}")
        out[f"project of {count} lines, s"] = seconds
        out[f"project of {count} lines, MiB"] = memory
    block = b"def f(x):\n    y = x + 1\n    if y > 3:\n        return g(y, 2)\n    return x.cuda()\n"
    for lines in (10_000, 100_000):
        folder = lay_out([("one.py", b"import torch\n" + block * (lines // 5))], scratch / f"single{lines}")
        seconds, memory = migrate_folder(folder, scratch / f"single_copy{lines}")
        out[f"one file of {lines} lines, s"] = seconds
        out[f"one file of {lines} lines, MiB"] = memory
    return out


def slowest(files: list[tuple[str, bytes]]) -> list[str]:
    """The three functions with the most CPU time of their own."""
    profile = cProfile.Profile()
    profile.enable()
    migrate_all(files)
    profile.disable()
    stats = pstats.Stats(profile)
    total = stats.total_tt  # type: ignore[attr-defined]
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:3]  # type: ignore[attr-defined]
    return [f"{Path(k[0]).name}:{k[2]} {100 * v[2] / total:.0f} %" for k, v in rows]


def main() -> None:
    """Measure, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument(
        "--codemod-files", type=int, default=250, help="files for the slow codemod, spread over the corpus"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.corpus or Path(scratch)
        if args.corpus is None:
            fetch(folder)
        paths = sorted(p for p in folder.rglob("*.py") if p.is_file())
        files = [(p.relative_to(folder).as_posix(), p.read_bytes()) for p in paths]
        trigger = [f for f in files if mentions(f[1])]
        sample = trigger[:: max(1, len(trigger) // args.codemod_files)]
        engine.migrate(b"import torch\nx.cuda()\n", "warm.py", Settings())  # tables and rules are loaded once a process
        rounds = []
        for _ in range(args.runs):
            ours, parse = (cpu(lambda a=a: a(files)) for a in (migrate_all, parse_all))
            ours_sample, codemod = (cpu(lambda a=a: a(sample)) for a in (migrate_all, codemod_all))
            rounds.append((ours / parse, codemod / ours_sample, ours))
        one = Path(scratch) / "one_file_hook.py"
        one.write_text("import torch\nx = torch.ones(2).cuda()\n")
        version, typer, hook, cache = [], [], [], []
        for number in range(args.runs):
            version.append(start_up([*EXE, "--version"]))
            typer.append(start_up([sys.executable, "-c", "import typer"]))
            hook.append(start_up([*EXE, "check", "--isolated", "--no-cache", "--fail-level", "error", str(one)]))
            os.environ["MLU_MIGRATE_CACHE_DIR"] = str(Path(scratch) / f"cache{number}")
            check = [*EXE, "check", "--isolated", "--jobs", "1", "--format", "json", str(folder)]
            cold = program(check)[0]
            cache.append(program(check)[0] / cold)
        table = {
            "files": len(files),
            "files that mention a trigger": len(trigger),
            "ours / libcst.parse_module (budget 0.7)": spread([r[0] for r in rounds]),
            "ours / ten regular expressions, as programs (budget 5)": as_programs(files, Path(scratch), args.runs),
            "libcst codemod with qualified names / ours (budget 5 at least)": spread([r[1] for r in rounds]),
            "ours, CPU s": spread([r[2] for r in rounds]),
            "--version / import typer (budget 1.5)": spread([a / b for a, b in zip(version, typer)]),
            "one-file hook, s": spread(hook),
            "second run / first run (budget 0.1)": spread(cache),
            "growth": growth(files, Path(scratch)),
            "slowest": slowest(files),
        }
    for key, value in table.items():
        if isinstance(value, dict) and "median" in value:
            print(f"{key:64} {value['median']:8.2f}   ({value['min']:.2f} to {value['max']:.2f})")
        else:
            print(f"{key:64} {value}")
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))


_MEASURE = (
    "import os, subprocess, sys\n"
    "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    "status, used = os.wait4(child.pid, 0)[1:]\n"
    "print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)\n"
)

if __name__ == "__main__":
    main()
