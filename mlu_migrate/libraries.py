"""Reader of tables/libraries.toml: calls of other libraries that mean an NVIDIA GPU whatever torch is told."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from mlu_migrate import apimap


@dataclass(frozen=True, slots=True)
class Call:
    """One row: what is called, which argument decides, and when it is told (``given``, ``absent`` or ``always``)."""

    library: str
    name: str  # canonical, or a dot and the method of any object
    when: str
    argument: str
    position: int | None
    values: tuple[str | bool, ...]
    keys: tuple[str, ...]
    keeps: bool
    unless: str
    what: str
    what_zh: str
    instead: str
    instead_zh: str
    source: str


@functools.cache
def calls() -> dict[str, dict[str, Call]]:
    """Library -> name -> row."""
    found: dict[str, dict[str, Call]] = {}
    for raw in apimap.read("libraries", "call"):
        for name in raw["names"]:
            found.setdefault(raw["library"], {})[name] = Call(
                raw["library"],
                name,
                raw["when"],
                raw.get("argument", ""),
                raw.get("position"),
                tuple(raw.get("values", ())),
                tuple(raw.get("keys", ())),
                raw.get("keeps", False),
                raw.get("unless", ""),
                raw["what"],
                raw["what_zh"],
                raw["instead"],
                raw["instead_zh"],
                raw["source"],
            )
    return found


@functools.cache
def keeping() -> frozenset[str]:
    """Canonical names of the calls whose words are left as they are: the library takes no other."""
    return frozenset(name for rows in calls().values() for name, row in rows.items() if row.keeps)
