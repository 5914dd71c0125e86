"""The surface of the torch_mlu release this emulator follows, read from ``tables/surface.toml``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("tables") / "surface.toml"


@dataclass(frozen=True)
class Release:
    """``torch_mlu`` and ``torch``: versions; ``commit``: of ``branch`` in ``repository``."""

    torch_mlu: str
    torch: str
    branch: str
    commit: str
    repository: str


@cache
def release() -> Release:
    """The head of the table alone, which needs no TOML parser on the way into a program."""
    found: dict[str, str] = {}
    with TABLE.open(encoding="utf-8") as lines:
        for line in lines:
            key, separator, value = line.partition(" = ")
            if separator and key in Release.__dataclass_fields__:
                found[key] = value.strip().strip('"')
            if len(found) == len(Release.__dataclass_fields__):
                break
    return Release(**found)


@cache
def table() -> dict[str, Any]:
    """The whole table: ``attached``, ``patches`` and ``modules`` (rows by module name)."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with TABLE.open("rb") as file:
        return tomllib.load(file)


@cache
def schemas() -> dict[str, str]:
    """Schemas of ``torch.ops.torch_mlu``, by operator name."""
    found: dict[str, str] = json.loads(TABLE.with_name("schemas.json").read_text(encoding="utf-8"))
    return found
