"""
Random generators: every road on which torch would ask CUDA for one.

``torch.Generator`` is a class in C++ that no function mode sees. It is replaced wherever a module holds it, under any
name it can be reached by, by a subclass that is made on the emulated device where ``cuda`` is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from mlu_backend.parity.emulated_cuda.devices import sees_the_device, to_cuda, to_device

_Real: Any = torch._C.Generator


class _Kind(type(_Real)):  # type: ignore[misc]
    """Generators that torch makes itself are of the class in C++; for the program there is one class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return _Real in subclass.__mro__


class Generator(_Real, metaclass=_Kind):  # type: ignore[misc]
    """``torch.Generator``, made on the emulated device where ``cuda`` is asked for."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, device=to_device(device))

    @property
    def device(self) -> torch.device:
        """The device it draws for, as the program calls it."""
        found = _Real.device.__get__(self)
        return found if sees_the_device(1) else to_cuda(found)  # type: ignore[no-any-return]

    def clone_state(self) -> Generator:
        """A generator that goes on from the same state."""
        made = type(self)(_Real.device.__get__(self))
        made.set_state(self.get_state())
        return made  # type: ignore[no-any-return]


class DefaultGenerators(Sequence[Any]):
    """``torch.cuda.default_generators``: those of the emulated device, which are made when it is first used."""

    def _made(self) -> Sequence[Any]:
        torch.mlu.init()  # type: ignore[attr-defined]
        return torch.mlu.default_generators  # type: ignore[attr-defined, no-any-return]

    def __getitem__(self, index: Any) -> Any:
        return self._made()[index]

    def __len__(self) -> int:
        return len(self._made())


def install() -> None:
    """Replace the class in every module that was imported before us."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("Generator") is _Real:
            module.Generator = Generator  # type: ignore[attr-defined]
    torch.cuda.default_generators = DefaultGenerators()  # type: ignore[assignment]
