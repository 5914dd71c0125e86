"""
The default reference: the original GPU program, unchanged, on the emulated device.

Only devices are mapped, at run time and by meaning: a function mode sees every call into torch, turns ``cuda`` devices
among its arguments into the emulated one, and turns devices among its results back, so the program goes on believing
in ``cuda:0``. ``torch.cuda`` answers from ``torch.mlu``. Nothing here shares a table or a rule with the rewriter: it
is a second reading of the code, and where the two readings disagree, one of them is wrong.

The emulated GPU calls itself compute capability 8.0, CUDA 12.4 and NCCL 2.21.5, so that gates in the program open as
they do on the machines such programs are written for.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mlu_backend.parity.capture import as_compiled
from mlu_backend.parity.naming import Sites
from mlu_backend.parity.options import Options

CAPABILITY = (8, 0)
CUDA_VERSION = "12.4"
NCCL_VERSION = (2, 21, 5)
NAME = "Emulated GPU (compute capability 8.0)"
_DEVICE_TEXT = re.compile(r"cuda(:\d+)?\Z")
_TYPE_TEXT = re.compile(r"torch\.cuda\.(\w+Tensor)\Z")


def to_device(value: Any) -> Any:
    """``cuda`` devices and their exact spellings as the emulated device; anything else as it is."""
    if isinstance(value, torch.device):
        if value.type == "cuda":
            return torch.device("mlu", value.index) if value.index is not None else torch.device("mlu")
        return value
    if isinstance(value, str) and _DEVICE_TEXT.match(value):
        return "mlu" + value[4:]
    return value


def to_cuda(value: Any) -> Any:
    """The emulated device as the ``cuda`` device the program believes in."""
    if isinstance(value, torch.device) and value.type == "mlu":
        return torch.device("cuda", value.index) if value.index is not None else torch.device("cuda")
    return value


class Sinks:
    """
    Device strings that reached torch, with the line that handed them over; one JSON line each, written when first
    seen.
    """

    def __init__(self, folder: str, sites: Sites) -> None:
        self._path = os.path.join(folder, "sinks.jsonl")
        self._sites = sites
        self._seen: set[tuple[Any, ...]] = set()

    def note(self, text: str, function: str) -> None:
        """A string was used as a device."""
        here = self._sites.here(3)
        if here is None or (here, text) in self._seen:
            return
        self._seen.add((here, text))
        line = (
            json.dumps({"file": here[0], "line": here[1], "function": here[2], "text": text, "sink": function}) + "\n"
        )
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(line)


class CudaMode(TorchFunctionMode):
    """Maps devices in every call into torch."""

    def __init__(self, sinks: Sinks | None = None) -> None:
        super().__init__()
        self.sinks = sinks
        self._special: dict[Any, Callable[..., Any]] = {
            torch.Tensor.device.__get__: self._device,  # type: ignore[attr-defined]
            torch.Tensor.is_cuda.__get__: self._is_cuda,  # type: ignore[attr-defined]
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.type: self._type,
            torch.device: self._make_device,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            special = self._special.get(func)
        except TypeError:  # an unhashable callable
            special = None
        if special is not None:
            return special(func, *args, **kwargs)
        mapped = [self._map(func, a) if isinstance(a, (torch.device, str)) else a for a in args]
        if kwargs:
            kwargs = {k: self._map(func, v) if isinstance(v, (torch.device, str)) else v for k, v in kwargs.items()}
        result = func(*mapped, **kwargs)
        return to_cuda(result) if isinstance(result, torch.device) else result

    def _map(self, func: Any, value: Any) -> Any:
        if isinstance(value, str) and self.sinks is not None and _DEVICE_TEXT.match(value):
            self.sinks.note(value, getattr(func, "__name__", "torch"))
        return to_device(value)

    def _device(self, func: Any, tensor: torch.Tensor) -> torch.device:
        found = func(tensor)
        return found if found.type != "mlu" or _asked_by_the_device() else to_cuda(found)  # type: ignore[no-any-return]

    def _is_cuda(self, func: Any, tensor: torch.Tensor) -> bool:
        return bool(torch.Tensor.device.__get__(tensor).type == "mlu")  # type: ignore[attr-defined]

    def _cuda(
        self, func: Any, tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any
    ) -> Any:
        where = to_device(device)
        if isinstance(where, torch.device) and where.type != "mlu":
            raise RuntimeError(f"Invalid device, must be cuda device, but got {where}")
        if where is None and torch.Tensor.device.__get__(tensor).type == "mlu":  # type: ignore[attr-defined]
            return tensor.to(tensor.device, non_blocking=non_blocking, **kwargs)
        return tensor.to("mlu" if where is None else where, non_blocking=non_blocking, **kwargs)

    def _type(self, func: Any, tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            return func(tensor).replace("torch.mlu.", "torch.cuda.")
        if isinstance(dtype, str):
            dtype = _TYPE_TEXT.sub(r"torch.mlu.\1", dtype)
        return func(tensor, dtype, *args, **kwargs)

    def _make_device(self, func: Any, *args: Any, **kwargs: Any) -> torch.device:
        given = args[0] if args else kwargs.get("type")
        if isinstance(given, str) and self.sinks is not None and _DEVICE_TEXT.match(given):
            self.sinks.note(given, "device")
        made = func(*args, **kwargs)
        return to_cuda(made) if isinstance(given, int) and not _asked_by_the_device() else made  # type: ignore[no-any-return]


def _asked_by_the_device() -> bool:
    """Whether the code that asks is the emulated device's own Python part, which must see what is really there."""
    name = sys._getframe(3).f_globals.get("__name__", "")
    return name.startswith(("torch_mlu", "torch.mlu", "mlu_backend.mlu"))


