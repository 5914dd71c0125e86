"""
Starts the emulated device: loads the C++ part, calls PrivateUse1 ``mlu``, gives Tensor and Module ``mlu`` methods.

``load()`` does it once. Afterwards ``extension()`` is the C++ module, with these functions (cards are ordinals, streams
and pools integers, bytes everywhere):

cards       device_count(), set_device_count(n), current_device(), set_device(card), exchange_device(card) -> before,
            touch() (first use; raises in a forked child of a process that used a card), touched(), in_bad_fork(),
            settle_autograd(card) (waits until its autograd thread holds nothing of Python's)
streams     new_stream(card, priority) -> id, current_stream(card) -> id (0 is the default stream),
            exchange_stream(card, id) -> before, stream_priority(id), stream_handle(card, id), now_ns() for
            events. Everything is done when a call returns, so there is nothing to synchronise. torch.Stream and
            torch.Event of device "mlu" work too.
memory      memory_stats(card) -> nested dict with the keys of torch_mlu, reset_peak_memory_stats(card),
            reset_accumulated_memory_stats(card), memory_info(card) -> (free, total), empty_cache(), memory(),
            set_memory(bytes), memory_fraction(card), set_memory_fraction(card, x), memory_segments() -> list of
            segments with blocks (snapshot), set_memory_trace(on, max_entries), memory_traces() -> one list for each
            card, set_caching(on), set_allocator_settings(max_split_size, gc_threshold, expandable, divisions),
            pinned_bytes(), PluggableAllocator(alloc, free) with its setters, plug_allocator(it), allocator_plugged(),
            base_allocation(address)
pools       begin_pool(card, a, b), end_pool(card, a, b), release_pool(card, a, b): allocations of this thread go to
            pool (a, b) in between, for graphs
profile     set_profile(narrow_float64, round_tf32, bfloat16, narrow_int64, check_overflow),
            set_tf32(convolution, matmul, custom), force_tf32_matmul(on), set_int64_casts(families);
            profiles.py and refused.py call them
operators   set_card_operators(families), set_fallback_allowed(on), set_limits(on) (of kernels, csrc/refusals.cpp)
recording   stats(tensor) -> tuple in the order of STATISTICS, see ``stats`` below
random      default_generator(card) -> torch.Generator, set_capturing(on), capturing()

The names above are a contract with ``mlu_backend.mlu``; the C++ side is ``csrc/module.cpp``.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

DEVICE = "mlu"
STATISTICS = ("norm", "min", "max", "mean", "nonfinite", "checksum", "sample")

_extension: Any = None


def extension() -> Any:
    """The C++ module; ``load()`` must have run."""
    if _extension is None:
        raise RuntimeError("the emulated device is not loaded: call mlu_backend.core.load() first")
    return _extension


def loaded() -> bool:
    """Whether ``load()`` has run in this process."""
    return _extension is not None


def load() -> Any:
    """
    Make ``torch.device("mlu")`` work in this process; further calls do nothing. Answers the C++ module.

    Raises ``mlu_backend.build.BuildError`` when the C++ part cannot be compiled, RuntimeError when another package has
    already taken torch's PrivateUse1 device.
    """
    global _extension
    import torch

    if _extension is not None:
        _choose_lazy_init(_extension)
        return _extension

    from mlu_backend import build, cards, profiles, refused

    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", DEVICE):
        raise RuntimeError(
            f"this process already uses torch's PrivateUse1 device as {name!r}, so the emulated mlu cannot be loaded"
        )
    module = _load_module("_mlu_core", str(build.core_library()))
    if name != DEVICE:
        torch.utils.rename_privateuse1_backend(DEVICE)
    _generate_methods(torch)
    module.set_device_count(cards.count())
    module.set_memory(cards.memory())
    refused.apply(module)
    profiles.apply(module, cards.profile(), refused.families_casting_int64())
    _choose_lazy_init(module)
    atexit.register(_settle_autograd, module)
    _extension = module
    return module


def _settle_autograd(module: Any) -> None:
    # csrc/autograd_exit.cpp has the reason. A forked child has none of these threads and skips atexit anyway.
    names = (task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm"))
    threads = {name for name in names if name.startswith("pt_autograd_")}
    for card in range(module.device_count()):
        if f"pt_autograd_{card}" in threads:
            module.settle_autograd(card)


def _choose_lazy_init(module: Any) -> None:
    # torch calls torch.mlu._lazy_init before the first tensor; without torch_mlu there is no torch.mlu to ask.
    import torch

    module.set_requires_init("torch_mlu" in sys.modules or hasattr(torch, DEVICE))


def _load_module(name: str, path: str) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def _generate_methods(torch: types.ModuleType) -> None:
    # No quantised dtypes among the storages: torch_mlu r2.4, torch_mlu/__init__.py:60-71.
    if not hasattr(torch.Tensor, "is_mlu"):
        torch.utils.generate_methods_for_privateuse1_backend(
            for_tensor=True,
            for_module=True,
            for_packed_sequence=True,
            for_storage=True,
            unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8],
        )


def stats(tensor: Any) -> dict[str, Any]:
    """
    Norm, min, max and mean of the finite elements, number of non-finite ones, checksum, sample: one pass over the
    memory.

    ``tensor`` is dense and real, on ``cpu`` or ``mlu``; equal contents give equal numbers on both, bit for bit and
    whatever the number of threads. Keys: those of STATISTICS (``parity/statistics.py`` defines the last two).
    """
    return dict(zip(STATISTICS, extension().stats(tensor), strict=True))
