"""
Programs that work for another framework than torch: what is set for them in a launch script stays as it is.

A file counts as one when it imports such a framework and neither it nor a module of the project that it imports
speaks of torch. (A torch program often imports TensorFlow for its logs.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

TORCH = "torch"
_OTHERS = (b"tensorflow", b"keras", b"paddle", b"mxnet", b"mindspore", b"jax", b"cupy", b"pycuda")
_OTHER = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(" + b"|".join(_OTHERS) + rb")\b", re.MULTILINE)
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+\(?([^\n#)]*)|import[ \t]+([^\n#]+))", re.MULTILINE
)


def look(data: bytes) -> tuple[str, tuple[str, ...]]:
    """
    The framework of one file (``torch``, another, or empty) and, for another, the modules that it imports.
    """
    if b"torch" in data:
        return TORCH, ()
    if not any(word in data for word in _OTHERS):
        return "", ()
    found = _OTHER.search(data)
    if found is None:
        return "", ()
    names: set[str] = set()
    for match in _IMPORT.finditer(data):
        base, members, plain = (part.decode("ascii", "replace") if part else "" for part in match.groups())
        for part in (plain or members).split(","):
            words = part.split()
            if words:
                names.add(words[0] if plain else f"{base.strip('.')}.{words[0]}".strip("."))
        names.add(base.strip("."))
    return found[1].decode(), tuple(sorted(names - {""}))


def others(files: Mapping[str, tuple[str, tuple[str, ...]]], modules: Mapping[str, str]) -> dict[str, str]:
    """
    Path -> framework of the programs of another framework. ``files`` holds what ``look`` said of each path,
    ``modules`` the dotted name of each.
    """
    found = {path: row for path, row in files.items() if row[0] not in ("", TORCH)}
    if not found:
        return {}
    by_leaf: dict[str, list[str]] = {}
    for path, module in modules.items():
        by_leaf.setdefault(module.rpartition(".")[2], []).append(path)

    def imported(names: Iterable[str]) -> set[str]:
        return {
            path
            for name in names
            for path in by_leaf.get(name.rpartition(".")[2], ())
            if modules[path] == name or modules[path].endswith(f".{name}")
        }

    reached = {path: imported(row[1]) for path, row in found.items()}
    torch = {path for path, row in files.items() if row[0] == TORCH}
    while True:
        more = {path for path in reached if path not in torch and reached[path] & torch}
        if not more:
            return {path: row[0] for path, row in found.items() if path not in torch}
        torch |= more


def finder(modules: Mapping[str, str], frameworks: Mapping[str, str]) -> Callable[[str], str | None]:
    """
    Says of a program as a launch script names it (``tools/train.py``, ``pkg.train``) which framework it works for:
    another one, torch ("torch", also where that is not known), or None for one that is not of the project.
    """

    def find(name: str) -> str | None:
        path = name if name.endswith(".py") else f"{name.replace('.', '/')}.py"
        parts = [part for part in PurePosixPath(path).parts if part not in (".", "..", "/") and "$" not in part]
        tail = "/".join(parts)
        places = [known for known in modules if known == tail or known.endswith(f"/{tail}")] if tail else []
        kinds = {frameworks.get(place, TORCH) for place in places}
        return None if not kinds else kinds.pop() if len(kinds) == 1 else TORCH

    return find
