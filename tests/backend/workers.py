"""
Processes that stay up and run one task after another, each a rank of one process group.

A test hands a function and its arguments to ``World.run``; every rank calls ``function(rank, size, *arguments)`` and
asserts for itself. The first failure comes back with its traceback. Start-up is paid once for a module of tests.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.multiprocessing as mp

PATIENCE = 180  # seconds until a task that hangs is given up; no test waits for it to pass


def _serve(rank: int, size: int, store: str, backend: str, tasks: Any, answers: Any) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    import torch
    import torch.distributed as dist
    import torch_mlu  # noqa: F401

    torch.set_num_threads(1)
    torch.mlu.set_device(rank)
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=PATIENCE // 2)
    )
    answers.put((rank, None, None))
    while True:
        task = tasks.get()
        if task is None:
            break
        function, arguments = task
        try:
            answers.put((rank, function(rank, size, *arguments), None))
        except BaseException:
            answers.put((rank, None, traceback.format_exc()))
    dist.destroy_process_group()


class World:
    """``size`` processes in one process group over ``backend``; a context manager."""

    def __init__(self, size: int, backend: str = "cpu:gloo,mlu:cncl") -> None:
        self.size = size
        self._folder = tempfile.TemporaryDirectory()
        context = mp.get_context("spawn")
        self._answers = context.Queue()
        self._tasks = [context.Queue() for _ in range(size)]
        store = str(Path(self._folder.name) / "store")
        self._processes = [
            context.Process(
                target=_serve, args=(rank, size, store, backend, self._tasks[rank], self._answers), daemon=True
            )
            for rank in range(size)
        ]

    def __enter__(self) -> World:
        from mlu_backend import build

        build.core_library()  # here, so that the ranks do not wait for a compiler while their patience runs out
        for process in self._processes:
            process.start()
        self._gather("start-up")
        return self

    def __exit__(self, *_: object) -> None:
        for queue in self._tasks:
            queue.put(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What ``function`` returned on each rank; AssertionError with the traceback of a rank where it raised."""
        for queue in self._tasks:
            queue.put((function, arguments))
        return self._gather(function.__name__)

    def _gather(self, what: str) -> list[Any]:
        results: list[Any] = [None] * self.size
        failures = []
        for _ in range(self.size):
            try:
                rank, result, failure = self._answers.get(timeout=PATIENCE)
            except Exception as error:
                for process in self._processes:
                    process.kill()
                raise AssertionError(f"{what}: a rank gave no answer within {PATIENCE} s; {failures}") from error
            results[rank] = result
            if failure:
                failures.append(f"rank {rank}:\n{failure}")
        assert not failures, f"{what} failed on\n" + "\n".join(failures)
        return results
