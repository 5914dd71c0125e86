"""
The replacements of ``gpu_migration`` (evidence: torch_mlu/utils/gpu_migration/migration.py; lines beside the
functions).
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

import torch_mlu
from torch_mlu.utils.gpu_migration import _lists
from torch_mlu.utils.gpu_migration._cuda import (
    check_patch_succeeded,
    needs_skip,
    rough_type_comparison,
    substitution_list,
    update_dict,
    warning_wrapper,
)

__all__ = [
    "apply_monkey_patches",
    "check_patch_succeeded",
    "needs_skip",
    "rough_type_comparison",
    "substitution_list",
    "update_dict",
    "warning_wrapper",
]

# For the whole process, and all warnings (migration.py:23).
warnings.filterwarnings(action="once")

class_list = _lists.CLASSES
torch_fn_list = _lists.TORCH
torch_cuda_fn_list = _lists.CUDA
tensor_fn_list = _lists.TENSOR
other_fn_list = _lists.OTHER
distributed_fn_list = ["broadcast_object_list", "init_device_mesh"]
module_fn_list = ["to", "to_empty"]
torch_mlu_memory_fn_list = ["mem_get_info"]
default_cuda_args_list = ["torch.amp.GradScaler.__init__", "torch.random.fork_rng"]

_NAMED = ("device", "device_type", "output_device", "device_id", "map_location")


def exec_only_once(func: Callable[..., Any]) -> Callable[..., Any]:
    """``func`` for its first call; later ones do nothing."""
    done = False

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal done
        if done:
            return None
        done = True
        return func(*args, **kwargs)

    return wrapper


class Generator(torch.Generator):
    """
    A subclass, so that ``isinstance(torch.default_generator, torch.Generator)`` is False afterwards (migration.py:323).
    """

    def __new__(cls, device: Any = None) -> Generator:
        return super().__new__(cls, device=replace_cuda_with_mlu(device or "cpu"))


def replace_cuda_with_mlu(arg: Any) -> Any:
    """
    ``arg`` with cuda in it read as mlu: any string, a device, a number is kept. A dict or a callable is left as it is.

    Every string: "runs/cuda/x.pt" becomes another path (migration.py:361-373).
    """
    if isinstance(arg, str):
        return arg.replace("cuda", "mlu") if "cuda" in arg else arg.replace("CUDA", "MLU")
    if isinstance(arg, torch.device) and arg.type == "cuda":
        return torch.device("mlu") if arg.index is None else torch.device("mlu", arg.index)
    return arg


def replace_device_args(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` called with positional strings and the named device arguments replaced (migration.py:328-356)."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        args = tuple(map(replace_cuda_with_mlu, args))
        for name in _NAMED:
            if kwargs.get(name) is not None:
                kwargs[name] = replace_cuda_with_mlu(kwargs[name])
        devices = kwargs.get("device_ids")
        if isinstance(devices, list):
            # In place: the caller's list changes too.
            devices[:] = map(replace_cuda_with_mlu, devices)
        return fn(*args, **kwargs)

    return wrapper


def replace_device(module: Any, fn_list: list[str]) -> None:
    """Wrap the functions of ``module`` named in ``fn_list``."""
    for name in fn_list:
        fn = getattr(module, name, None)
        if fn is not None:
            setattr(module, name, replace_device_args(fn))


def replace_nccl_with_cncl(fn: Callable[..., Any]) -> Callable[..., Any]:
    """
    Backend names: nccl is cncl, ``cuda:nccl`` is ``mlu:cncl``; NCCL only as a positional string (migration.py:387-410).
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        args = tuple(
            arg.replace("nccl", "cncl").replace("NCCL", "CNCL").replace("cuda", "mlu") if isinstance(arg, str) else arg
            for arg in args
        )
        if isinstance(kwargs.get("backend"), str):
            kwargs["backend"] = kwargs["backend"].replace("nccl", "cncl").replace("cuda", "mlu")
        return fn(*args, **kwargs)

    return wrapper


