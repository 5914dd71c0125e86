"""Work that waits for a module of torch which most programs never import."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """
    Call ``action`` with module ``name``: now if it has been imported, else right after it will have been.

    A second call with the same name and action does nothing while the first one waits.
    """
    if name in sys.modules:
        action(sys.modules[name])
    elif not any(isinstance(finder, _AfterImport) and finder.awaits(name, action) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport(name, action))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Sees a module being looked for, and leaves the finding to others."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.action = action

    def awaits(self, name: str, action: Callable[[ModuleType], None]) -> bool:
        return (self.name, self.action) == (name, action)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.action(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
