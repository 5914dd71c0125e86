"""
``torch.cuda`` from ``torch.mlu``: every public name both have, and those only CUDA has that programs ask for.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from mlu_backend.parity.emulated_cuda.devices import of_the_device, sees_the_device, to_device

CAPABILITY = (8, 0)
NCCL_VERSION = (2, 21, 5)
NAME = "Emulated GPU (compute capability 8.0)"
_PRIVATE = ("_lazy_init", "_lazy_call", "_get_device_index", "_is_in_bad_fork", "_sleep")


def install() -> None:
    """``torch.cuda`` from ``torch.mlu``: every public name both have, and those only CUDA has that programs ask for."""
    cuda, mlu = torch.cuda, torch.mlu  # type: ignore[attr-defined]
    _copy_names(cuda, mlu)
    for name in ("amp", "memory", "random", "streams", "graphs"):
        _copy_names(sys.modules.get(f"torch.cuda.{name}"), getattr(mlu, name, None))
    renamed = {"CUDAGraph": "MLUGraph", "CUDAPluggableAllocator": "MLUPluggableAllocator"}
    for ours, theirs in renamed.items():
        if hasattr(mlu, theirs):
            setattr(cuda, ours, getattr(mlu, theirs))
    available = cuda.is_available
    cuda.is_available = lambda: bool(available()) and not sees_the_device(1)
    cuda.__class__ = _Cuda
    cuda.graph = _graph(mlu.graph)
    cuda.get_device_capability = lambda device=None: CAPABILITY
    cuda.get_device_name = lambda device=None: NAME
    cuda.get_device_properties = _properties
    cuda.get_arch_list = lambda: ["sm_80"]
    cuda.is_bf16_supported = lambda including_emulation=True: True
    cuda.nvtx = _nvtx()
    sys.modules["torch.cuda.nvtx"] = cuda.nvtx
    if hasattr(cuda, "nccl"):
        cuda.nccl.version = lambda: NCCL_VERSION
    plans = getattr(torch.backends.mlu, "cnfft_plan_cache", None)  # type: ignore[attr-defined]
    if plans is not None:
        torch.backends.cuda.cufft_plan_cache = _Plans(plans)  # type: ignore[assignment]
    for name in ("Stream", "Event", "ExternalStream"):
        kind = getattr(mlu, name, None)
        if kind is not None:
            setattr(cuda, name, kind)
            if name != "ExternalStream":
                handle = f"mlu_{name.lower()}"
                setattr(kind, f"cuda_{name.lower()}", property(lambda self, h=handle: getattr(self, h)))


class _Cuda(types.ModuleType):
    """``torch.cuda`` with the one fact that changes while a program runs; checkpointing asks it for the generator."""

    @property
    def _initialized(self) -> bool:
        return bool(torch.mlu._initialized)  # type: ignore[attr-defined]

    @_initialized.setter
    def _initialized(self, value: bool) -> None:
        torch.mlu._initialized = value  # type: ignore[attr-defined]


class _Plans:
    """``torch.backends.cuda.cufft_plan_cache`` from the emulated device's, by ordinal or by ``cuda`` device."""

    def __init__(self, plans: Any) -> None:
        self.__dict__["_plans"] = plans

    def __getitem__(self, device: Any) -> Any:
        return self._plans[to_device(device)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_plans"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_plans"], name, value)


def _copy_names(cuda: Any, mlu: Any) -> None:
    if cuda is None or mlu is None:
        return
    for name in dir(mlu):
        if name.startswith("_") and name not in _PRIVATE:
            continue
        value = getattr(mlu, name)
        if isinstance(value, types.ModuleType) or (cuda.__name__.endswith("amp") and isinstance(value, type)):
            continue
        if name.endswith(("Tensor", "Storage")) or hasattr(cuda, name):
            setattr(cuda, name, of_the_device(value) if isinstance(value, types.FunctionType) else _with_devices(value))


def _with_devices(value: Any) -> Any:
    """Classes such as ``torch.cuda.device`` take devices when they are made; they stay classes."""
    if not isinstance(value, type) or value.__name__ not in ("device", "device_of", "Stream"):
        return value
    original = value.__init__ if value.__name__ != "Stream" else value.__new__

    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *map(to_device, args), **{k: to_device(v) for k, v in kwargs.items()})

    if value.__name__ == "Stream":
        value.__new__ = made  # type: ignore[method-assign, assignment]
    else:
        value.__init__ = made  # type: ignore[misc]
    return value


def _graph(mlu_graph: Any) -> Any:
    class graph(mlu_graph):  # type: ignore[misc, valid-type]
        """``torch.cuda.graph``: the first parameter is called ``cuda_graph`` there, and the mode is ``global``."""

        def __init__(
            self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
        ) -> None:
            super().__init__(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode)

    return graph


def _properties(device: Any = None) -> Any:
    found = torch.mlu.get_device_properties(to_device(device) if device is not None else torch.mlu.current_device())  # type: ignore[attr-defined]
    return types.SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=found.total_memory,
        multi_processor_count=found.multi_processor_count,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="sm_80",
    )


def _nvtx() -> types.ModuleType:
    """Ranges that mark nothing."""
    module: Any = types.ModuleType("torch.cuda.nvtx")

    @contextlib.contextmanager
    def range_(message: str, *args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(module, name, lambda *args, **kwargs: 0)
    module.range = range_
    return module  # type: ignore[no-any-return]
