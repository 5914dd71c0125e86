"""
The function mode that maps devices in every call into torch, and the places where it has to be switched on again.
"""

from __future__ import annotations

import _thread
import functools
import re
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from mlu_backend.parity.emulated_cuda.devices import note, sees_the_device, to_cuda, to_device

_ORDINARY = (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
TYPE_TEXT = re.compile(r"torch\.cuda\.(\w+Tensor)\Z")


class CudaMode(TorchFunctionMode):
    """Maps devices in every call into torch."""

    def __init__(self) -> None:
        super().__init__()
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
        note(value, getattr(func, "__name__", "torch"))
        return to_device(value)

    def _device(self, func: Any, tensor: torch.Tensor) -> torch.device:
        found = func(tensor)
        return found if found.type != "mlu" or sees_the_device(2) else to_cuda(found)  # type: ignore[no-any-return]

    def _is_cuda(self, func: Any, tensor: torch.Tensor) -> bool:
        return bool(torch.Tensor.device.__get__(tensor).type == "mlu") and not sees_the_device(2)  # type: ignore[attr-defined]

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
            dtype = TYPE_TEXT.sub(r"torch.mlu.\1", dtype)
        return func(tensor, dtype, *args, **kwargs)

    def _make_device(self, func: Any, *args: Any, **kwargs: Any) -> torch.device:
        given = args[0] if args else kwargs.get("type")
        note(given, "device")
        made = func(*args, **kwargs)
        return to_cuda(made) if isinstance(given, int) and not sees_the_device(2) else made  # type: ignore[no-any-return]


def keep_in_backward(mode: CudaMode) -> None:
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
    _fused_layers(mode)


def _fused_layers(mode: CudaMode) -> None:
    """Attention and encoder layers take their slow road where a function mode is on, ours or the program's."""
    original = torch.overrides.has_torch_function

    @functools.wraps(original)
    def has_torch_function(relevant_args: Any) -> bool:
        if not original(relevant_args):
            return False
        if any(other is not mode for other in torch.overrides._get_current_function_mode_stack()):
            return True
        return any(getattr(type(arg), "__torch_function__", _ORDINARY[0]) not in _ORDINARY for arg in relevant_args)

    torch.overrides.has_torch_function = has_torch_function
    torch.jit._builtins._register_builtin(has_torch_function, "aten::has_torch_function")


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


def keep_in_threads(mode: CudaMode) -> None:
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

    direct = _thread.start_new_thread

    def start_new_thread(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any = None) -> int:
        def with_mode(*given: Any, **named: Any) -> Any:
            with mode:
                return function(*given, **named)

        return direct(with_mode, args, kwargs or {})

    _thread.start_new_thread = start_new_thread  # threading took its own reference to the original
