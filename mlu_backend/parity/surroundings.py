"""What surrounds a recorded process: random generators, autocast, captures; and what an optimizer was told."""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
from typing import Any

import torch

DTYPE = {d: str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}
_IGNORED_HYPERPARAMETERS = {"params", "foreach", "fused", "capturable", "differentiable"}


def random_states() -> dict[str, str]:
    """A fingerprint of each random generator's state; of a device's only where one is in use."""
    states = {
        "cpu": digest(torch.get_rng_state().numpy().tobytes()),
        "python": digest(repr(random.getstate()).encode()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state(legacy=True)
        states["numpy"] = digest(state[1].tobytes() + str(state[2:]).encode())
    for name in ("mlu", "cuda"):
        device = getattr(torch, name, None)
        try:
            if device is not None and device.is_available() and device.is_initialized():
                states["device"] = digest(device.get_rng_state().cpu().numpy().tobytes())
                break
        except (RuntimeError, AttributeError, AssertionError):
            continue
    return states


def in_worker() -> bool:
    """
    Whether this process only loads data. Asked of the process object, since workers seed before they say what they
    are.
    """
    process = sys.modules.get("multiprocessing.process")
    target = getattr(process.current_process(), "_target", None) if process is not None else None
    return getattr(target, "__module__", None) == "torch.utils.data._utils.worker"


def identity() -> list[int]:
    """Which child of which process this is, as ``multiprocessing`` counts them; empty for one it did not start."""
    process = sys.modules.get("multiprocessing.process")
    return list(getattr(process.current_process(), "_identity", ())) if process is not None else []


def compiling() -> bool:
    """Whether dynamo is tracing us."""
    compiler = getattr(torch, "compiler", None)
    return bool(compiler is not None and compiler.is_compiling())


def capturing() -> bool:
    """Inside a graph capture our own kernels would be captured too."""
    for name in ("mlu", "cuda"):
        device = getattr(torch, name, None)
        asked = getattr(device, "is_current_stream_capturing", None)
        if asked is None or not getattr(device, "is_initialized", lambda: False)():
            continue
        try:
            if asked():
                return True
        except (RuntimeError, AttributeError):
            continue
    return False


def no_dispatch_modes() -> contextlib.AbstractContextManager[Any]:
    """Dispatch modes switched off, the program's own too."""
    if torch._C._len_torch_dispatch_stack() == 0:
        return contextlib.nullcontext()
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def device_type(tensor: torch.Tensor) -> str:
    """The device type, of tensors too that have none."""
    try:
        return tensor.device.type
    except RuntimeError:
        return "unknown"


def autocast_state() -> str | None:
    """The dtype autocast computes in on the device that has it enabled, None without."""
    any_enabled = getattr(torch._C, "_is_any_autocast_enabled", None)
    if any_enabled is not None and not any_enabled():
        return None
    for device in ("mlu", "cuda", "cpu"):
        try:
            if torch.is_autocast_enabled(device):
                dtype = torch.get_autocast_dtype(device)
                return f"{'cpu' if device == 'cpu' else 'device'}:{DTYPE.get(dtype, str(dtype))}"
        except RuntimeError:
            continue
        except TypeError:  # torch before 2.4 knows only the GPU's
            if device == "cuda" and torch.is_autocast_enabled():
                return f"device:{DTYPE[torch.get_autocast_gpu_dtype()]}"
    return None


def described(module: torch.nn.Module) -> str:
    """A module's options in its own words; a program may have written them with a fault."""
    try:
        return str(module.extra_repr())[:200]
    except Exception:
        return ""


def address(tensor: torch.Tensor) -> int:
    """Where its elements lie: ``.data = ...`` puts others there, also of another device, without a new version."""
    try:
        return tensor.data_ptr()
    except (RuntimeError, NotImplementedError):  # tensors that hold others have no storage of their own
        return 0


def shape_of(tensor: torch.Tensor) -> torch.Size:
    """The shape of a tensor; of a nested one without a shape the number of rows, and -1 for what differs by row."""
    try:
        return tensor.shape
    except RuntimeError:
        return torch.Size([tensor.size(0), *[-1] * (tensor.dim() - 1)])


def as_length(length: Any) -> int:
    """A length of a shape as a number; -1 for one that differs from row to row."""
    try:
        return int(length)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return -1


def digest(data: bytes) -> str:
    """A short fingerprint."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def as_number(value: Any) -> float | None:
    """A learning rate as a number; schedules may keep it in a tensor."""
    if isinstance(value, torch.Tensor):
        return float(value.detach().cpu())
    return float(value) if isinstance(value, (int, float)) else None


def hyperparameters(group: dict[str, Any]) -> dict[str, Any]:
    """What a parameter group was told, without the learning rate, which schedules change."""
    found: dict[str, Any] = {"count": len(group["params"])}
    for name, value in sorted(group.items()):
        if name in _IGNORED_HYPERPARAMETERS or name in ("lr", "initial_lr"):
            continue
        if isinstance(value, torch.Tensor):
            value = float(value.detach().cpu())
        if isinstance(value, (int, float, str, bool, type(None))):
            found[name] = value
        elif isinstance(value, (tuple, list)) and all(isinstance(v, (int, float)) for v in value):
            found[name] = list(value)
    return found
