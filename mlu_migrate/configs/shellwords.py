"""
Command lines split into words, with the place of every word.

Enough of the shell's grammar to know what a word is: quotes, backslashes, comments, separators, here documents and
command substitution (whose inside is read as commands of its own). Nothing is expanded. Text that is no valid shell
gives words all the same: this only looks, and never fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_HEREDOC = re.compile(r"<<(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: ``text[start:end]`` with its quotes."""

    start: int
    end: int
    raw: str

    @property
    def inner(self) -> tuple[int, int]:
        """The span inside the quotes when one pair of quotes encloses the whole word, else the word's own span."""
        if len(self.raw) >= 2 and self.raw[0] in "'\"" and self.raw[-1] == self.raw[0]:
            if self.raw[0] not in self.raw[1:-1]:
                return self.start + 1, self.end - 1
        if len(self.raw) >= 4 and self.raw[:2] in ("\\'", '\\"') and self.raw.endswith(self.raw[:2]):
            return self.start + 2, self.end - 2
        return self.start, self.end

    @property
    def value(self) -> str:
        """The word without the quotes that enclose it."""
        start, end = self.inner
        return self.raw[start - self.start : end - self.start]

    @property
    def quoted(self) -> bool:
        """Whether one pair of quotes encloses the whole word."""
        return self.inner != (self.start, self.end)

    @property
    def assigns(self) -> str | None:
        """The variable's name when the word is ``NAME=value``."""
        match = _ASSIGNMENT.match(self.raw)
        return match[0].rstrip("+=") if match else None


@dataclass(slots=True)
class Command:
    """The words of one simple command, and whether its output goes to a file."""

    words: list[Word] = field(default_factory=list)
    redirected: bool = False

    @property
    def arguments(self) -> list[Word]:
        """The words after leading assignments: the program and what it is given."""
        for index, word in enumerate(self.words):
            if word.assigns is None:
                return self.words[index:]
        return []

    @property
    def program(self) -> str:
        """The program's file name, empty when the command only sets variables."""
        arguments = self.arguments
        return arguments[0].value.rsplit("/", 1)[-1] if arguments else ""


@dataclass(frozen=True, slots=True)
class HereDocument:
    """The lines given to ``command`` on its standard input."""

    start: int
    end: int
    command: Command
    expands: bool


DEPTH = 30  # command substitutions inside one another, and here documents, that are followed
_OPEN = 100  # substitutions without an end after which no further one is looked for


@dataclass(slots=True)
class _Nested:
    """Spans of command substitutions that were met, and how many began and never ended."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    open: int = 0


def commands(text: str, start: int, end: int, depth: int = 0) -> Iterator[Command | HereDocument]:
    """All commands in ``text[start:end]``, those inside ``$(...)`` and backticks after the one that holds them."""
    nested = _Nested()
    heredocs: list[tuple[str, bool, bool, Command]] = []
    current = Command()
    position = start
    while position < end:
        char = text[position]
        if char == "\n":
            position += 1
            if current.words:
                yield current
            current = Command()
            for word, tabs, expands, owner in heredocs:
                body = position
                position, close = _heredoc_end(text, position, end, word, tabs)
                yield HereDocument(body, close, owner, expands)
            heredocs.clear()
        elif char in " \t\r":
            position += 1
        elif char == "\\" and text[position + 1 : position + 2] in ("\n", "\r"):
            position += 3 if text.startswith("\r\n", position + 1) else 2
        elif char == "#":
            position = _line_end(text, position, end)
        elif char == "<" and (match := _HEREDOC.match(text, position, end)):
            heredocs.append((match["word"], bool(match["tabs"]), not match["quote"], current))
            position = match.end()
        elif char in "<>":
            current.redirected = current.redirected or char == ">"
            position += 1
        elif char in ";&|()":
            position += 1
            if current.words:
                yield current
            current = Command()
        else:
            finish = _word_end(text, position, end, nested)
            finish = max(finish, position + 1)
            current.words.append(Word(position, finish, text[position:finish]))
            position = finish
    if current.words:
        yield current
    if depth < DEPTH:
        for first, last in nested.spans:
            yield from commands(text, first, last, depth + 1)


def _line_end(text: str, position: int, end: int) -> int:
    found = text.find("\n", position, end)
    return end if found < 0 else found


def _heredoc_end(text: str, position: int, end: int, word: str, tabs: bool) -> tuple[int, int]:
    """Where reading goes on after a here document, and where its last line ends."""
    while position < end:
        line_end = _line_end(text, position, end)
        line = text[position:line_end].rstrip("\r")
        if (line.lstrip("\t") if tabs else line).strip() == word:
            return min(line_end + 1, end), position
        position = line_end + 1
    return end, end


def _word_end(text: str, position: int, end: int, nested: _Nested) -> int:
    while position < end:
        char = text[position]
        if char in " \t\n\r;&|()<>":
            return position
        if char == "\\":
            position += 2
        elif char == "'":
            close = text.find("'", position + 1, end)
            position = end if close < 0 else close + 1
        elif char == '"':
            position = _double_quote_end(text, position + 1, end, nested)
        elif char == "`":
            position = _backtick_end(text, position, end, nested)
        elif char == "$":
            position = _dollar_end(text, position, end, nested)
        else:
            position += 1
    return min(position, end)


def _double_quote_end(text: str, position: int, end: int, nested: _Nested) -> int:
    while position < end:
        char = text[position]
        if char == '"':
            return position + 1
        if char == "\\":
            position += 2
        elif char == "`":
            position = _backtick_end(text, position, end, nested)
        elif char == "$":
            position = _dollar_end(text, position, end, nested)
        else:
            position += 1
    return end


def _backtick_end(text: str, position: int, end: int, nested: _Nested) -> int:
    close = text.find("`", position + 1, end)
    if close < 0:
        return end
    nested.spans.append((position + 1, close))
    return close + 1


def _dollar_end(text: str, position: int, end: int, nested: _Nested) -> int:
    """Past ``$name``, ``${...}`` or ``$(...)``."""
    opening = text[position + 1 : position + 2]
    if opening not in ("(", "{") or not opening or nested.open > _OPEN:
        return position + 1
    closing = ")" if opening == "(" else "}"
    depth, scan = 1, position + 2
    while scan < end:
        char = text[scan]
        if char == "\\":
            scan += 2
            continue
        if char == "'" and opening == "(":
            close = text.find("'", scan + 1, end)
            scan = end if close < 0 else close
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                break
        scan += 1
    if depth:
        nested.open += 1
        return position + 2
    if opening == "(" and text[position + 2 : position + 3] != "(":
        nested.spans.append((position + 2, scan))
    return scan + 1
