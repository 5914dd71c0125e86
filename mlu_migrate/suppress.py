"""
Comments that keep code as it is (design 2.3).

``# mlu: keep`` and ``# mlu: keep[MLU201,MLU3] reason`` hold for the line they stand on, ``# mlu: off`` to ``# mlu:
on`` for a region, ``# mlu: keep-file`` near the top for the file. ``# mlu-migrate: ignore[MLU201]`` is another
spelling of keep. A line that cannot end in a comment, because it continues in a triple-quoted string or after a
backslash, is covered from the end of the construct. Codes in brackets are prefixes, as in ``--select``.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mlu_migrate.model import Confidence, Finding, Safety, Severity

CODE = "MLU003"
KEEP_FILE_LINES = 20  # "near the top": a file that is kept says so before anyone reads it

_LINE_END = re.compile(rb"\r\n|\r|\n")
_COMMENT = re.compile(
    r"#[ \t]*(?:"
    r"mlu:[ \t]*(?P<word>keep-file|keep|off|on)(?![\w-])"
    r"|mlu-migrate:[ \t]*(?P<ignore>ignore)(?![\w-])"
    r")(?:[ \t]*\[(?P<codes>[^\]\n]*)\])?"
)


@dataclass(slots=True)
class Comment:
    """One comment that keeps something. Lines start at 1."""

    kind: str  # keep | keep-file | off
    line: int
    text: str
    codes: tuple[str, ...]
    first: int  # first line it holds for
    last: int  # last line it holds for
    used: set[str] = field(default_factory=set)

    def matches(self, code: str) -> bool:
        """Whether the comment names this code, or names none and so means all."""
        return not self.codes or any(code.startswith(prefix) for prefix in self.codes)


@dataclass(frozen=True, slots=True)
class Unused:
    """A comment, or codes of one, that kept nothing. ``codes`` is empty when the whole comment is unused."""

    line: int
    text: str
    codes: tuple[str, ...] = ()

    def finding(self, path: str, column: int = 1) -> Finding:
        """The MLU003 finding that says so. ``column`` is where the comment starts in its line."""
        return Finding(
            code=CODE,
            name="unused-ignore",
            severity=Severity.WARNING,
            safety=Safety.MANUAL,
            confidence=Confidence.HIGH,
            path=path,
            line=self.line,
            column=column,
            end_line=self.line,
            end_column=column + len(self.text),
            message_id="codes" if self.codes else "comment",
            args={"comment": self.text, "codes": ", ".join(self.codes)},
            before=self.text,
        )


class Suppressions:
    """What a file asks to be kept. Remembers which comments were of use; one object serves one file and one run."""

    def __init__(self, comments: Iterable[Comment] = ()) -> None:
        self._comments = tuple(comments)

    def __bool__(self) -> bool:
        return bool(self._comments)

    @property
    def keeps_file(self) -> bool:
        """Whether a ``keep-file`` comment without codes covers everything."""
        return any(c.kind == "keep-file" and not c.codes for c in self._comments)

    def covers(self, code: str, line: int, end_line: int) -> bool:
        """
        Whether a finding of ``code`` on lines ``line`` to ``end_line`` (both included) is to be kept; marks what
        covers it as used.
        """
        covered = False
        for comment in self._comments:
            if comment.first <= end_line and line <= comment.last and comment.matches(code):
                comment.used.add(code)
                covered = True
        return covered

    def unused(self, active: Callable[[str], bool] | None = None) -> list[Unused]:
        """
        Comments that covered nothing so far, in line order.

        ``active`` says whether a code or prefix was looked for in this run: a comment for a rule that was switched
        off is not called unused, and a comment that names no code is only judged when everything was looked for
        (``active("")``).
        """
        found = []
        for comment in self._comments:
            if not comment.codes:
                if not comment.used and (active is None or active("")):
                    found.append(Unused(comment.line, comment.text))
                continue
            idle = tuple(
                code
                for code in comment.codes
                if not any(used.startswith(code) for used in comment.used) and (active is None or active(code))
            )
            if idle:
                found.append(Unused(comment.line, comment.text, () if len(idle) == len(comment.codes) else idle))
        return sorted(found, key=lambda item: item.line)


def mentions(text: str | bytes) -> bool:
    """Cheap test whether there can be any such comment."""
    if isinstance(text, bytes):
        return b"mlu:" in text or b"mlu-migrate:" in text
    return "mlu:" in text or "mlu-migrate:" in text


def parse(source: bytes, comments: Sequence[tuple[int, str]]) -> Suppressions:
    """
    Read the comments of one file, given as (line, text starting at ``#``) in line order.

    ``source`` is looked at only when a comment is ours, to learn which lines are one because of a string or a
    backslash. It may be any text that Python can tokenise; where that fails each line stands for itself.
    """
    ours = [(line, match) for line, text in comments if mentions(text) for match in _COMMENT.finditer(text)]
    if not ours:
        return Suppressions()
    joined = _joined_lines(source)
    last_line = len(_LINE_END.findall(source)) + 1
    found: list[Comment] = []
    region: Comment | None = None
    for line, match in ours:
        word = match["word"] or match["ignore"]
        codes = tuple(code.strip().upper() for code in (match["codes"] or "").split(",") if code.strip())
        if word == "off":
            if region is None:
                region = Comment("off", line, match[0], codes, line, last_line)
                found.append(region)
        elif word == "on":
            if region is not None:
                region.last = line
                region = None
        elif word == "keep-file":
            if line <= KEEP_FILE_LINES:
                found.append(Comment("keep-file", line, match[0], codes, 1, last_line))
        else:
            first = joined.get(line, line)
            found.append(Comment("keep", line, match[0], codes, first, line))
    return Suppressions(found)


def comments_of(source: bytes) -> list[tuple[int, str]]:
    """
    The comments of Python source as (line, text), for callers that have not tokenised it. Empty where it cannot be
    tokenised.
    """
    if not mentions(source):
        return []
    return [(token.start[0], token.string) for token in tokens(source) if token.type == tokenize.COMMENT]


def tokens(source: bytes) -> Iterator[tokenize.TokenInfo]:
    """
    The tokens of Python source, whether its bytes are in the encoding of its coding line or in UTF-8 by now.

    Every line end counts as one line, lone CR too. Ends early, without a word, where the source cannot be tokenised.
    """
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = source.decode(tokenize.detect_encoding(io.BytesIO(source).readline)[0], "replace")
        except (SyntaxError, LookupError):
            text = source.decode("utf-8", "replace")
    lines = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n"))
    try:
        yield from tokenize.generate_tokens(lines.readline)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def line_ends(source: bytes) -> dict[int, int]:
    """For each line that cannot end in a comment: the line that ends the string or backslashes it is part of."""
    ends: dict[int, int] = {}
    for last, first in sorted(_joined_lines(source).items()):
        for line in range(first, last):
            ends[line] = last
    return ends


def _joined_lines(source: bytes) -> dict[int, int]:
    """For each line that ends a run of lines joined by strings or backslashes: the first line of the run."""
    starts: dict[int, int] = {}

    def join(first: int, last: int) -> None:
        for line in range(first + 1, last + 1):
            starts[line] = starts.get(first, first)

    f_string_starts: list[int] = []
    previous_end = 0
    for token in tokens(source):
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            join(token.start[0], token.end[0])
        elif name in ("FSTRING_START", "TSTRING_START"):
            f_string_starts.append(token.start[0])
        elif name in ("FSTRING_END", "TSTRING_END") and f_string_starts:
            join(f_string_starts.pop(), token.end[0])
        if name in ("NEWLINE", "NL", "COMMENT", "ENDMARKER", "INDENT", "DEDENT"):
            previous_end = 0 if name != "COMMENT" else previous_end
            continue
        start = token.start[0]
        if previous_end and start == previous_end + 1 and _ends_in_backslash(source, previous_end):
            join(previous_end, start)
        previous_end = token.end[0]
    return starts


def _ends_in_backslash(source: bytes, line: int) -> bool:
    lines = _LINE_END.split(source, line)
    return len(lines) >= line and lines[line - 1].endswith(b"\\")
