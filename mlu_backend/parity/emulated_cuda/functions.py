"""
Functions of torch that take or answer a device and are not seen by function modes.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from mlu_backend.parity.compiled import run_eagerly
from mlu_backend.parity.emulated_cuda.devices import DEVICE_TEXT, is_library, mapping, to_device
from mlu_backend.parity.emulated_cuda.mode import TYPE_TEXT

CUDA_VERSION = "12.4"


def install() -> None:
    """Functions of torch that take a device and are not seen by function modes."""
    for name in (
        "set_default_device",
        "get_default_device",
        "is_autocast_enabled",
        "set_autocast_enabled",
        "get_autocast_dtype",
        "set_autocast_dtype",
        "is_autocast_available",
    ):
        if hasattr(torch, name):
            setattr(torch, name, mapping(getattr(torch, name)))
    _gpu_autocast()
    autocast = torch.amp.autocast_mode.autocast
    autocast.__init__ = mapping(autocast.__init__)  # type: ignore[method-assign]
    torch.amp.autocast_mode.is_autocast_available = mapping(torch.amp.autocast_mode.is_autocast_available)
    torch.amp.is_autocast_available = torch.amp.autocast_mode.is_autocast_available
    _default_tensor_type()
    run_eagerly()  # dynamo looks past function modes, so it would trace with tensors that are not on ``cuda``
    _script()
    _modules_of_devices()
    _accelerator()
    torch.version.cuda = CUDA_VERSION  # type: ignore[assignment]


def _gpu_autocast() -> None:
    """Old names that mean the GPU without saying so."""
    enabled, set_enabled = torch.is_autocast_enabled, torch.set_autocast_enabled

    @functools.wraps(enabled)
    def is_autocast_enabled(device_type: str = "mlu") -> bool:
        return bool(enabled(device_type))

    torch.is_autocast_enabled = is_autocast_enabled
    torch.set_autocast_enabled = lambda *a: set_enabled(*a) if len(a) > 1 else set_enabled("mlu", *a)
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("mlu")
    torch.set_autocast_gpu_dtype = lambda dtype: torch.set_autocast_dtype("mlu", dtype)


def _default_tensor_type() -> None:
    original = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        match = TYPE_TEXT.match(kind) if isinstance(kind, str) else None
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


def _script() -> None:
    """A scripted function that names ``cuda`` runs unscripted: no function mode is asked inside TorchScript."""
    original = torch.jit.script

    @functools.wraps(original)
    def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, types.FunctionType) and _names_cuda(obj.__code__):
            return obj
        return original(obj, *args, **kwargs)

    torch.jit.script = script
    torch.jit.load = mapping(torch.jit.load)
    torch.jit._builtins._register_builtin(torch.is_autocast_enabled, "aten::is_autocast_enabled")


def _names_cuda(code: types.CodeType) -> bool:
    return any(
        bool(DEVICE_TEXT.match(c)) if isinstance(c, str) else isinstance(c, types.CodeType) and _names_cuda(c)
        for c in code.co_consts
    )


def _modules_of_devices() -> None:
    """``torch.get_device_module``: the program gets ``torch.cuda`` for it."""
    original = torch.get_device_module

    @functools.wraps(original)
    def get_device_module(device: Any = None) -> Any:
        found = original(to_device(device))
        return torch.cuda if found is torch.mlu and not is_library(1) else found  # type: ignore[attr-defined]

    torch.get_device_module = get_device_module


def _accelerator() -> None:
    """``torch.accelerator`` names the device ``cuda`` to the program, and itself to torch's own code."""
    package = getattr(torch, "accelerator", None)
    if package is None:
        return
    for name in package.__all__:
        value = getattr(package, name)
        if isinstance(value, types.FunctionType) and name != "current_accelerator":
            setattr(package, name, mapping(value))
    original = package.current_accelerator

    @functools.wraps(original)
    def current_accelerator(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        return torch.device("cuda") if found is not None and found.type == "mlu" and not is_library(1) else found

    package.current_accelerator = current_accelerator
