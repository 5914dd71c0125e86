"""Reading TOML on every supported Python."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

_reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class TomlError(ValueError):
    """A file that is not TOML. The text says where and why, in one line."""


def loads(text: str) -> dict[str, Any]:
    """Parse TOML text. Raises TomlError."""
    try:
        result: dict[str, Any] = _reader.loads(text)
    except ValueError as error:
        raise TomlError(" ".join(str(error).split())) from None
    return result


def read(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises OSError or TomlError (also for bytes that are no UTF-8)."""
    try:
        return loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise TomlError(f"not UTF-8: {error.reason} at byte {error.start}") from None