_mode: CudaMode | None = None


def install(options: Options, sites: Sites) -> None:
    """
    Put the emulated device behind ``cuda`` in this process and its threads. Call once, right after torch was
    imported.
    """
    global _mode
    import torch_mlu  # noqa: F401  (starts the device)

    os.makedirs(options.out, exist_ok=True)
    _mode = CudaMode(Sinks(options.out, sites))
    _functions()
    _torch_cuda()
    _distributed()
    _storages()
    _mode.__enter__()
    _backward(_mode)
    _threads(_mode)


def _backward(mode: CudaMode) -> None:
    """
    ``Tensor.backward`` is a call into torch itself, inside which the mode is off; what the program's own code does
    during a backward pass (hooks, custom functions, recomputation) has to see ``cuda`` again.
    """
    from torch.autograd import graph

    original = graph._engine_run_backward

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        if mode in torch.overrides._get_current_function_mode_stack():
            return original(*args, **kwargs)
        with mode:
            return original(*args, **kwargs)

    graph._engine_run_backward = run
    torch.autograd._engine_run_backward = run  # type: ignore[attr-defined]
    _checkpoint()


def _checkpoint() -> None:
    """Its check of recomputed tensors asks once inside the mode and once outside; both have to get one answer."""
    from torch.utils import checkpoint

    checks = getattr(checkpoint, "_allowed_determinism_checks_to_fns", None)
    if checks is None:
        return
    for name, extract in list(checks.items()):

        def outside(tensor: torch.Tensor, extract: Callable[..., Any] = extract) -> Any:
            with torch._C.DisableTorchFunction():
                return extract(tensor)

        checks[name] = outside


def _threads(mode: CudaMode) -> None:
    """Function modes belong to a thread; new threads start without."""
    original = threading.Thread.run

    def run(self: threading.Thread) -> None:
        if mode in torch.overrides._get_current_function_mode_stack():
            return original(self)
        with mode:
            return original(self)

    start = threading.Thread.start

    def started(self: threading.Thread) -> None:
        own = type(self).run
        if own is not run and "run" not in vars(self):  # a subclass with a run() of its own

            def with_mode() -> None:
                with mode:
                    own(self)

            self.run = with_mode  # type: ignore[method-assign]
        start(self)

    threading.Thread.run = run  # type: ignore[method-assign]
    threading.Thread.start = started  # type: ignore[method-assign]


