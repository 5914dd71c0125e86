"""Graphs: work recorded once and started again in one go. The counterpart of ``torch.cuda.graphs``."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch_mlu

from ._graphed import make_graphed_callables

__all__ = [
    "is_current_stream_capturing",
    "graph_pool_handle",
    "MLUGraph",
    "graph",
    "make_graphed_callables",
]

_MLUGraph = torch_mlu._MLUC._MLUGraph
_graph_pool_handle = torch_mlu._MLUC._graph_pool_handle
_mlu_isCurrentStreamCapturing = torch_mlu._MLUC._mlu_isCurrentStreamCapturing


def is_current_stream_capturing() -> bool:
    """Whether the current stream is recording; False, without initialising anything, before first use."""
    return _mlu_isCurrentStreamCapturing()


def graph_pool_handle() -> tuple[int, int]:
    """A token for the memory pool that several graphs share."""
    return _graph_pool_handle()


class MLUGraph(_MLUGraph):
    """A recording. The default capture mode is ``relaxed`` (torch.cuda's is ``global``)."""

    def __new__(cls) -> MLUGraph:
        return super().__new__(cls)

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "relaxed") -> None:
        """Record what the current stream is given from now on; it may not be a default stream."""
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)

    def capture_end(self) -> None:
        """End recording, on the stream it began on."""
        super().capture_end()

    def replay(self) -> None:
        """Run the recorded work."""
        super().replay()

    def reset(self) -> None:
        """Forget the recording; the instance can record again."""
        super().reset()

    def pool(self) -> tuple[int, int]:
        """A token for the memory pool of this recording."""
        return super().pool()

    def enable_debug_mode(self) -> None:
        """Ask for :meth:`debug_dump` to be possible."""
        return super().enable_debug_mode()

    def debug_dump(self, debug_path: str) -> None:
        """Write the recording as a Graphviz drawing."""
        return super().debug_dump(debug_path)


class graph:
    """
    Record a block in ``mlu_graph``, on ``stream`` (default: one side stream shared by all uses).

    The first parameter is called ``cuda_graph`` in torch.cuda.
    """

    default_capture_stream: Any = None

    def __init__(
        self,
        mlu_graph: MLUGraph,
        pool: tuple[int, int] | None = None,
        stream: Any = None,
        capture_error_mode: str = "relaxed",
    ) -> None:
        if self.__class__.default_capture_stream is None:
            self.__class__.default_capture_stream = torch.mlu.Stream()
        self.pool = () if pool is None else (pool,)
        self.capture_stream = stream if stream is not None else self.__class__.default_capture_stream
        self.stream_ctx = torch.mlu.stream(self.capture_stream)
        self.mlu_graph = mlu_graph
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        torch.mlu.synchronize()
        gc.collect()
        torch.mlu.empty_cache()
        self.stream_ctx.__enter__()
        self.mlu_graph.capture_begin(*self.pool, capture_error_mode=self.capture_error_mode)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        try:
            self.mlu_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(exc_type, exc_value, traceback)