def replace_profiler_args(fn: Callable[..., Any]) -> Callable[..., Any]:
    """
    ``use_cuda=True`` or ``use_device="cuda"`` as ``use_device="mlu"`` with ``use_kineto=True`` (migration.py:413-438).
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("use_cuda", False) or kwargs.get("use_device") == "cuda":
            kwargs["use_device"] = "mlu"
            kwargs["use_kineto"] = True
        return fn(*args, **kwargs)

    return wrapper


def replace_profiler(module: Any, fn_name: str) -> None:
    setattr(module, fn_name, replace_profiler_args(getattr(module, fn_name)))


def replace_dataloader(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``pin_memory=True`` pins for mlu when it is given by keyword; by position it is missed (migration.py:450-466)."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("pin_memory") and kwargs.get("pin_memory_device", "") in ("", "cuda"):
            kwargs["pin_memory_device"] = "mlu"
        return fn(*args, **kwargs)

    return wrapper


def replace_autocast(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``is_autocast_enabled()`` and ``set_autocast_enabled(x)`` without a device mean mlu (migration.py:480-504)."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        named = bool(args) and isinstance(args[0], str)
        return fn(*map(replace_cuda_with_mlu, args), **kwargs) if named else fn("mlu", *args, **kwargs)

    return wrapper


def replace_default_cuda_args_with_mlu(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A default of "cuda" becomes one of "mlu" (migration.py:507-537)."""
    import inspect

    names = [name for name, parameter in inspect.signature(fn).parameters.items() if parameter.default == "cuda"]

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(fn).bind_partial(*args, **kwargs).arguments
        return fn(*args, **{name: "mlu" for name in names if name not in given}, **kwargs)

    return wrapper


def replace_default_cuda_args(func_name: str) -> None:
    """Apply :func:`replace_default_cuda_args_with_mlu` to a function named by its dotted path."""
    owner, name = _owner(func_name)
    setattr(owner, name, replace_default_cuda_args_with_mlu(getattr(owner, name)))


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """In place of ``torch.jit.script``: warns and returns ``obj`` (migration.py:540-552)."""
    warnings.warn(
        "gpu_migration: torch.jit.script is not supported on MLU, the object is returned as it is.", stacklevel=2
    )
    return obj


old_device_constructors_ = torch.utils._device._device_constructors()


@functools.lru_cache(None)
def original_device_constructors() -> set[Any]:
    """The constructors as they were, and as they are now, for ``torch.set_default_device``."""
    torch.utils._device._device_constructors.cache_clear()
    return old_device_constructors_ | _device_constructors()


_device_constructors = torch.utils._device._device_constructors


@functools.lru_cache(None)
def torch_to_refs_map() -> dict[Any, Any]:
    """torch's map of functions to their references, which has to know the wrapped functions as well."""
    import torch._prims.context as context

    table = dict(_MLUC_replaced()["prims.torch_to_refs_map"]())
    for name in torch_fn_list:
        wrapped = getattr(torch, name, None)
        original = getattr(wrapped, "__wrapped__", None)
        if original in table:
            table[wrapped] = table[original]
    assert context is not None
    return table


def _MLUC_replaced() -> dict[str, Any]:
    return torch_mlu._MLUC._replaced


def _get_available_device_type() -> str | None:
    """ "cuda" when there is a card: what CUDA code expects to hear."""
    return "cuda" if torch.mlu.is_available() else None


def _new_privateuse1_deserialize(obj: Any, location: str) -> Any:
    """Read a storage tagged ``cuda:N`` as one of card N (migration.py:759-772)."""
    if location.startswith("cuda"):
        return torch.serialization._deserialize("privateuse1", obj, location.replace("cuda", "mlu"))
    return None


def _new_privateuse1_tag(obj: Any) -> None:
    return None