def _mapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function whose device arguments are mapped, and its result back."""

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, str) and _mode is not None and _mode.sinks is not None and _DEVICE_TEXT.match(value):
                _mode.sinks.note(value, function.__name__)
        return to_cuda(function(*map(to_device, args), **{k: to_device(v) for k, v in kwargs.items()}))

    return mapped


def _of_the_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    A function of ``torch.mlu`` under its name in ``torch.cuda``: called with mapped devices, outside the function
    mode.
    """

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return to_cuda(function(*map(to_device, args), **{k: to_device(v) for k, v in kwargs.items()}))

    return mapped


def _functions() -> None:
    """Functions of torch that take a device and are not seen by function modes."""
    for name in (
        "set_default_device",
        "get_default_device",
        "is_autocast_enabled",
        "set_autocast_enabled",
        "get_autocast_dtype",
        "set_autocast_dtype",
        "is_autocast_available",
        "get_device_module",
    ):
        if hasattr(torch, name):
            setattr(torch, name, _mapping(getattr(torch, name)))
    _gpu_autocast()
    autocast = torch.amp.autocast_mode.autocast
    autocast.__init__ = _mapping(autocast.__init__)  # type: ignore[method-assign]
    torch.amp.autocast_mode.is_autocast_available = _mapping(torch.amp.autocast_mode.is_autocast_available)
    torch.amp.is_autocast_available = torch.amp.autocast_mode.is_autocast_available
    _generator()
    _default_tensor_type()
    _compile()
    torch.version.cuda = CUDA_VERSION  # type: ignore[assignment]


def _gpu_autocast() -> None:
    """Old names that mean the GPU without saying so."""
    enabled, set_enabled = torch.is_autocast_enabled, torch.set_autocast_enabled
    torch.is_autocast_enabled = lambda device_type="mlu": enabled(device_type)
    torch.set_autocast_enabled = lambda *a: set_enabled(*a) if len(a) > 1 else set_enabled("mlu", *a)
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("mlu")
    torch.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype("mlu", dtype)


