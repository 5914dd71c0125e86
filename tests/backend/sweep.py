"""
Runs the entries of PyTorch's databases in child processes and collects what became of each.

``python tests/backend/sweep.py --what ops --dtype float32 --backward --shard 1/8`` prints failing rows as
JSON. Used by the tests, and by the nightly target with everything.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

TIMEOUT = 300  # seconds without an answer from a child


@dataclass(frozen=True)
class Row:
    """One check: what, of which kind, in which dtype, and its outcome (pass, fail, none, crash, hang)."""

    what: str  # ops, modules, optimizers
    name: str
    dtype: str
    backward: bool
    status: str
    detail: str


@dataclass(frozen=True)
class Task:
    what: str
    name: str
    dtype: str
    backward: bool


def tasks(what: str, dtypes: Sequence[str] | None, backward: bool) -> list[Task]:
    """Every check of one database; ``dtypes`` None means every dtype the entry supports on the CPU."""
    import databases

    return [Task(what, name, dtype, backward) for name, dtype in databases.entries(what, dtypes, backward)]


def shard(found: Sequence[Task], part: int, parts: int) -> list[Task]:
    """Every ``parts``-th task, so that every shard has some of each neighbourhood."""
    return [task for number, task in enumerate(found) if number % parts == part - 1]


def _child(connection: Any) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import databases
    import torch

    torch.set_num_threads(1)
    databases.start()
    while True:
        task = connection.recv()
        if task is None:
            return
        try:
            outcome = databases.check(task.what, task.name, task.dtype, task.backward)
            connection.send((outcome.status, outcome.detail))
        except BaseException:
            connection.send(("fail", traceback.format_exc(limit=4)))


def _work(todo: Sequence[Task], tell: Callable[[Row], None]) -> list[Row]:
    context = multiprocessing.get_context("spawn")
    rows: list[Row] = []
    process: Any = None
    parent: Any = None
    for task in todo:
        if process is None:
            parent, child = context.Pipe()
            process = context.Process(target=_child, args=(child,), daemon=True)
            process.start()
            child.close()
        try:
            parent.send(task)
            status, detail = parent.recv() if parent.poll(TIMEOUT) else ("hang", f"no answer in {TIMEOUT} s")
        except (EOFError, BrokenPipeError, ConnectionResetError):
            process.join(10)
            status, detail = "crash", f"the interpreter ended with status {process.exitcode}"
        if status in ("hang", "crash"):
            process.kill()
            process.join()
            process = None
        rows.append(Row(task.what, task.name, task.dtype, task.backward, status, detail[:600]))
        tell(rows[-1])
    if process is not None:
        parent.send(None)
        process.join(20)
    return rows


def run(todo: Sequence[Task], workers: int = 2, tell: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """
    Run the checks in ``workers`` child processes; rows come back in the order of the tasks.

    ``tell`` hears of each row when it is there, from several threads.
    """
    if not todo:
        return []
    parts = [list(todo[start::workers]) for start in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(lambda part: _work(part, tell), parts))
    rows = {(row.what, row.name, row.dtype, row.backward): row for part in done for row in part}
    return [rows[(task.what, task.name, task.dtype, task.backward)] for task in todo]


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows have each status."""
    found: dict[str, int] = {}
    for row in rows:
        found[row.status] = found.get(row.status, 0) + 1
    return dict(sorted(found.items()))


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("ops", "modules", "optimizers"), default="ops")
    parser.add_argument("--dtype", action="append", help="dtype name; repeatable; default float32; all for every dtype")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--shard", default="1/1", help="PART/PARTS")
    parser.add_argument("--only", action="append", help="entry names")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, help="append the rows to this file as JSON lines")
    options = parser.parse_args(argv)
    dtypes = None if options.dtype == ["all"] else options.dtype or ["float32"]
    part, parts = (int(word) for word in options.shard.split("/"))
    todo = shard(tasks(options.what, dtypes, options.backward), part, parts)
    if options.only:
        todo = [task for task in todo if task.name in options.only]
    lock = threading.Lock()

    def tell(row: Row) -> None:
        text = json.dumps(asdict(row))
        with lock:
            if row.status not in ("pass", "none"):
                print(text, flush=True)
            if options.output:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")

    rows = run(todo, options.workers, tell)
    print(json.dumps(counts(rows)), file=sys.stderr)
    return 1 if any(row.status not in ("pass", "none") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
