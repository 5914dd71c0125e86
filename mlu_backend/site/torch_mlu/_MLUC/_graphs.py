"""Graphs: a recording of operators, its rules, and its memory pool."""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import torch

from mlu_backend import capture, cards
from torch_mlu import _MLUC

_core = _MLUC._core
MODES = ("global", "thread_local", "relaxed")
_pools = itertools.count(1)
# The recordings open now: (card, stream) -> graph.
_open: dict[tuple[int, int], _MLUGraph] = {}


def capturing_here() -> bool:
    """Whether this thread has a recording open; other threads may go on waiting for the card."""
    return any(graph._thread == threading.get_ident() for graph in _open.values())


def _place() -> tuple[int, int]:
    card = _core.current_device()
    return card, _core.current_stream(card)


def _graph_pool_handle() -> tuple[int, int]:
    return 0, next(_pools)


def _mlu_isCurrentStreamCapturing() -> bool:
    return bool(_open) and _core.touched() and _place() in _open


class _MLUGraph:
    """One recording. The texts of its errors are those of torch_mlu/csrc/framework/graphs/MLUGraph.cpp."""

    def __new__(cls) -> _MLUGraph:
        self = super().__new__(cls)
        self._recorder: capture.Recorder | None = None
        self._done = False
        self._began: tuple[int, int] | None = None
        self._pool: tuple[int, int] | None = None
        self._owns_pool = False
        self._debug = False
        self._thread = 0
        self._generators: list[Any] = []
        self._states: list[tuple[Any, torch.Tensor]] = []
        return self

    def register_generator_state(self, generator: Any) -> None:
        """Random operators with this generator may be recorded; every replay goes on where it stands."""
        self._generators.append(generator)

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "relaxed") -> None:
        torch.mlu._lazy_init()
        if capture_error_mode not in MODES:
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got " + capture_error_mode
            )
        if self._done or self._recorder is not None:
            raise RuntimeError(
                "This MLUGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        if cards.model().major < 5:
            # tools/autogen_torch_api/api_support_lists/torch_api.yaml:138
            raise RuntimeError("CNRT error: MLU graphs are not supported on MLU3xx")
        place = _place()
        if place[1] == 0:
            raise RuntimeError(
                "MLU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        self._pool, self._owns_pool = (pool, False) if pool else (_graph_pool_handle(), True)
        self._states = [(g, g.get_state()) for g in (torch.mlu.default_generators[place[0]], *self._generators)]
        self._began = place
        self._thread = threading.get_ident()
        self._recorder = capture.Recorder("mlu")
        _core.begin_pool(place[0], *self._pool)
        _open[place] = self
        _core.set_capturing(True)
        self._recorder.__enter__()

    def capture_end(self) -> None:
        recorder, began = self._recorder, self._began
        if recorder is None or self._done or began is None:
            raise RuntimeError("CNRT error: the queue is not capturing")
        ended = _place()
        self._close(recorder, began)
        if ended != began:
            self._forget()
            raise RuntimeError("Capture must end on the same stream it began on.")
        self._done = True
        if not recorder.calls:
            warnings.warn(
                "The MLU Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=3,
            )

    def _close(self, recorder: capture.Recorder, began: tuple[int, int]) -> None:
        recorder.__exit__(None, None, None)
        _open.pop(began, None)
        _core.set_capturing(bool(_open))
        recorder.restore()
        for generator, state in self._states:
            generator.set_state(state)
        self._states = []
        assert self._pool is not None
        _core.end_pool(began[0], *self._pool)

    def replay(self) -> None:
        if not self._done or self._recorder is None:
            raise RuntimeError("Called MLUGraph::replay without a preceding successful capture.")
        self._recorder.replay()

    def reset(self) -> None:
        if self._recorder is not None and not self._done and self._began is not None:
            self._close(self._recorder, self._began)
        self._forget()

    def _forget(self) -> None:
        card = self._began[0] if self._began else 0
        pool, owned = self._pool, self._owns_pool
        self._recorder, self._done, self._began, self._pool = None, False, None, None
        if pool is not None and owned:
            _core.release_pool(card, *pool)

    def __del__(self) -> None:
        # At the end of a process the modules this needs may be gone, and nothing needs giving back.
        if not sys.is_finalizing() and getattr(self, "_pool", None) is not None:
            self._forget()

    def pool(self) -> tuple[int, int]:
        if not self._done or self._pool is None:
            raise RuntimeError("Called MLUGraph::pool() without a preceding successful capture.")
        return self._pool

    def enable_debug_mode(self) -> None:
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Only after :meth:`enable_debug_mode`; otherwise a warning, as torch's graphs give."""
        if not self._debug:
            warnings.warn("MLU Graphs debug not enabled, set with enable_debug_mode()", stacklevel=2)
            return
        if self._recorder is None or not self._done:
            warnings.warn("MLU Graph is not captured, nothing to dump", stacklevel=2)
            return
        Path(debug_path).write_text(capture.dot(self._recorder), encoding="utf-8")
