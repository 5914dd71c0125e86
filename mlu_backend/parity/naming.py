"""
Names that are the same in both runs: module paths, parameter names, and the place in the user's code that made a call.

A module that is called from outside any other is a root and is named after its class (``Net``, the second one
``Net#2``); its children get their path below it (``Net.layers.0.attn``). Order of first call decides, and that is
equal in two runs of one program. A module shared by two parents keeps the first name it got.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import weakref
from pathlib import Path
from types import CodeType, FrameType

import torch

_OURS = str(Path(__file__).resolve().parent)
_LIBRARIES = tuple(
    os.path.realpath(p) + os.sep
    for p in {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        str(Path(torch.__file__).parent),
    }
    if p
) + (_OURS + os.sep, str(Path(_OURS).parent) + os.sep, "<frozen ", "<string>")


class Modules:
    """Paths of modules and names of their parameters."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._roots: dict[str, int] = {}
        self._parameters: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._tops: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._nameless: dict[int, weakref.ref[torch.Tensor]] = {}

    def path(self, module: torch.nn.Module, parent: torch.nn.Module | None) -> str:
        """The path of a module that is being called by ``parent``."""
        known = self._paths.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        if parent is not None:
            above = self._paths.get(id(parent))
            for name, child in parent._modules.items():
                if child is module and above is not None:
                    self._register(module, f"{above[1]}.{name}")
                    return f"{above[1]}.{name}"
            if above is not None and getattr(module, "_is_replica", False):  # DataParallel's, made for one call
                self._register(module, f"{above[1]}.module")
                return f"{above[1]}.module"
        name = type(module).__name__
        self._roots[name] = self._roots.get(name, 0) + 1
        if self._roots[name] > 1:
            name = f"{name}#{self._roots[name]}"
        self._register(module, name)
        self._tops.append((weakref.ref(module), name))
        return name

    def is_known(self, module: torch.nn.Module) -> bool:
        """Whether the module has a path already."""
        known = self._paths.get(id(module))
        return known is not None and known[0]() is module

    def _register(self, root: torch.nn.Module, path: str) -> None:
        for name, module in root.named_modules():
            known = self._paths.get(id(module))
            if known is None or known[0]() is not module:
                self._paths[id(module)] = (weakref.ref(module), f"{path}.{name}" if name else path)
        self._name_parameters(root, path)

    def _name_parameters(self, root: torch.nn.Module, path: str) -> None:
        for name, parameter in root.named_parameters():
            known = self._parameters.get(id(parameter))
            if known is None or known[0]() is not parameter:
                self._parameters[id(parameter)] = (weakref.ref(parameter), f"{path}.{name}")

    def parameter(self, tensor: torch.Tensor, fallback: str) -> str:
        """The name of a parameter, or ``fallback`` for a tensor that belongs to no module seen so far."""
        for looked in (False, True):
            known = self._parameters.get(id(tensor))
            if known is not None and known[0]() is tensor:
                return known[1]
            nameless = self._nameless.get(id(tensor))
            if looked or (nameless is not None and nameless() is tensor):
                break
            self._look_again()
        self._nameless[id(tensor)] = weakref.ref(tensor)
        return fallback

    def _look_again(self) -> None:
        """Name what modules were given since their first call: another layer, another parameter."""
        for reference, path in self._tops:
            top = reference()
            if top is not None:
                self._register(top, path)


class Sites:
    """Places in the user's code, relative to the project."""

    def __init__(self, root: str | None) -> None:
        self._root = os.path.realpath(root) + os.sep if root else None
        self._files: dict[CodeType, str | None] = {}
        self._names: dict[str, str | None] = {}

    def file(self, code: CodeType) -> str | None:
        """The user's file of a code object, relative to the project where it lies in it; None for library code."""
        if code in self._files:
            return self._files[code]
        name = code.co_filename
        if name not in self._names:
            self._names[name] = self._of(name)
        found = self._files[code] = self._names[name]
        return found

    def _of(self, name: str) -> str | None:
        real = os.path.realpath(name) if not name.startswith("<") else name
        if self._root and real.startswith(self._root):
            return real[len(self._root) :].replace(os.sep, "/")
        return None if real.startswith(_LIBRARIES) else real

    def here(self, depth: int = 1) -> tuple[str, int, str] | None:
        """File, line and function of the innermost frame of the user's own code."""
        try:
            frame: FrameType | None = sys._getframe(depth)
        except ValueError:  # a thread of autograd's, where nothing of the user's is below us
            return None
        while frame is not None:
            found = self.file(frame.f_code)
            if found is not None:
                return found, frame.f_lineno, frame.f_code.co_name
            frame = frame.f_back
        return None

    def source(self, function: object) -> tuple[str, int, int] | None:
        """File, first and last line of a function of the user's."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None:
            return None
        found = self.file(code)
        if found is None:
            return None
        lines = [line for _, _, line in code.co_lines() if line is not None]
        return found, code.co_firstlineno, max(lines, default=code.co_firstlineno)
