"""Plain text that fits a terminal, with or without colour. Counts East Asian characters as two columns."""

from __future__ import annotations

import shutil

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_SEVERITY = {"error": "red", "warning": "yellow", "info": "blue"}


def width_of_terminal() -> int:
    """Columns to write in: those of the terminal within reason, 80 where there is none."""
    return max(60, min(shutil.get_terminal_size((80, 24)).columns, 120))


class Paper:
    """Collects lines. ``colour`` says whether escape codes may be used."""

    def __init__(self, width: int = 80, colour: bool = False) -> None:
        self.width = width
        self.colour = colour
        self.lines: list[str] = []

    def style(self, text: str, name: str | None) -> str:
        """The text in a style, if there is colour."""
        if not self.colour or name is None or not text:
            return text
        return f"\x1b[{STYLES[_SEVERITY.get(name, name)]}m{text}\x1b[0m"

    def line(self, text: str = "", style: str | None = None) -> None:
        """One line, cut where the paper ends."""
        self.lines.append(self.style(cut(text, self.width), style))

    def raw(self, text: str) -> None:
        """One line as it is; the caller has seen to its length."""
        self.lines.append(text.rstrip())

    def wrapped(self, text: str, indent: int = 0, hanging: int | None = None, style: str | None = None) -> None:
        """A paragraph, broken between words (anywhere, between East Asian characters)."""
        for part in wrap(text, self.width, indent, indent if hanging is None else hanging):
            self.lines.append(self.style(part, style))

    def text(self) -> str:
        """Everything, with a line end after each line."""
        return "".join(f"{line}\n" for line in self.lines)


def columns(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with dots at the end."""
    if columns(text) <= width:
        return text
    while text and columns(text) > width - 3:
        text = text[:-1]
    return text + "..."


def wrap(text: str, width: int, indent: int, hanging: int) -> list[str]:
    """
    Lines of at most ``width`` columns; a single word that is longer stays whole, so that a path can still be
    copied.
    """
    lines: list[str] = []
    current, start = " " * indent, True
    for word in _pieces(text):
        gap = "" if start or word[0] == "\0" else " "
        word = word.lstrip("\0")
        if not start and columns(current) + len(gap) + columns(word) > width:
            lines.append(current)
            current, gap = " " * hanging, ""
        current += gap + word
        start = False
    return [*lines, current] if current.strip() else lines


def _pieces(text: str) -> list[str]:
    """Words; East Asian ones in single characters, those that follow without a space marked by a null byte."""
    pieces: list[str] = []
    for word in text.split():
        if word.isascii():
            pieces.append(word)
            continue
        run = ""
        joined = False
        for character in word:
            if columns(character) > 1 and character not in ",。:;、)」”!?":
                if run:
                    pieces.append(("\0" if joined else "") + run)
                    joined = True
                pieces.append(("\0" if joined else "") + character)
                joined, run = True, ""
            elif columns(character) > 1 and not run and pieces and joined:
                pieces[-1] += character
            else:
                run += character
        if run:
            pieces.append(("\0" if joined else "") + run)
    return pieces


def pad(text: str, width: int) -> str:
    """The text filled up with spaces to a number of columns."""
    return text + " " * max(0, width - columns(text))
