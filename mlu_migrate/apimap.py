"""Typed reader of tables/*.toml: what a CUDA name of torch is called on an MLU, in which release, and how we know."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from typing import Any

from mlu_migrate import tomlfile

# torch_mlu 1.25.0 / 1.23.0 / 1.25.0: the branch letters of reference/torch_mlu_api.json (design section 3).
LETTER = {"2.1": "e", "2.3": "d", "2.4": "f"}
RELEASES = tuple(LETTER)


@dataclass(frozen=True, slots=True)
class Row:
    """One fact: a CUDA name, its MLU name ("" if none), and where that is written."""

    name: str
    mlu: str
    status: str  # same | renamed | semantic-difference | missing
    source: str
    note: str = ""
    branches: str = "abcdef"
    policy: str = ""  # edit | tell, for semantic differences
    official: str = ""

    def exists_in(self, release: str) -> bool:
        """Whether the MLU name exists in that torch_mlu release (by torch version)."""
        return bool(self.mlu) and LETTER[release] in self.branches


@functools.cache
def read(name: str, key: str = "row") -> tuple[dict[str, Any], ...]:
    """The rows of one table file (arrays of tables called ``key``), as plain dictionaries."""
    text = resources.files("mlu_migrate.tables").joinpath(f"{name}.toml").read_text("utf-8")
    return tuple(tomlfile.loads(text).get(key, ()))


def _row(raw: dict[str, Any], key: str) -> Row:
    return Row(
        raw[key],
        raw["mlu"],
        raw["status"],
        raw["source"],
        raw.get("note", ""),
        raw.get("in", "abcdef"),
        raw.get("policy", ""),
        raw.get("official", ""),
    )


@functools.cache
def names() -> dict[str, Row]:
    """Rows of dotted torch (and apex) names."""
    return {raw["name"]: _row(raw, "name") for raw in read("torch")}


@functools.cache
def patterns() -> dict[str, Row]:
    """Rows that are a call form, an argument, an environment name or a package."""
    return {raw["cuda"]: _row(raw, "cuda") for raw in read("patterns")}


@functools.cache
def members(module: str) -> frozenset[str]:
    """Simple names the table knows directly below a module: what a star import of it brings."""
    head = module + "."
    return frozenset(n[len(head) :] for n in names() if n.startswith(head) and "." not in n[len(head) :])


@functools.cache
def lookup(name: str) -> Row | None:
    """The row of a canonical name, or None."""
    return names().get(name)
