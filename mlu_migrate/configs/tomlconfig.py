"""
TOML: a reader of our own that knows where keys and strings stand; ``pyproject.toml`` has its requirements judged too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from mlu_migrate import tomlfile
from mlu_migrate.configs import structured
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.structured import Leaf, Path

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_KEY = re.compile(r"\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|'[^'\n]*'|[A-Za-z0-9_-]+")
_STRING = re.compile(
    r"\"\"\"(?:[^\\\"]|\\.|\"(?!\"\"))*\"{3,5}|'''.*?'{3,5}|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|'[^'\n]*'",
    re.DOTALL,
)
_OTHER = re.compile(r"[^\s,\]}#]+")
_REQUIREMENT_LISTS = re.compile(
    r"project\.dependencies|project\.optional-dependencies\.[^.]+|build-system\.requires|dependency-groups\.[^.]+"
    r"|tool\.(?:uv|pdm|hatch)\..*dependencies(?:\.[^.]+)?"
)
_REQUIREMENT_TABLES = re.compile(
    r"tool\.poetry\.(?:group\.[^.]+\.)?(?:dev-)?dependencies|tool\.pixi\..*dependencies|(?:dev-)?packages"
    r"|(?:(?:feature|target)\.[^.]+\.)*(?:pypi-|host-|build-|run-)?dependencies"
)


DEPTH = 200  # parts of a dotted key


class NotToml(ValueError):
    """The text is no TOML; the message says where."""


def check(doc: Document) -> None:
    """Look at one TOML file. Nothing is said about one that cannot be read."""
    try:
        found = list(leaves(doc.text))
    except NotToml:
        return
    name = PurePosixPath(doc.path).name
    members: list[Leaf] = []
    if name in ("pyproject.toml", "Pipfile", "pixi.toml"):
        for leaf in found:
            dotted = ".".join(str(part) for part in leaf.path if isinstance(part, str))
            in_list = not leaf.is_key and isinstance(leaf.path[-1] if leaf.path else "", int)
            if in_list and _REQUIREMENT_LISTS.fullmatch(dotted):
                members.append(leaf)
            elif leaf.is_key and "." in dotted and _REQUIREMENT_TABLES.fullmatch(dotted.rpartition(".")[0]):
                members.append(leaf)
    for leaf in found:
        if leaf.is_key and leaf.path[-2:] == ("system-requirements", "cuda"):
            doc.add("MLU605", "platform", leaf.start, leaf.end, args={"key": "system-requirements.cuda"})
    structured.dependencies(doc, members)
    taken = set(members)
    structured.check(doc, [leaf for leaf in found if leaf not in taken])


def valid(text: str) -> bool:
    """Whether the text is TOML."""
    try:
        tomlfile.loads(text)
    except tomlfile.TomlError:
        return False
    return True


def leaves(text: str) -> Iterator[Leaf]:
    """Keys and values in the order of the text. Raises NotToml."""
    position = _skip(text, 0)
    table: Path = ()
    while position < len(text):
        if text[position] == "[":
            doubled = text.startswith("[[", position)
            position, parts = _dotted(text, position + 1 + doubled)
            table = tuple(part for part, _, _ in parts)
            for index, (_, start, end) in enumerate(parts):
                yield Leaf(table[: index + 1], start, end, is_key=True)
            if not text.startswith("]]" if doubled else "]", position):
                raise NotToml(f"offset {position}: table header without its end")
            position = _skip(text, position + 1 + doubled)
        else:
            position, found = _pair(text, position, table)
            yield from found
            position = _skip(text, position)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _dotted(text: str, position: int) -> tuple[int, list[tuple[str, int, int]]]:
    parts: list[tuple[str, int, int]] = []
    while True:
        position = _blank(text, position)
        match = _KEY.match(text, position)
        if match is None:
            raise NotToml(f"offset {position}: key expected")
        quote = 1 if match[0][0] in "'\"" else 0
        start, end = match.start() + quote, match.end() - quote
        parts.append((text[start:end], start, end))
        position = _blank(text, match.end())
        if text[position : position + 1] != ".":
            return position, parts
        if len(parts) == DEPTH:
            raise NotToml(f"offset {position}: a key of more than {DEPTH} parts")
        position += 1


def _pair(text: str, position: int, prefix: Path) -> tuple[int, list[Leaf]]:
    position, parts = _dotted(text, position)
    if text[position : position + 1] != "=":
        raise NotToml(f"offset {position}: = expected")
    path = prefix + tuple(part for part, _, _ in parts)
    found = [
        Leaf(path[: len(prefix) + index + 1], start, end, is_key=True) for index, (_, start, end) in enumerate(parts)
    ]
    position, inner = _read(text, _blank(text, position + 1), path)
    return position, found + inner


def _read(text: str, position: int, path: Path) -> tuple[int, list[Leaf]]:
    opening = text[position : position + 1]
    if opening in ("[", "{"):
        return _group(text, position, path, "]" if opening == "[" else "}")
    match = _STRING.match(text, position)
    if match is not None:
        quotes = 3 if match[0][:3] in ('"""', "'''") else 1
        return match.end(), [Leaf(path, match.start() + quotes, match.end() - quotes)]
    match = _OTHER.match(text, position)
    if match is None:
        raise NotToml(f"offset {position}: value expected")
    return match.end(), [Leaf(path, *match.span())]


def _group(text: str, position: int, path: Path, closing: str) -> tuple[int, list[Leaf]]:
    found: list[Leaf] = []
    position, index = _skip(text, position + 1), 0
    while text[position : position + 1] != closing:
        if position >= len(text):
            raise NotToml("ends inside a list or an inline table")
        if closing == "]":
            position, inner = _read(text, position, (*path, index))
        else:
            position, inner = _pair(text, position, path)
        found += inner
        index += 1
        position = _skip(text, position)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
        elif text[position : position + 1] != closing:
            raise NotToml(f"offset {position}: comma expected")
    return position + 1, found
