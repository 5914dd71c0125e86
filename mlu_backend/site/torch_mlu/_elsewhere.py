"""Looks for a torch_mlu other than ours, and makes way for it."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent


def _is_ours(entry: str) -> bool:
    try:
        return Path(entry or ".").resolve() == SITE
    except OSError:
        return False


def find_real() -> ModuleSpec | None:
    """Where a real torch_mlu would be imported from, or None. Nothing is imported."""
    others = [entry for entry in sys.path if not _is_ours(entry)]
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None:
            continue
        spec = PathFinder.find_spec("torch_mlu", others) if finder is PathFinder else find_spec("torch_mlu", None)
        # Without a loader it is a folder that happens to have the name, such as a checkout's.
        if (
            spec is not None
            and spec.loader is not None
            and spec.origin
            and not _is_ours(str(Path(spec.origin).parent.parent))
        ):
            return spec
    return None


def hand_over(spec: ModuleSpec) -> None:
    """Load the real package under its name; the import under way then answers with it."""
    for name in [name for name in sys.modules if name == "torch_mlu" or name.startswith("torch_mlu.")]:
        del sys.modules[name]
    sys.path[:] = [entry for entry in sys.path if not _is_ours(entry)]
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_mlu"] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        sys.modules.pop("torch_mlu", None)
        raise