def _owner(dotted: str) -> tuple[Any, str]:
    """The object that holds the last name of a dotted path, and that name."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise ImportError(dotted)


def _wrap_classes() -> None:
    for dotted in class_list:
        try:
            owner, name = _owner(dotted)
            cls = getattr(owner, name)
        except (ImportError, AttributeError):
            continue
        cls.__init__ = replace_device_args(cls.__init__)


def _migrate_tensor() -> None:
    torch.Tensor.cuda = torch.Tensor.mlu
    torch.Tensor.is_cuda = torch.Tensor.is_mlu
    torch.nn.Module.cuda = torch.nn.Module.mlu
    torch.TypedStorage.cuda = torch.TypedStorage.mlu
    torch.TypedStorage.is_cuda = torch.TypedStorage.is_mlu
    methods = torch.nn.parameter.UninitializedTensorMixin._allowed_methods
    for position, method in enumerate(methods):
        if getattr(method, "__name__", "") in ("cuda", "to"):
            methods[position] = getattr(torch.Tensor, method.__name__)
    for cls in (torch.UntypedStorage, torch.TypedStorage):
        cls._share_cuda_ = cls._share_mlu_
        cls._new_shared_cuda = cls._new_shared_mlu
    torch.UntypedStorage._release_ipc_counter_cuda = torch.UntypedStorage._release_ipc_counter_mlu
    torch.TypedStorage._release_ipc_counter = torch.TypedStorage._release_ipc_counter_mlu


def _migrate_autocast() -> None:
    torch.get_autocast_gpu_dtype = torch.mlu.get_autocast_dtype
    torch.set_autocast_gpu_dtype = torch.mlu.set_autocast_dtype
    torch.is_autocast_enabled = replace_autocast(torch.is_autocast_enabled)
    torch.set_autocast_enabled = replace_autocast(torch.set_autocast_enabled)


def _migrate_pools() -> None:
    for name in (
        "setCheckpointPoolState",
        "getCheckpointState",
        "checkPoolLiveAllocations",
        "beginAllocateCurrentStreamToPool",
        "endAllocateCurrentStreamToPool",
        "releasePool",
        "getCurrentRawStream",
        "hasPrimaryContext",
    ):
        setattr(torch._C, f"_cuda_{name}", getattr(torch_mlu._MLUC, f"_mlu_{name}"))
    torch._C._cuda_cudaCachingAllocator_raw_delete = torch_mlu._MLUC._mlu_mluCachingAllocator_raw_delete


def _migrate_distributed() -> None:
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    replace_device(dist, distributed_fn_list)
    for module in (c10d, dist):
        module.init_process_group = replace_nccl_with_cncl(module.init_process_group)
        module.new_group = replace_nccl_with_cncl(module.new_group)
        module.is_nccl_available = dist.is_cncl_available
        # Resolved on access, since the class is compiled on first use.
    c10d.BackendConfig.__init__ = replace_nccl_with_cncl(c10d.BackendConfig.__init__)
    get_backend = dist.ProcessGroup._get_backend
    dist.ProcessGroup._get_backend = replace_device_args(get_backend)
    _offer(dist, c10d, ("ProcessGroupNCCL", "ProcessGroupCudaP2P"))
    dist.Backend.default_device_backend_map.pop("cuda", None)


def _offer(dist: Any, c10d: Any, names: tuple[str, ...]) -> None:
    for module in (dist, c10d):
        before = vars(module).get("__getattr__")
        for name in names:
            vars(module).pop(name, None)

        def lazy(name: str, module: Any = module, before: Any = before) -> Any:
            if name in names:
                return torch_mlu._MLUC.ProcessGroupCNCL
            if before is not None:
                return before(name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        module.__getattr__ = lazy


def _migrate_profiler() -> None:
    from torch.profiler import _pattern_matcher

    replace_profiler(torch.autograd.profiler.profile, "__init__")
    replace_profiler(torch.profiler.profile, "__init__")
    torch.profiler.ProfilerActivity.CUDA = torch.profiler.ProfilerActivity.PrivateUse1
    torch.autograd.ProfilerState.CUDA = torch.autograd.ProfilerState.PRIVATEUSE1
    torch.autograd.profiler.emit_nvtx = torch.autograd.profiler.emit_cnpx
    _pattern_matcher.ExtraCUDACopyPattern = _pattern_matcher.ExtraMLUCopyPattern


@exec_only_once
def apply_monkey_patches() -> None:
    """All replacements, once a process (migration.py:775-936)."""
    import torch._prims.context as context

    cuda = torch.cuda
    update_dict(torch.mlu, cuda)
    torch.cuda = torch.mlu
    replace_device(torch.mlu, torch_cuda_fn_list)
    replace_device(torch.mlu, torch_mlu_memory_fn_list)
    _migrate_tensor()
    replace_device(torch, torch_fn_list)
    replace_device(torch.Tensor, tensor_fn_list)
    torch.Tensor.cuda = torch.Tensor.mlu
    replace_device(torch.nn.Module, module_fn_list)
    for dotted in other_fn_list:
        try:
            owner, name = _owner(dotted)
        except (ImportError, AttributeError):
            continue
        replace_device(owner, [name])
    for dotted in default_cuda_args_list:
        replace_default_cuda_args(dotted)
    _wrap_classes()
    torch._ops.OpOverload.__call__ = replace_device_args(torch._ops.OpOverload.__call__)
    torch._ops.OpOverloadPacket.__call__ = replace_device_args(torch._ops.OpOverloadPacket.__call__)
    _migrate_autocast()
    _migrate_pools()
    _migrate_distributed()
    torch.utils.data.DataLoader.__init__ = replace_dataloader(torch.utils.data.DataLoader.__init__)
    _migrate_profiler()
    torch.Generator = Generator
    torch.jit.script = script
    torch.backends.cuda = torch.backends.mlu
    torch.utils._device._device_constructors = original_device_constructors
    _MLUC_replaced()["prims.torch_to_refs_map"] = context.torch_to_refs_map
    context.torch_to_refs_map = torch_to_refs_map
    torch._utils._get_available_device_type = _get_available_device_type
    torch.serialization.register_package(11, _new_privateuse1_tag, _new_privateuse1_deserialize)