def _generator() -> None:
    real = torch.Generator

    class _Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

    class Generator(metaclass=_Meta):
        """``torch.Generator``, made on the emulated device where ``cuda`` is asked for."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return real(device=to_device(device))

    torch.Generator = Generator  # type: ignore[misc, assignment]


def _compile() -> None:
    """
    Compiled code runs eagerly here: dynamo looks past function modes, so it would trace a program that asks for
    ``cuda`` with tensors that are not. The wrappers it would have made are made, and the recorder treats their inside
    as compiled.
    """
    original = torch.compile

    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda found: compile(found, **options)
        if not isinstance(model, torch.nn.Module):
            return as_compiled(model)
        made = original(model, backend="eager")
        made.forward = model.__call__
        return made

    def compile_in_place(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        self._compiled_call_impl = self._call_impl  # type: ignore[assignment]

    torch.compile = compile  # type: ignore[assignment]
    torch.nn.Module.compile = compile_in_place  # type: ignore[method-assign]


def _default_tensor_type() -> None:
    original = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        match = _TYPE_TEXT.match(kind) if isinstance(kind, str) else None
        if match is None and getattr(kind, "__module__", "") not in ("torch.cuda", "torch.mlu"):
            return original(kind)
        name = match.group(1) if match else kind.__name__
        dtype = {
            "FloatTensor": torch.float32,
            "DoubleTensor": torch.float64,
            "HalfTensor": torch.float16,
            "BFloat16Tensor": torch.bfloat16,
        }[name]
        torch.set_default_dtype(dtype)
        torch.set_default_device("mlu")

    torch.set_default_tensor_type = set_default_tensor_type


def _torch_cuda() -> None:
    """``torch.cuda`` from ``torch.mlu``: every public name both have, and those only CUDA has that programs ask for."""
    cuda, mlu = torch.cuda, torch.mlu  # type: ignore[attr-defined]
    _copy_names(cuda, mlu)
    for name in ("amp", "memory", "random", "streams", "graphs"):
        _copy_names(sys.modules.get(f"torch.cuda.{name}"), getattr(mlu, name, None))
    renamed = {"CUDAGraph": "MLUGraph", "CUDAPluggableAllocator": "MLUPluggableAllocator"}
    for ours, theirs in renamed.items():
        if hasattr(mlu, theirs):
            setattr(cuda, ours, getattr(mlu, theirs))
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
        if name.startswith("_") and name not in ("_lazy_init", "_get_device_index", "_sleep"):
            continue
        value = getattr(mlu, name)
        if isinstance(value, types.ModuleType) or (cuda.__name__.endswith("amp") and isinstance(value, type)):
            continue
        if name.endswith(("Tensor", "Storage")) or hasattr(cuda, name):
            setattr(
                cuda, name, _of_the_device(value) if isinstance(value, types.FunctionType) else _with_devices(value)
            )


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
    import contextlib

    module = types.ModuleType("torch.cuda.nvtx")

    @contextlib.contextmanager
    def range_(message: str, *args: Any, **kwargs: Any) -> Any:
        yield

    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(module, name, lambda *args, **kwargs: 0)
    module.range = range_  # type: ignore[attr-defined]
    return module


def _distributed() -> None:
    """``nccl`` is the emulated device's own backend; the program goes on calling it nccl."""
    dist = torch.distributed
    if not dist.is_available():
        return
    core = dist.distributed_c10d

    def backend(value: Any) -> Any:
        return value.replace("nccl", "cncl").replace("cuda:", "mlu:") if isinstance(value, str) else value

    def with_backend(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def mapped(*args: Any, **kwargs: Any) -> Any:
            if args and function.__name__ == "init_process_group":
                args = (backend(args[0]), *args[1:])
            for name in ("backend", "device_id"):
                if name in kwargs:
                    kwargs[name] = to_device(backend(kwargs[name]))
            return function(*args, **kwargs)

        return mapped

    for name in ("init_process_group", "new_group"):
        _both(dist, core, name, with_backend(getattr(core, name)))
    get_backend = core.get_backend
    _both(dist, core, "get_backend", lambda *a, **k: str(get_backend(*a, **k)).replace("cncl", "nccl"))
    _both(dist, core, "is_nccl_available", lambda: True)
    if hasattr(core, "broadcast_object_list"):
        for name in ("broadcast_object_list", "send_object_list", "recv_object_list"):
            if hasattr(core, name):
                _both(dist, core, name, _mapping(getattr(core, name)))
    mesh = sys.modules.get("torch.distributed.device_mesh")
    if mesh is not None:
        mesh.init_device_mesh = _mapping(mesh.init_device_mesh)  # type: ignore[attr-defined]
        mesh.DeviceMesh.__init__ = _mapping(mesh.DeviceMesh.__init__)  # type: ignore[attr-defined]
        if hasattr(dist, "init_device_mesh"):
            dist.init_device_mesh = mesh.init_device_mesh  # type: ignore[attr-defined]


def _both(package: Any, core: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(core, name, function)
    if hasattr(package, name):
        setattr(package, name, function)


def _storages() -> None:
    """Files are written with ``cuda:N`` tags and read back onto the emulated device, as on a GPU machine."""

    def tag(storage: Any) -> str | None:
        device = storage.device
        return f"cuda:{device.index or 0}" if device.type in ("mlu", "cuda") else None

    def restore(storage: Any, location: str) -> Any:
        if not location.startswith("cuda"):
            return None
        with torch._C.DisableTorchFunction():
            return torch.serialization.default_restore_location(storage, "mlu" + location[4:])

    torch.serialization.register_package(1, tag, restore)
