"""
Speed of the rewriter, as ratios inside one run: `python benchmarks/rewriter.py [--json FILE] [--runs 5] [--corpus
FOLDER]`.

Without --corpus, pinned pure-Python wheels are taken from PyPI (a wheel is unpacked, never built: downloading a source
archive through pip would run its setup.py). Everything is measured in one process and one thread with CPU time, except
start-up, which is wall time of a fresh process. Each figure is the median, with the least and the greatest, of --runs
runs.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import re
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

# A stand-in for a converter of ten regular expressions, line by line; written for this comparison.
PATTERNS = [
    (re.compile(a), b)
    for a, b in (
        (r"cuda", "mlu"),
        (r"nccl", "cncl"),
        (r"torch\.backends\.cudnn\.enabled", "torch.backends.mlufusion.enabled"),
        (r"torch\.backends\.mlu\.matmul\.allow_tf32", "torch.backends.mlu.matmul.allow_tf32"),
        (r"torch\.backends\.cudnn\.allow_tf32", "torch.backends.cnnl.allow_tf32"),
        (r"ProfilerActivity\.CUDA", "ProfilerActivity.MLU"),
        (r"nvtx", "cnpx"),
        (r"get_autocast_gpu_dtype", "mlu.get_autocast_dtype"),
        (r"set_autocast_gpu_dtype", "mlu.set_autocast_dtype"),
        (r"CUDAGraph", "MLUGraph"),
    )
]


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


def regex_all(files: list[tuple[str, bytes]]) -> None:
    """The stand-in for a regex converter."""
    for _, data in files:
        lines = data.decode("utf-8", "replace").split("\n")
        for number, line in enumerate(lines):
            for pattern, new in PATTERNS:
                line = pattern.sub(new, line)
            lines[number] = line
        "\n".join(lines).encode()


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


def growth(runs: int) -> dict[str, float]:
    """
    CPU seconds for one file of 10k, 100k and 1M lines, and of peak memory in MiB for the largest, in a fresh
    process.
    """
    code = (
        "import resource, sys, time\n"
        "from mlu_migrate import engine\n"
        "from mlu_migrate.settings import Settings\n"
        "n = int(sys.argv[1])\n"
        "block = b'def f(x):\\n    y = x + 1\\n    if y > 3:\\n        return g(y, 2)\\n    return x.cuda()\\n'\n"
        "data = b'import torch\\n' + block * (n // 5)\n"
        "parts = [data[i : i + 400_000] for i in range(0, len(data), 400_000)] if n > 100_000 else [data]\n"
        "t = time.process_time()\n"
        "for p in parts:\n"
        "    p = p[p.find(b'def f'):p.rfind(b'def f')] if len(parts) > 1 else p\n"
        "    engine.migrate(b'import torch\\n' + p, 'a.py', Settings())\n"
        "print(time.process_time() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    out: dict[str, float] = {}
    for lines in (10_000, 100_000, 1_000_000):
        done = subprocess.run([sys.executable, "-c", code, str(lines)], check=True, capture_output=True, text=True)
        seconds, memory = map(float, done.stdout.split())
        out[f"{lines} lines, s"] = seconds
        out[f"{lines} lines, MiB"] = memory
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
            ours, parse, regex = (cpu(lambda a=a: a(files)) for a in (migrate_all, parse_all, regex_all))
            ours_sample, codemod = (cpu(lambda a=a: a(sample)) for a in (migrate_all, codemod_all))
            rounds.append((ours / parse, ours / regex, codemod / ours_sample, ours))
        exe = [sys.executable, "-m", "mlu_migrate"]
        one = folder / "one_file_hook.py"
        one.write_text("import torch\nx = torch.ones(2).cuda()\n")
        version, typer, hook, cold, warm = [], [], [], [], []
        cache_target = folder / trigger[0][0].partition("/")[0]
        for _ in range(args.runs):
            version.append(start_up([*exe, "--version"]))
            typer.append(start_up([sys.executable, "-c", "import typer"]))
            hook.append(start_up([*exe, "check", "--isolated", "--no-cache", "--fail-level", "error", str(one)]))
            home = Path(scratch) / f"cache{len(cold)}"
            env = [sys.executable, "-c", _CACHED, str(home), str(cache_target)]
            cold.append(start_up(env))
            warm.append(start_up(env))
        table = {
            "files": len(files),
            "files that mention a trigger": len(trigger),
            "ours / libcst.parse_module (budget 0.7)": spread([r[0] for r in rounds]),
            "ours / ten regular expressions (budget 5)": spread([r[1] for r in rounds]),
            "libcst codemod with qualified names / ours (budget 5 at least)": spread([r[2] for r in rounds]),
            "ours, CPU s": spread([r[3] for r in rounds]),
            "--version / import typer (budget 1.5)": spread([a / b for a, b in zip(version, typer)]),
            "one-file hook, s": spread(hook),
            "second run / first run (budget 0.1)": spread([b / a for a, b in zip(cold, warm)]),
            "growth": growth(args.runs),
            "slowest": slowest(files),
        }
    for key, value in table.items():
        if isinstance(value, dict) and "median" in value:
            print(f"{key:64} {value['median']:8.2f}   ({value['min']:.2f} to {value['max']:.2f})")
        else:
            print(f"{key:64} {value}")
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))


_CACHED = (
    "import os, subprocess, sys\n"
    "env = dict(os.environ, XDG_CACHE_HOME=sys.argv[1])\n"
    "raise SystemExit(subprocess.run([sys.executable, '-m', 'mlu_migrate', 'check', '--isolated', '--jobs', '1', "
    "'--format', 'json', sys.argv[2]], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode > 2)\n"
)

if __name__ == "__main__":
    main()
