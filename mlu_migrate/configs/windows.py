"""
Scripts of Windows shells: ``.bat`` and ``.cmd`` (``set NAME=value``, ``%NAME%``) and PowerShell (``$env:NAME = "x"``).

torch_mlu runs on Linux, but such a script also starts jobs in WSL and on remote machines, and what it says of devices
has to agree with the migrated program.
"""

from __future__ import annotations

import bisect
import re

from mlu_migrate.configs import checks, commandline
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document

_BATCH_SET = re.compile(r"(?i)^[ \t@(]*set[ \t]+(?:/[ap][ \t]+)?\"?(?P<name>\w+)=(?P<value>[^\r\n\"&|]*)", re.MULTILINE)
_BATCH_COMMENT = re.compile(r"(?i)[ \t@]*(?:rem\b|::)")
_POWER_SET = re.compile(
    r"(?i)^[ \t]*(?:\[\w+\])?\$(?P<scope>env:|global:|script:)?(?P<name>\w+)[ \t]*=[ \t]*"
    r"(?P<quote>['\"]?)(?P<value>[^'\"\r\n#]*)(?P=quote)",
    re.MULTILINE,
)
_POWER_COMMENT = re.compile(r"<#[^#]*(?:#(?!>)[^#]*)*(?:#>|\Z)")


def batch(doc: Document) -> None:
    """Look at one ``.bat`` or ``.cmd`` file."""
    for start, end in _lines(doc.text):
        if _BATCH_COMMENT.match(doc.text, start, end):
            continue
        assigned = _BATCH_SET.match(doc.text, start, end)
        if assigned:
            _variable(doc, assigned)
        else:
            commandline.check(doc, start, end)


def powershell(doc: Document) -> None:
    """Look at one ``.ps1`` file."""
    comments = [match.span() for match in _POWER_COMMENT.finditer(doc.text)]
    starts = [first for first, _ in comments]
    for start, end in _lines(doc.text):
        at = bisect.bisect_right(starts, start) - 1
        if at >= 0 and start < comments[at][1]:
            continue
        assigned = _POWER_SET.match(doc.text, start, end)
        if assigned:
            _variable(doc, assigned)
        else:
            commandline.check(doc, start, end)


def _variable(doc: Document, match: re.Match[str]) -> None:
    name, (start, end) = match["name"], match.span("value")
    end = start + len(doc.text[start:end].rstrip())
    if name in words.environment() or name.startswith("NCCL_"):
        value = doc.text[start:end]
        checks.environment_set(doc, *match.span("name"), None if re.search(r"[$%]", value) else value)
    elif start < end and not checks.value(doc, start, end, commandline.meaning(doc, name)):
        if not re.fullmatch(r"\$\w+:\w+", doc.text[start:end]):  # $env:TORCH_CUDA is a variable, no image with a tag
            checks.image(doc, start, end)
    commandline.environment_words(doc, start, end)


def _lines(text: str) -> list[tuple[int, int]]:
    """Spans of logical lines: ``^`` and a backtick at the end of a line join it to the next."""
    found, start, offset = [], 0, 0
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        offset += len(line)
        if not bare.endswith((" ^", " `")):
            found.append((start, offset - len(line) + len(bare)))
            start = offset
    if start < len(text):
        found.append((start, len(text)))
    return found
