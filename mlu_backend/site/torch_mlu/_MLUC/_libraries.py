"""The run-time library, the range library, case dumps and attention kernels, as far as Python sees them."""

from __future__ import annotations

import itertools
import threading
import warnings
from types import SimpleNamespace
from typing import Any

import torch

from mlu_backend import cards

SUCCESS = 0
ERRORS = {SUCCESS: "cnrtSuccess"}

_profiling = False


def _profiler(on: bool) -> int:
    global _profiling
    _profiling = on
    return SUCCESS


_cnrt = SimpleNamespace(
    mluGetErrorStr=lambda code: ERRORS.get(int(code), "cnrtErrorUnknown"),
    mluProfilerStart=lambda: _profiler(True),
    mluProfilerStop=lambda: _profiler(False),
)


class _Ranges(threading.local):
    """Open ranges of a thread; each is a record of torch's profiler while it is open."""

    def __init__(self) -> None:
        self.stack: list[Any] = []


_ranges = _Ranges()
_started: dict[int, Any] = {}
_numbers = itertools.count(1)


def _enter(name: str) -> Any:
    return torch.ops.profiler._record_function_enter_new(name, None)


def _leave(record: Any) -> None:
    torch.ops.profiler._record_function_exit._RecordFunction(record)


def _range_push(name: str) -> int:
    _ranges.stack.append(_enter(name))
    return len(_ranges.stack) - 1


def _range_pop() -> int:
    if not _ranges.stack:
        return -1
    _leave(_ranges.stack.pop())
    return len(_ranges.stack)


def _range_start(name: str) -> int:
    number = next(_numbers)
    _started[number] = _enter(name)
    return number


def _range_end(number: int) -> None:
    record = _started.pop(number, None)
    if record is not None:
        _leave(record)


def _mark(name: str) -> None:
    _leave(_enter(name))


_cnpx = SimpleNamespace(
    rangePush=_range_push, rangePop=_range_pop, rangeStart=_range_start, rangeEnd=_range_end, mark=_mark
)


def _cncl_version() -> tuple[int, int, int]:
    """Of the emulated library; the real number depends on the toolkit installed with the driver."""
    return 1, 0, 0


_gencase = SimpleNamespace(enabled=False, level=0)


def _dump_cnnl_gencase(enable: bool, level: int = 1) -> None:
    """Switch case dumps of the kernel library; the emulated card has no such kernels, so nothing is written."""
    _gencase.enabled, _gencase.level = bool(enable), int(level)


def _refusals(params: Any) -> list[str]:
    """Why no fused kernel takes these arguments (mlu_ops.json, official_limits: scaled_dot_product_attention)."""
    query, key, value = params.query, params.key, params.value
    found = []
    if cards.model().major < 5:
        found.append("fused attention needs an MLU5xx")
    if any(tensor.device.type != "mlu" for tensor in (query, key, value)):
        found.append("query, key and value must be on mlu")
    if query.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        found.append(f"no fused kernel for {query.dtype}")
    if any(tensor.dim() != 4 for tensor in (query, key, value)):
        found.append("query, key and value must have 4 dimensions")
    if max(query.size(-1), value.size(-1)) > 256:
        found.append("head size must be at most 256")
    return found


def _answer(found: list[str], debug: bool) -> bool:
    if debug:
        for reason in found:
            warnings.warn(reason, stacklevel=4)
    return not found


def _can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    found = _refusals(params)
    if params.attn_mask is not None:
        found.append("flash attention takes no mask")
    if params.query.dtype is torch.float32:
        found.append("flash attention takes float16 and bfloat16 only")
    return _answer(found, debug)


def _can_use_mem_efficient_attention(params: Any, debug: bool = False) -> bool:
    found = _refusals(params)
    if params.attn_mask is not None and params.attn_mask.requires_grad:
        found.append("there is no gradient for the mask")
    return _answer(found, debug)
