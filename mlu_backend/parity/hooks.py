"""
The patches that tell the recorder what the program does. Installed once, right after torch is imported, before any
line of the program can have taken a name out of torch.

``Module.__call__`` is wrapped rather than given global hooks: dynamo inlines hooks into what it compiles, while it
calls ``forward`` past an unmodified ``__call__`` (ours is made the one it compares with), so compiled programs stay
compiled.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from mlu_backend.parity import collectives
from mlu_backend.parity.capture import Recorder
from mlu_backend.parity.compiled import as_compiled
from mlu_backend.parity.operators import OperatorMode, UntilModules

_GRAPHS = ("torch.cuda.graphs", "torch.mlu.", "torch_mlu.mlu.", "mlu_backend.mlu.")
"""Code that warms callables up with gradients of uninitialised memory before it captures them: nothing to compare."""

inside = threading.local()


def install(recorder: Recorder) -> None:
    """Patch torch in this process. Call once."""
    _modules(recorder)
    _backward(recorder)
    _optimizers(recorder)
    _scaler(recorder)
    _seeds(recorder)
    _loaders(recorder)
    _files(recorder)
    collectives.install(recorder)
    _compiled_functions(recorder)
    _exits(recorder)
    if recorder.options.level == "module" and recorder.options.focus is None:
        _operators_until_modules(recorder)
    elif recorder.options.level == "op":
        OperatorMode(recorder).__enter__()


def _modules(recorder: Recorder) -> None:
    original = torch.nn.Module.__call__
    called = recorder.named if recorder.options.level == "step" else recorder.call

    @functools.wraps(original)
    def recorded(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not recorder.ready():
            return original(module, *args, **kwargs)
        return called(original, module, args, kwargs)

    torch.nn.Module.__call__ = recorded  # type: ignore[method-assign, assignment]
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        loaded = sys.modules.get(name)
        if loaded is not None and hasattr(loaded, "unpatched_nn_module_call"):
            loaded.unpatched_nn_module_call = recorded


def _operators_until_modules(recorder: Recorder) -> None:
    until = UntilModules(recorder)
    original = torch.nn.Module.register_parameter

    @functools.wraps(original)
    def register(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        if until.active:
            until.stop()
        original(module, name, param)

    torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
    recorder.found_modules = until.stop  # for models that were built before we came
    until.__enter__()


def _backward(recorder: Recorder) -> None:
    original, original_grad = torch.autograd.backward, torch.autograd.grad

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        task = torch._C._current_graph_task_id()
        before = getattr(inside, "backward", None)
        if before == task or not recorder.ready():  # function modes come back to us by the public name
            return original(tensors, *args, **kwargs)
        recorder.backward([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
        inside.backward = task  # a pass started inside this one has another task
        try:
            focus = recorder.options.focus
            if focus is not None and focus.backward and focus.step == recorder.step:
                with OperatorMode(recorder, keep=True, backward=True):
                    return original(tensors, *args, **kwargs)
            return original(tensors, *args, **kwargs)
        finally:
            inside.backward = before

    @functools.wraps(original_grad)
    def grad(*args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "grad", False):
            return original_grad(*args, **kwargs)
        warming_up = sys._getframe(1).f_globals.get("__name__", "").startswith(_GRAPHS)
        inside.grad = True  # function modes come back to us by the public name
        recorder.paused = warming_up
        try:
            result = original_grad(*args, **kwargs)
        finally:
            inside.grad = recorder.paused = False
        if not warming_up and recorder.ready() and torch._C._current_graph_task_id() == -1:
            recorder.gradients(result)
        return result

    torch.autograd.backward = backward
    torch.autograd.grad = grad


def _optimizers(recorder: Recorder) -> None:
    from torch.optim import optimizer as module

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if recorder.ready():
            recorder.before_step(optimizer)

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if recorder.ready() and recorder.after_step(optimizer):
            recorder.close("steps")
            recorder.stopped = True
            raise SystemExit(0)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def _scaler(recorder: Recorder) -> None:
    for scaler in _scaler_classes():
        _patch_scaler(recorder, scaler)


def _scaler_classes() -> list[type]:
    found: list[type] = []
    for module, name in (("torch.amp.grad_scaler", "GradScaler"), ("torch.cuda.amp.grad_scaler", "GradScaler")):
        loaded = sys.modules.get(module)
        kind = getattr(loaded, name, None)
        if kind is not None and not any(issubclass(kind, other) for other in found):
            found.append(kind)
    return found


def _patch_scaler(recorder: Recorder, scaler: type) -> None:
    made, scale, update = scaler.__init__, scaler.scale, scaler.update  # type: ignore[attr-defined, misc]

    @functools.wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if recorder.ready():
            enabled = bool(self.is_enabled())
            recorder.scaler("made", enabled=enabled, scale=float(self._init_scale) if enabled else None)

    @functools.wraps(scale)
    def scaled(self: Any, outputs: Any) -> Any:
        result = scale(self, outputs)
        if isinstance(outputs, torch.Tensor) and isinstance(result, torch.Tensor) and recorder.ready():
            recorder.scaled(outputs, result)
        return result

    @functools.wraps(update)
    def updated(self: Any, *args: Any, **kwargs: Any) -> None:
        update(self, *args, **kwargs)
        if recorder.ready() and self.is_enabled():
            recorder.scaler("update", scale=float(self.get_scale()))

    scaler.__init__, scaler.scale, scaler.update = init, scaled, updated  # type: ignore[attr-defined, misc]


def _compiled_functions(recorder: Recorder) -> None:
    """What a compiled function does inside is not recorded; modules are recognised by themselves."""
    original, in_place = torch.compile, torch.nn.Module.compile

    @functools.wraps(in_place)
    def compile_in_place(self: torch.nn.Module, *args: Any, **options: Any) -> None:
        if recorder.ready():
            recorder.note("compiled", eager=recorder.options.eager)
        in_place(self, *args, **options)

    torch.nn.Module.compile = compile_in_place  # type: ignore[method-assign]

    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda found: compile(found, **options)
        if recorder.ready():
            recorder.note("compiled", eager=recorder.options.eager)
        made = original(model, **options)
        return made if isinstance(made, torch.nn.Module) else as_compiled(made)

    torch.compile = compile


def _exits(recorder: Recorder) -> None:
    """``os._exit`` and ``os.exec...`` run nothing that was registered for the end."""
    original = os._exit
    for name in ("execv", "execve"):  # all the others end in these two
        setattr(os, name, _replacing(recorder, getattr(os, name)))

    @functools.wraps(original)
    def _exit(status: int) -> NoReturn:
        try:
            recorder.close("os._exit")
        finally:
            original(status)

    os._exit = _exit


def _replacing(recorder: Recorder, original: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    @functools.wraps(original)
    def exec(*args: Any, **kwargs: Any) -> NoReturn:
        recorder.replaced()
        return original(*args, **kwargs)

    return exec


def _seeds(recorder: Recorder) -> None:
    seed = torch.manual_seed

    @functools.wraps(seed)
    def manual_seed(value: Any) -> Any:
        if recorder.ready():
            recorder.seed("torch.manual_seed", int(value))
        return seed(value)

    torch.manual_seed = manual_seed
    torch.random.manual_seed = manual_seed
    _wrap_seed(recorder, random, "seed", "random.seed")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _wrap_seed(recorder, numpy.random, "seed", "numpy.random.seed")


def _wrap_seed(recorder: Recorder, owner: Any, name: str, label: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        if recorder.ready():
            value = args[0] if args else next(iter(kwargs.values()), None)
            recorder.seed(label, value if isinstance(value, (int, str, type(None))) else repr(value))
        return original(*args, **kwargs)

    setattr(owner, name, seed)


def _loaders(recorder: Recorder) -> None:
    from torch.utils.data import DataLoader

    original = DataLoader.__init__

    @functools.wraps(original)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if recorder.ready():
            recorder.note(
                "loader",
                batch_size=self.batch_size,
                sampler=type(self.sampler).__name__,
                drop_last=bool(self.drop_last),
                workers=self.num_workers,
                length=_length(self.dataset),
            )

    DataLoader.__init__ = made  # type: ignore[method-assign]


def _files(recorder: Recorder) -> None:
    original = torch.save

    @functools.wraps(original)
    def save(obj: Any, *args: Any, **kwargs: Any) -> None:
        if recorder.ready():
            recorder.saved(obj)
        original(obj, *args, **kwargs)

    torch.save = save


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None
