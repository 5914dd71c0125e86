"""
CUDA-like words that stay in Python code and that no rule speaks of (``--audit``): in comments, in strings, in names.

They are of no harm to the program; the list is for those who want to see that nothing was forgotten.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mlu_migrate import suppress
from mlu_migrate.model import Confidence, FileResult, Finding, Safety, Severity

CODE = "MLU004"
NAME = "remaining-word"
WORD = re.compile(r"cuda|nccl|nvtx|cudnn|cublas|nvidia|nvml|gpu", re.IGNORECASE)
_KINDS = {
    "COMMENT": "comment",
    "STRING": "string",
    "FSTRING_MIDDLE": "string",
    "TSTRING_MIDDLE": "string",
    "NAME": "name",
}


@dataclass(frozen=True, slots=True)
class Mention:
    """
    A CUDA-like word. ``kind``: comment, string or name. Line and columns start at 1; ``text`` is the name or line
    it is in.
    """

    word: str
    line: int
    column: int
    kind: str
    text: str


def mentions(source: bytes) -> Iterator[Mention]:
    """All CUDA-like words of Python source, in order; none from where it can no longer be tokenised."""
    for token in suppress.tokens(source):
        kind = _KINDS.get(tokenize.tok_name[token.type])
        if kind is None or not WORD.search(token.string):
            continue
        for offset, part in enumerate(token.string.split("\n")):
            first = token.start[1] if offset == 0 else 0
            for match in WORD.finditer(part):
                yield Mention(match[0], token.start[0] + offset, first + match.start() + 1, kind, part.strip())


def untold(source: bytes, findings: Iterable[Finding]) -> list[Mention]:
    """The words that lie in none of these findings."""
    told = [((f.line, f.column), (f.end_line, f.end_column)) for f in findings if f.cell is None]
    by_line: dict[int, list[tuple[tuple[int, int], tuple[int, int]]]] = {}
    for start, end in told:
        for line in range(start[0], end[0] + 1):
            by_line.setdefault(line, []).append((start, end))
    return [
        item
        for item in mentions(source)
        if not any(start <= (item.line, item.column) < end for start, end in by_line.get(item.line, ()))
    ]


def added(result: FileResult, text: bytes) -> FileResult:
    """A result with its MLU004 findings. ``text`` is what positions refer to: the source without byte order mark."""
    words = findings(text, result.path, result.findings)
    return replace(result, findings=tuple(sorted((*result.findings, *words), key=lambda f: (f.line, f.column))))


def findings(source: bytes, path: str, others: Iterable[Finding]) -> list[Finding]:
    """One MLU004 finding for each word that no other finding speaks of and no ignore comment covers."""
    others = tuple(others)
    shield = suppress.parse(source, suppress.comments_of(source))
    found = []
    for item in untold(source, others):
        if shield.covers(CODE, item.line, item.line):
            continue
        found.append(
            Finding(
                code=CODE,
                name=NAME,
                severity=Severity.INFO,
                safety=Safety.MANUAL,
                confidence=Confidence.HIGH,
                path=path,
                line=item.line,
                column=item.column,
                end_line=item.line,
                end_column=item.column + len(item.word),
                message_id=item.kind,
                args={"word": item.word, "text": item.text},
                before=item.word,
            )
        )
    return found
