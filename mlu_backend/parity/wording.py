"""Words of reports that several of them need."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """``1 step``, ``2 steps``, ``2 processes``."""
    many = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{number} {what if number == 1 else many}"
