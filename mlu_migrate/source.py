"""
One file's bytes, decoded once, with the arithmetic between byte offsets, `ast` positions and code points.

Edits are spans of the *original* bytes. `ast` counts columns in UTF-8 bytes of the decoded line, so a UTF-8 file
needs no
translation; any other encoding is worked on as UTF-8 and spans are mapped back through code points.
"""

from __future__ import annotations

import bisect
import codecs
import io
import re
import tokenize

from mlu_migrate.model import Edit

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = codecs.BOM_UTF8


class SourceError(Exception):
    """The bytes are no text that Python could read; the message says why and where."""


class Source:
    """Original bytes plus a UTF-8 working copy without BOM. ``data`` is what positions refer to while rules run."""

    __slots__ = ("original", "encoding", "data", "base", "starts", "_text")

    def __init__(self, original: bytes) -> None:
        self.original = original
        self._text: str | None = None
        if b"\0" in original:
            line = original.count(b"\n", 0, original.index(b"\0")) + 1
            raise SourceError(f"line {line}: null byte, so this is no Python source")
        self.base = len(_BOM) if original.startswith(_BOM) else 0
        body = original[self.base :]
        if body.startswith(_BOM):
            raise SourceError("line 1: two byte order marks, which Python does not read")
        if body.isascii() and (not self.base or b"coding" not in body[:400]):
            self.encoding = "utf-8"
            self.data = body
        else:
            self.encoding, self.data = _decode(original, body)
        self.starts = [0, *(m.end() for m in _LINE_END.finditer(self.data))]

    @property
    def text(self) -> str:
        """The working copy as text."""
        if self._text is None:
            self._text = self.data.decode("utf-8")
        return self._text

    @property
    def newline(self) -> bytes:
        """The line end that an inserted line should use: the first one of the file."""
        found = _LINE_END.search(self.data)
        return found.group() if found else b"\n"

    def offset(self, line: int, column: int) -> int:
        """Offset in ``data`` of an `ast` position (line from 1, column in UTF-8 bytes)."""
        return self.starts[line - 1] + column

    def line_of(self, offset: int) -> int:
        """Line number, from 1, of an offset in ``data``."""
        return bisect.bisect_right(self.starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, the column in code points."""
        line = self.line_of(offset)
        prefix = self.data[self.starts[line - 1] : offset]
        column = len(prefix) if prefix.isascii() else len(prefix.decode("utf-8", "replace"))
        return line, column + 1

    def line_bytes(self, line: int) -> bytes:
        """One line with its line end."""
        end = self.starts[line] if line < len(self.starts) else len(self.data)
        return self.data[self.starts[line - 1] : end]

    def to_original(self, edits: list[Edit]) -> list[Edit]:
        """Spans of ``data`` as spans of the original bytes, with texts in the file's own encoding."""
        if self.encoding == "utf-8":
            return [Edit(e.start + self.base, e.end + self.base, e.text) for e in edits] if self.base else edits
        encoding = self.encoding

        def place(offset: int) -> int:
            return self.base + len(self.data[:offset].decode("utf-8").encode(encoding))

        return [Edit(place(e.start), place(e.end), e.text.decode("utf-8").encode(encoding)) for e in edits]


def _decode(original: bytes, body: bytes) -> tuple[str, bytes]:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(original).readline)
    except SyntaxError as error:
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as bad:
            line = body.count(b"\n", 0, bad.start) + 1
            if b"coding" not in body[:200]:
                raise SourceError(f"line {line}: not valid UTF-8 and no coding line says otherwise") from None
        raise SourceError(str(error)) from None
    if encoding in ("utf-8", "utf-8-sig"):
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            line = body.count(b"\n", 0, error.start) + 1
            raise SourceError(f"line {line}: not valid UTF-8 and no coding line says otherwise") from None
        return "utf-8", body
    try:
        text = body.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"coding line says {encoding}, but: {error}") from None
    if text.encode(encoding) != body:
        raise SourceError(f"the bytes do not survive a round trip through {encoding}")
    return encoding, text.encode("utf-8")
