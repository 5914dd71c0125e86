"""
C++ that only some programs need: memory shared between processes, device times in torch's profiler.

A library of its own, so that the build everyone waits for on first use stays short; it is compiled when first needed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mlu_backend import build

SOURCES = Path(__file__).with_name("csrc_extra")


def _library() -> build.Library:
    return build.Library("_mlu_extra", tuple(sorted(SOURCES.glob("*.cpp"))), (), False)


def ensure() -> Path:
    """The path of the library, compiled first if need be; ``build.BuildError`` when that fails."""
    target = _library()
    final = build._path(target)
    if final.is_file():
        return final
    build.compiler()
    from filelock import FileLock

    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(final.parent / f"{target.name}.lock")):
        if not final.is_file():
            build._compile("extra", target, final)
    return final


@cache
def load() -> None:
    """Load the library into this process; the device must be loaded."""
    import torch

    torch.ops.load_library(str(ensure()))
