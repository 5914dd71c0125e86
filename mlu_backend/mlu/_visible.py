"""
Which cards a process may see, read from the environment.

The leftmost set name of ``CN_VISIBLE_DEVICES``, ``MLU_VISIBLE_DEVICES``, ``CUDA_VISIBLE_DEVICES`` wins. Its value is a
comma list of indices or UUIDs: a repeated entry empties the list, the first negative or non-numeric entry ends it
(torch_mlu/mlu/__init__.py:332-376).
"""

from __future__ import annotations

import os

NAMES = ("CN_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
UUID_PREFIX = "MLU-"


def visible_setting() -> str | None:
    """The value that counts, or None when no card is hidden."""
    return next((os.environ[name] for name in NAMES if name in os.environ), None)


def _leading_number(text: str) -> int:
    """The number a string starts with, as C's strtol reads it (``"2x"`` is 2); -1 for none."""
    text = text.strip()
    end = 1 if text[:1] in ("+", "-") else 0
    while end < len(text) and text[end].isdigit():
        end += 1
    digits = text[:end]
    return int(digits) if digits.strip("+-") else -1


def parse_visible_devices(value: str | None, everything: int) -> list[int] | list[str]:
    """Ordinals, or UUIDs when the list starts with one; all of ``everything`` cards when nothing is set."""
    if value is None:
        return list(range(everything))
    entries = [entry.strip() for entry in value.split(",")]
    if entries[0].startswith(UUID_PREFIX):
        uuids: list[str] = []
        for entry in entries:
            if entry in uuids:
                return []
            if not entry.startswith(UUID_PREFIX):
                return uuids
            uuids.append(entry)
        return uuids
    ordinals: list[int] = []
    for entry in entries:
        number = _leading_number(entry)
        if number in ordinals:
            return []
        if number < 0:
            return ordinals
        ordinals.append(number)
    return ordinals


def uuids_to_ordinals(candidates: list[str], uuids: list[str]) -> list[int]:
    """Cards whose UUID starts with each candidate; ends at one unknown or ambiguous, empty on a repetition."""
    ordinals: list[int] = []
    for candidate in candidates:
        found = [index for index, uuid in enumerate(uuids) if uuid.startswith(candidate)]
        if len(found) != 1:
            return ordinals
        if found[0] in ordinals:
            return []
        ordinals.append(found[0])
    return ordinals
