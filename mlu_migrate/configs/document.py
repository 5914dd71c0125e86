"""
One non-Python file: its text, where a character lies in the bytes, and what was found in it.

Positions inside a document are character offsets into ``text``; they become byte offsets when a finding is made. A
file that is not UTF-8 is read as Latin-1, where every byte is a character, so its bytes survive whatever they mean.
"""

from __future__ import annotations

import bisect
import codecs
import re
from collections.abc import Callable, Mapping
from functools import cached_property

from mlu_migrate.configs import catalogue
from mlu_migrate.model import Confidence, Edit, FileResult, Finding, Safety, Severity
from mlu_migrate.settings import Settings

_FUNCTION = re.compile(r"^[^\S\n]*(?:function\s+)?([^\W\d]\w*)\s*\(\s*\)", re.MULTILINE)


class Document:
    """Text under inspection. Checks call :meth:`add`; :mod:`mlu_migrate.configs.apply` decides what is written."""

    def __init__(self, source: bytes, path: str, settings: Settings, *, prose: bool = False) -> None:
        self.source = source
        self.path = path
        self.settings = settings
        self.prose = prose  # documentation: edits are told, and made with --configs write only
        self.engine: Callable[[bytes], FileResult] | None = None  # migrates Python source
        self.embed: Callable[[str, int, int], bool] | None = None  # judges a span as a file of that name
        self.groups: frozenset[str] = frozenset()  # files of the project that a word may choose; see groups.py
        self.depth = 0  # here documents inside one another
        self.comment = "#"  # what a comment starts with, as a regular expression
        self.free_lines = False  # whether a line can be added without regard to indentation or quoting
        self.sure = True  # False for saved data, where a key's meaning is the writer's business
        self.base = len(codecs.BOM_UTF8) if source.startswith(codecs.BOM_UTF8) else 0
        self.encoding = "utf-8"
        try:
            self.text = source[self.base :].decode("utf-8")
        except UnicodeDecodeError:
            self.encoding, self.base = "latin-1", 0
            self.text = source.decode("latin-1")
        self.findings: list[Finding] = []
        self.reads: dict[str, tuple[int, int]] = {}  # environment names that are only read, with their first place
        self.told: set[str] = set()  # what is said once a file, and environment names that were told
        self.renamed: dict[str, str] = {}  # MLU name -> the CUDA name that became it here
        self.places: set[int] = set()  # where findings start
        self.named: dict[str, bool] = {}  # MLU name -> whether the text has it
        self.framework: str | None = None  # another framework the file works for, once it was asked
        self.program: Callable[[str], str | None] | None = None  # the framework of a program, by its name
        self.launched: set[str] | None = None  # the frameworks of all programs that are named, once it was asked
        self._starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            self._starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        self._byte_starts: list[int] | None = None
        if not self.text.isascii():
            total, self._byte_starts = 0, [0]
            for first, last in zip(self._starts, self._starts[1:], strict=False):
                total += len(self.text[first:last].encode(self.encoding))
                self._byte_starts.append(total)

    @cached_property
    def functions(self) -> frozenset[str]:
        """Names of the shell functions the text defines: `train() { ... }`."""
        return frozenset(_FUNCTION.findall(self.text))

    def line_of(self, offset: int) -> int:
        """Line number, from 1, of a character offset."""
        return bisect.bisect_right(self._starts, offset)

    def line_start(self, offset: int) -> int:
        """Where the line of a character offset starts."""
        return self._starts[self.line_of(offset) - 1]

    def line_end(self, offset: int) -> int:
        """Where the line of a character offset ends, before its line end."""
        line = self.line_of(offset)
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return end - 1 if end > 0 and self.text[end - 1 : end] == "\r" else end

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, in code points."""
        line = self.line_of(offset)
        return line, offset - self._starts[line - 1] + 1

    def byte(self, offset: int) -> int:
        """Byte offset in the file of a character offset."""
        if self._byte_starts is None:
            return self.base + offset
        line = self.line_of(offset)
        prefix = self.text[self._starts[line - 1] : offset]
        return self.base + self._byte_starts[line - 1] + len(prefix.encode(self.encoding))

    def edit(self, start: int, end: int, text: str) -> Edit:
        """An edit of the file's bytes, from character offsets."""
        return Edit(self.byte(start), self.byte(end), text.encode(self.encoding))

    def add(
        self,
        code: str,
        message_id: str,
        start: int,
        end: int,
        *,
        severity: Severity = Severity.WARNING,
        safety: Safety = Safety.MANUAL,
        confidence: Confidence = Confidence.HIGH,
        args: Mapping[str, str] | None = None,
        replace: tuple[tuple[int, int, str], ...] = (),
        group: str | None = None,
    ) -> None:
        """Record a finding about ``text[start:end]``; ``replace`` are character spans with their new text."""
        self.places.add(start)
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        before = self.text[start:end]
        after = before
        for first, last, text in sorted(replace, reverse=True):
            if start <= first and last <= end:
                after = after[: first - start] + text + after[last - start :]
        self.findings.append(
            Finding(
                code=code,
                name=catalogue.page(code).name,
                severity=severity,
                safety=safety,
                confidence=confidence,
                path=self.path,
                line=line,
                column=column,
                end_line=end_line,
                end_column=end_column,
                message_id=message_id,
                args=dict(args or {}),
                edits=tuple(self.edit(*span) for span in sorted(replace)),
                before=before,
                after=after if replace else "",
                group=group,
            )
        )
