"""
Patterns of ``.gitignore`` files, matched as git matches them (gitignore(5)).

Written here because a match of a folder must say nothing of the files in it: the walk asks about each folder on its
way down, and a pattern such as ``!*/`` lets it go on without bringing anything back. Libraries that match a path as
a whole get that wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[str]
    ignores: bool
    folders_only: bool


class IgnoreFile:
    """The patterns of one file. Paths are relative to its folder, with ``/``, without one at the end."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for line in lines if (pattern := _parse(line)) is not None]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def verdict(self, path: str, folder: bool) -> bool | None:
        """Whether the last pattern that matches ignores the path; None where none matches."""
        path = _as_bytes(path)
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return pattern.ignores
        return None

    def covers(self, path: str) -> bool:
        """Whether a file is ignored itself or lies in a folder that is, looking at these patterns alone."""
        parts = path.split("/")
        folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return any(self.verdict(folder, True) for folder in folders) or bool(self.verdict(path, False))


def _as_bytes(text: str) -> str:
    """Text with one character a byte of its UTF-8 form, since to git ``?`` is one byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _parse(line: str) -> _Pattern | None:
    text = _as_bytes(line).rstrip("\r\n")
    while text.endswith((" ", "\t")) and not text.endswith(("\\ ", "\\\t")):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    try:
        regex = re.compile(("" if anchored else "(?:.*/)?") + _translated(text), re.DOTALL)
    except re.error:  # git, too, goes on after a pattern it cannot read
        return None
    return _Pattern(regex, ignores, folders_only)


def _translated(text: str) -> str:
    """The regular expression of a pattern without its ``!`` and outer slashes."""
    segments = text.split("/")
    out = ""
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            out += ".+" if last else "(?:.*/)?"
        else:
            out += _segment(segment) + ("" if last else "/")
    return out


def _segment(text: str) -> str:
    out = ""
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "*":
            out += "[^/]*"
        elif character == "?":
            out += "[^/]"
        elif character == "\\" and position < len(text):
            out += re.escape(text[position])
            position += 1
        elif character == "[":
            end = _class_end(text, position)
            if end < 0:
                raise re.error("class without end")
            out += _class(text[position:end])
            position = end + 1
        else:
            out += re.escape(character)
    return out


def _class_end(text: str, start: int) -> int:
    """Where the bracket that closes a class is, or -1."""
    position = start
    if text[position : position + 1] in ("!", "^"):
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    while position < len(text) and text[position] != "]":
        if text.startswith("[:", position) and (end := text.find(":]", position)) > 0:
            position = end + 1
        position += 2 if text[position] == "\\" else 1
    return position if position < len(text) else -1


_NAMED = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:xdigit:]": "0-9a-fA-F",
}


def _class(body: str) -> str:
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    for name, characters in _NAMED.items():
        body = body.replace(name, characters)
    body = (
        body.replace("[", "\\[").replace("]", "\\]").replace("&&", "&\\&").replace("~~", "~\\~").replace("||", "|\\|")
    )
    return f"(?!/)[{'^' if negated else ''}{body.replace('--', '-' + chr(92) + '-')}]"
