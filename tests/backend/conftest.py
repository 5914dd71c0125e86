"""The emulated device for every test of this folder: compiled once, started as ``import torch_mlu`` starts it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def extension() -> Any:
    """The C++ module of the device, with ``torch.mlu`` in place."""
    import mlu_backend

    mlu_backend.offer_torch_mlu()
    import torch_mlu  # noqa: F401

    from mlu_backend import core

    return core.extension()


@pytest.fixture
def card(extension: Any) -> Iterator[Any]:
    """The extension with card 0 empty of earlier tests' garbage, and current again afterwards."""
    gc.collect()
    extension.set_device(0)
    yield extension
    extension.set_device(0)
    gc.collect()


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python source in a process of its own; keyword arguments are environment variables."""

    def run(source: str, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "program.py"
        script.write_text(source, encoding="utf-8")
        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONPATH": path, **env},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture
def fresh_compiler(extension: Any) -> Iterator[None]:
    """Nothing compiled before the test, nor left behind by it."""
    import torch

    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
