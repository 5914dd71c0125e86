"""Which events of a process have their numbers: events are written before the numbers they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LISTS = ("in", "out", "items", "roots", "parameters", "buffers")


def count(events: Sequence[dict[str, Any]], rows: int) -> int:
    """How many events come before the first that refers to a number that is missing."""
    for number, event in enumerate(events):
        if _last_row(event) >= rows:
            return number
    return len(events)


def _last_row(event: dict[str, Any]) -> int:
    if event["k"] == "module":  # whose parameters are counted
        return -1
    found = [entry[1] for name in _LISTS if event.get(name) for entry in event[name]]
    return max(found, default=event.get("s", -1))
