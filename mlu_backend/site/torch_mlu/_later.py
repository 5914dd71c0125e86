"""
Runs a function once another module has been imported, so that start-up does not pay for modules a program may not use.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Watcher(importlib.abc.MetaPathFinder):
    """Stands before the other finders for the names it waits for, and lets them do the finding."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[ModuleType], None]]] = {}
        self._busy: set[str] = set()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname not in self.waiting or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            for finder in sys.meta_path:
                spec = finder.find_spec(fullname, path, target) if finder is not self else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            self._busy.discard(fullname)
        if spec.loader is not None:
            self._wrap(spec, fullname)
        return spec

    def _wrap(self, spec: importlib.machinery.ModuleSpec, name: str) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for action in self.waiting.pop(name, ()):
                action(module)

        loader.exec_module = exec_module


_watcher = _Watcher()


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call ``action(module)`` now if ``name`` is imported, else right after it will have been."""
    if name in sys.modules:
        action(sys.modules[name])
        return
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    _watcher.waiting.setdefault(name, []).append(action)
