"""
The text of notebook cells and where each of its characters lies in the notebook file.

A cell's source is a JSON string or a list of them, usually one a line. Edits of the text become edits of what stands
inside those strings; a line that is added to a list becomes a string of its own, written as its neighbours are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from mlu_migrate.configs.document import Document
from mlu_migrate.configs.jsonfile import leaves

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(slots=True)
class Cell:
    """
    One cell. ``text[i]`` stands at ``starts[i]`` to ``ends[i]`` of the file's text; ``close`` is where the text ends
    (before the last quote), and ``separator`` what stands between two strings of the list, None for a single string.
    """

    number: int  # from 1, over all cells of the notebook
    kind: str = ""
    text: str = ""
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    close: int = 0
    separator: str | None = None
    empty: bool = True  # no string to write into

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the cell, from 1."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def edit(self, doc: Document, start: int, end: int, text: str) -> tuple[int, int, str]:
        """A replacement of ``text[start:end]`` as character span of the file's text and JSON text."""
        if start == len(self.text):
            first = last = self.close
        elif start == end:
            first = last = self.starts[start]
        else:
            first, last = self.starts[start], self.ends[end - 1]
        escaped = json.dumps(text, ensure_ascii=doc.text.isascii())[1:-1]
        if self.separator is not None and "\n" in text:
            line_break = f'\\n"{self.separator}"'
            # A line end that closes the string already there needs no new one.
            closes = text.endswith("\n") and end > start and self.text[end - 1 : end] == "\n"
            body, tail = (escaped[:-2], "\\n") if closes else (escaped, "")
            escaped = _split_lines(body, line_break) + tail
        return first, last, escaped


def _split_lines(escaped: str, line_break: str) -> str:
    r"""Put ``line_break`` for each ``\n``, but not where a backslash is itself escaped."""
    return re.sub(r"\\(.)", lambda m: line_break if m[1] == "n" else m[0], escaped)


def cells(doc: Document) -> list[Cell]:
    """All cells of a notebook, format 3 or 4, in order. Raises jsonfile.NotJson."""
    found: dict[tuple[object, ...], Cell] = {}
    strings: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for leaf in leaves(doc.text):
        at = _cell_path(leaf.path)
        if at is None or leaf.is_key:
            continue
        cell = found.setdefault(at, Cell(len(found) + 1))
        rest = leaf.path[len(at) :]
        if rest == ("cell_type",):
            cell.kind = doc.text[leaf.start : leaf.end]
        elif rest[:1] in (("source",), ("input",)) and doc.text[leaf.start - 1 : leaf.start] == '"':
            strings.setdefault(at, []).append((leaf.start, leaf.end))
            if len(rest) == 2 and cell.separator is None:
                cell.separator = ""
    for place, spans in strings.items():
        _fill(doc.text, found[place], spans)
    return list(found.values())


def language(doc: Document) -> str:
    """The language of the kernel in lower case; ``python`` when the notebook does not say."""
    for leaf in leaves(doc.text):
        if leaf.path in (("metadata", "kernelspec", "language"), ("metadata", "language_info", "name")):
            if not leaf.is_key:
                return doc.text[leaf.start : leaf.end].lower()
    return "python"


def _cell_path(path: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    if len(path) > 2 and path[0] == "cells" and isinstance(path[1], int):
        return path[:2]
    if len(path) > 4 and path[0] == "worksheets" and path[2] == "cells":
        return path[:4]
    return None


def _fill(text: str, cell: Cell, spans: list[tuple[int, int]]) -> None:
    characters: list[str] = []
    for start, end in spans:
        _decode(text, start, end, characters, cell)
    cell.text = "".join(characters)
    cell.close = spans[-1][1]
    cell.empty = False
    if cell.separator is None:
        return
    if len(spans) > 1:
        cell.separator = text[spans[0][1] + 1 : spans[1][0] - 1]
    else:
        line = text.rfind("\n", 0, spans[0][0]) + 1
        lead = text[line : spans[0][0] - 1]
        cell.separator = f",\n{lead}" if not lead.strip() else ", "


def _decode(text: str, start: int, end: int, characters: list[str], cell: Cell) -> None:
    position = start
    while position < end:
        finish = position + 1
        if text[position] != "\\":
            character = text[position]
        elif text[position + 1] == "u":
            finish = position + 6
            code = int(text[position + 2 : finish], 16)
            low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(text, finish, end)
            if 0xD800 <= code < 0xDC00 and low:
                code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
                finish = low.end()
            character = chr(code)
        else:
            finish = position + 2
            character = _ESCAPES.get(text[position + 1], text[position + 1])
        characters.append(character)
        cell.starts.append(position)
        cell.ends.append(finish)
        position = finish
