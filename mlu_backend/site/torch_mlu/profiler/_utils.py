"""Evaluation of a profile: time an operator spent itself, idle time, depth of the queue."""

from __future__ import annotations

from typing import Any

from torch.profiler import _utils as theirs
from torch.profiler._utils import _traverse, traverse_bfs, traverse_dfs

__all__ = ["BasicEvaluation", "_traverse", "traverse_bfs", "traverse_dfs"]


class BasicEvaluation(theirs.BasicEvaluation):
    """As torch's. Nothing is ever queued on the emulated card, so the depth of the queue is 0 throughout."""

    def __init__(self, prof: Any) -> None:
        super().__init__(prof)

    def compute_self_time(self) -> None:
        super().compute_self_time()

    def compute_queue_depth(self) -> list[Any]:
        return super().compute_queue_depth()

    def compute_idle_time(self) -> None:
        super().compute_idle_time()

    def rank_events(self, length: int) -> list[Any]:
        return super().rank_events(length)

    def get_optimizable_events(self, length: int = 1, print_enable: bool = True) -> list[Any]:
        return super().get_optimizable_events(length, print_enable)
