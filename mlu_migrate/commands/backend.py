"""
``run``, ``parity`` and ``doctor``: the commands that reach the emulated device, when they are called and not
before.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from typing import Any

from mlu_migrate.model import ExitStatus
from mlu_migrate.output import Output

_NEEDED = 'this needs PyTorch: pip install "mlu-migrate[backend]" (a CPU build of torch 2.13)'


def run(argv: Sequence[str], cards: int | None, profile: str | None, support: str | bool, out: Output) -> int:
    """Run a program on the emulated device; its exit status is ours."""
    launch = _import("mlu_backend.launch", out)
    if launch is None:
        return ExitStatus.FAILURE
    try:
        return int(launch.run(list(argv), cards, profile, support or None))
    except launch.UsageError as error:
        out.error(str(error))
        return ExitStatus.FAILURE


def doctor(as_json: bool, out: Output) -> int:
    """Show what is installed. Works without torch, and says so."""
    try:
        module = importlib.import_module("mlu_backend.doctor")
    except ImportError as error:
        out.error(f"{_NEEDED} ({error})")
        return ExitStatus.FAILURE
    facts: dict[str, Any] = module.facts()
    if as_json:
        out.result(json.dumps(facts, indent=1, default=str) + "\n")
    else:
        wide = max((len(str(name)) for name in facts), default=0)
        out.result("".join(f"{name!s:{wide}}  {_shown(value)}\n" for name, value in facts.items()))
    return ExitStatus.OK


def _import(name: str, out: Output) -> Any:
    """A module of the backend, or None after one line that says what to install."""
    if importlib.util.find_spec("torch") is None:
        out.error(_NEEDED)
        return None
    try:
        return importlib.import_module(name)
    except ImportError as error:
        out.error(f"{_NEEDED} ({error})")
        return None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
