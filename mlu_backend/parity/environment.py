"""What a process runs in, and how two such descriptions differ: named before any number is looked at."""

from __future__ import annotations

import os
import platform
from typing import Any

import torch


def describe() -> dict[str, Any]:
    """Versions, switches and settings that can change numbers. JSON values only."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "hash_seed": os.environ.get("PYTHONHASHSEED", "random"),
    }
    for name in ("numpy", "torchvision", "transformers", "timm", "accelerate"):
        version = _version(name)
        if version:
            found[name] = version
    return found


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


FATAL = {"default_dtype": "default dtype", "deterministic": "deterministic algorithms"}
"""Settings the program itself chose; a difference is a fault of the migration. Others are named and explain numbers."""


def differences(reference: dict[str, Any], candidate: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Differences that are faults, and those that are only worth knowing, as sentences."""
    faults, notes = [], []
    for name in sorted(reference.keys() | candidate.keys()):
        a, b = reference.get(name), candidate.get(name)
        if a == b:
            continue
        if name in FATAL:
            faults.append(f"{FATAL[name]}: {a} in the reference, {b} in the candidate")
        else:
            notes.append(f"{name}: {a} in the reference, {b} in the candidate")
    return faults, notes
