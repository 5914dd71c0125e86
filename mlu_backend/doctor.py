"""
What is installed and what a program would get: torch, compiler, the emulated device, a real torch_mlu.

Nothing is built, started or imported for it, so it answers on a machine where any of these is missing.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from mlu_backend import SITE, __version__

SUPPORTED = (2, 13)


def facts() -> dict[str, Any]:
    """Facts by name, in the order to show them; plain values that JSON can hold."""
    torch = _version("torch")
    real = _real()
    compiler, hint = _compiler()
    return {
        "mlu_backend": __version__,
        "python": platform.python_version(),
        "torch": torch,
        "torch_supported": torch is not None and _number(torch) == SUPPORTED,
        "compiler": compiler,
        "compiler_hint": hint,
        "emulator_built": _built(),
        "emulator_cache": _cache(),
        "real_torch_mlu": None if real is None else real.origin,
        "real_torch_mlu_version": None if real is None else _version("torch_mlu"),
        "used": _used(torch, real is not None, compiler),
        "profile": _setting("profile"),
        "cards": _setting("count"),
        "memory_bytes": _setting("memory"),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())


def _real() -> ModuleSpec | None:
    """A torch_mlu that is not ours, as an import would find it."""
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != SITE.resolve()]
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None:
            continue
        spec = PathFinder.find_spec("torch_mlu", others) if finder is PathFinder else find("torch_mlu", None)
        if spec is None or spec.loader is None or not spec.origin:
            continue
        if Path(spec.origin).resolve().parent.parent != SITE.resolve():
            return spec
    return None


def _compiler() -> tuple[str | None, str | None]:
    from mlu_backend import build

    try:
        return build.compiler(), None
    except build.BuildError as error:
        return None, str(error)


def _built() -> bool:
    from mlu_backend import build

    try:
        return build.built()
    except (OSError, importlib.metadata.PackageNotFoundError, build.BuildError):
        return False


def _cache() -> str | None:
    from mlu_backend import build

    try:
        return str(build.cache_root())
    except ImportError:
        return None


def _used(torch: str | None, real: bool, compiler: str | None) -> str:
    if torch is None:
        return "nothing: torch is not installed"
    if real:
        return "the real torch_mlu"
    if _built() or compiler is not None:
        return "the emulated device"
    return "nothing: the emulated device is not built and there is no compiler"


def _setting(name: str) -> Any:
    """A setting of the emulated card, or what is wrong with it."""
    from mlu_backend import cards

    try:
        return getattr(cards, name)()
    except ValueError as error:
        return f"invalid: {error}"


def main(argv: Sequence[str]) -> int:
    """``python -m mlu_backend doctor [--json]``."""
    if any(argument != "--json" for argument in argv):
        print(f"mlu_backend doctor takes --json and nothing else, got: {' '.join(argv)}", file=sys.stderr)
        return 2
    found = facts()
    if argv:
        print(json.dumps(found, indent=1))
        return 0
    wide = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{wide}}  {value}")
    return 0
