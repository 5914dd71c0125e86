"""What a recorded process is asked to do; travels to it, and to its children, in one environment variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VARIABLE = "MLU_PARITY_RECORD"
LEVELS = ("step", "module", "op")
ROUTES = ("none", "emulated-cuda")


@dataclass(frozen=True, slots=True)
class Focus:
    """
    One module call whose operators are recorded with their full tensors.

    ``call`` counts the calls of that path from 0. ``backward`` asks for the operators of the backward pass of that step
    instead of those of the call.
    """

    path: str
    call: int
    step: int
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """A run that differs by rounding alone, as ``profile`` rounds (``rounding``); ``number`` chooses the grid."""

    profile: str
    number: int


@dataclass(frozen=True, slots=True)
class Options:
    """
    ``out``: trace folder. ``root``: folder of the project, for relative file names. ``every``: parameters are recorded
    after the first step and then every that many. ``steps``: end the program after so many optimizer steps, 0 for
    never. ``edits``: an edit map; its lines are traced. ``route``: how devices are mapped. ``seed``: None leaves seeds
    alone. ``eager``: what the program compiles runs eagerly, as it does under emulated-cuda.
    """

    out: str
    root: str | None = None
    level: str = "module"
    every: int = 10
    steps: int = 0
    seed: int | None = None
    edits: str | None = None
    route: str = "none"
    focus: Focus | None = None
    control: Control | None = None
    eager: bool = False

    def to_environment(self) -> str:
        """The value of the variable."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> Options | None:
        """What the variable asks for, None without one. A malformed value raises ValueError."""
        text = environ.get(VARIABLE)
        if not text:
            return None
        values = json.loads(text)
        focus, control = values.pop("focus", None), values.pop("control", None)
        return Options(
            **values, focus=Focus(**focus) if focus else None, control=Control(**control) if control else None
        )
