"""
Getting into a program and all its children without changing it.

From torch 2.5 on, torch loads what is registered under the entry point ``torch.backends`` at the end of ``import
torch``. A folder with nothing but the metadata of such an entry point, put on PYTHONPATH, is enough: no sitecustomize
and no .pth file of the user's is shadowed, and programs that never import torch are left alone. Older releases have no
entry point; only there a ``sitecustomize`` is used, which runs the one it hides.

``autoload`` is what torch calls. The environment variable of ``options`` says what to do.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from mlu_backend.parity.options import VARIABLE, Options

HOOKS = Path(__file__).with_name("hook")
_started = False


def environment(options: Options, base: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program, and every Python it starts, is recorded."""
    env = dict(base)
    env[VARIABLE] = options.to_environment()
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
    package = str(Path(__file__).resolve().parents[2])
    hook = str(HOOKS / ("entry" if _has_entry_points() else "site"))
    parts = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p not in (hook, package)]
    env["PYTHONPATH"] = os.pathsep.join([hook, *parts, *([] if _installed() else [package])])
    if options.seed is not None:
        env.setdefault("PYTHONHASHSEED", str(options.seed % 4294967296))
    return env


def _has_entry_points() -> bool:
    try:
        major, minor = version("torch").split(".")[:2]
    except PackageNotFoundError:
        return True
    return (int(major), int(minor)) >= (2, 5)


def _installed() -> bool:
    """Whether any Python of this environment finds mlu_backend by itself; else our folder has to be on the path too."""
    try:
        version("mlu-migrate")
    except PackageNotFoundError:
        return False
    return True


def autoload() -> None:
    """
    Start what the environment asks for. Called by torch at the end of its import, and harmless without the variable.
    """
    global _started
    options = Options.from_environment(os.environ)
    if options is None or _started:
        return
    _started = True
    start(options)


def start(options: Options) -> None:
    """
    Seed, map devices, round if this is a control, patch torch, trace lines: in this order, since each sees
    what the next one patches.
    """
    from mlu_backend.parity import capture, compiled, hooks

    if options.seed is not None:
        seed_everything(options.seed)
    recorder = capture.Recorder(options)
    if options.route == "emulated-cuda":
        from mlu_backend.parity import emulated_cuda

        emulated_cuda.install(options, recorder.sites)
    elif options.eager:
        compiled.run_eagerly()
    if options.control is not None:
        from mlu_backend.parity import rounding

        mode = rounding.install(options.control)
        recorder.at_close.append(
            lambda: recorder.writer.event(k="rounding", products=mode.products, bits=mode.fewest_bits)
        )
    hooks.install(recorder)
    if options.edits:
        from mlu_backend.parity import coverage

        coverage.start(Path(options.edits), Path(options.out), options.root)


def seed_everything(seed: int) -> None:
    """A known start for programs that do not seed themselves."""
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 4294967296)
    if "torch_mlu" in sys.modules:
        torch.mlu.manual_seed_all(seed)  # type: ignore[attr-defined]
    else:
        sys.meta_path.insert(0, _SeedTheDevice(seed))


class _SeedTheDevice(importlib.abc.MetaPathFinder):
    """
    The device joins torch with ``import torch_mlu``, after us, and its generators start from a seed of chance as those
    of a GPU do. It is seeded at the end of that import, before the program can draw from it.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._looking = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Asked for torch_mlu: what the other finders find, with the seed set after it has run."""
        if fullname != "torch_mlu" or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            import torch

            execute(module)
            torch.mlu.manual_seed_all(self._seed)  # type: ignore[attr-defined]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
