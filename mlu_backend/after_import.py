"""Work that waits for a module which most programs never import, so that start-up does not pay for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


def after_import(name: str, action: Action) -> None:
    """
    Call ``action`` with module ``name``: now if it has been imported, else right after it will have been.

    Where the module is being imported at this very moment, by us or by another thread, the action follows with the
    first import of anything else once that is over. An action that waits already is not put down twice.
    """
    module = sys.modules.get(name)
    if module is not None and not _is_loading(module):
        action(module)
        return
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    waiting = _watcher.waiting.setdefault(name, [])
    if action not in waiting:
        waiting.append(action)
    if module is not None:
        _watcher.begun.add(name)


def _is_loading(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class _Watcher(importlib.abc.MetaPathFinder):
    """Stands before the other finders for the names it waits for, and lets them do the finding."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Action]] = {}
        self.begun: set[str] = set()  # names whose import had begun when they were asked for
        self._busy: set[str] = set()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if self.begun:
            self._catch_up()
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

    def _catch_up(self) -> None:
        for name in list(self.begun):
            module = sys.modules.get(name)
            if module is not None and not _is_loading(module):
                self.begun.discard(name)
                self._run(name, module)

    def _run(self, name: str, module: ModuleType) -> None:
        for action in self.waiting.pop(name, ()):
            action(module)

    def _wrap(self, spec: importlib.machinery.ModuleSpec, name: str) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._run(name, module)

        loader.exec_module = exec_module


_watcher = _Watcher()
