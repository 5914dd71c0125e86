"""Makefiles: variables, and recipe lines as shell commands. ``$(NAME)`` and ``$$NAME`` both read a variable."""

from __future__ import annotations

import re

from mlu_migrate.configs import checks, commandline
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document

_VARIABLE = re.compile(
    r"^(?P<indent> *)(?P<export>export[ \t]+|override[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*"
    r"(?P<sign>[?:+]{0,3}=)[ \t]*(?P<value>[^\n#]*?)[ \t\r]*(?:#.*)?$"
)

_TARGET = re.compile(
    r"[^\s:=#][^:=#]*:[ \t]*(?=(?:export[ \t]+|override[ \t]+|private[ \t]+)?[A-Za-z_][\w.-]*[ \t]*[?:+]{0,3}=)"
)
_DEFINE = re.compile(r"[ ]*(?:override[ \t]+|export[ \t]+)*define\b")
_CONDITION = re.compile(r"[ ]*(?:else[ ]+)?ifn?eq\b")
_COMPARED = re.compile(r"\$[({](?:filter[ \t]+[\w:% \t]+,[ \t]*\$[({])?(?P<name>\w+)[)}]")
_WORD = re.compile(r"(?<![\w.$({/-])(?:cuda(?::\d+)?|nccl)(?![\w./-])")


def check(doc: Document) -> None:
    """Look at one Makefile."""
    defining = False
    for start, end in logical_lines(doc.text):
        line = doc.text[start:end]
        defining = (defining or _DEFINE.match(line) is not None) and not line.lstrip().startswith("endef")
        if line.startswith("\t") or (defining and not _DEFINE.match(line)):
            commandline.check(doc, start, end)
            continue
        match = _VARIABLE.match(line) if "\n" not in line else None
        if match is not None:
            _variable(doc, start, match)
        elif (target := _TARGET.match(line)) and "\n" not in line:
            match = _VARIABLE.match(line[target.end() :])
            if match is not None:
                _variable(doc, start + target.end(), match)
        elif _CONDITION.match(line):
            _condition(doc, start, line)
        elif "=" in line and not line.lstrip().startswith("#"):
            commandline.check(doc, start, end)
        else:
            export = re.match(r"(?:un)?export[ \t]+", line)
            if export:
                commandline.check(doc, start, end)


def _condition(doc: Document, offset: int, line: str) -> None:
    """``ifeq ($(DEVICE),cuda)``, ``ifneq "$(DEVICE)" "cuda"``, ``ifeq ($(filter cuda%,$(DEVICE)),)``."""
    name = next((m["name"] for m in _COMPARED.finditer(line)), None)
    for word in _WORD.finditer(line) if name is not None else ():
        checks.value(doc, offset + word.start(), offset + word.end(), name)


def _variable(doc: Document, offset: int, match: re.Match[str]) -> None:
    name, value = match["name"], match["value"]
    start, end = offset + match.start("value"), offset + match.end("value")
    if name in words.environment() or name.startswith("NCCL_"):
        place = offset + match.start("name")
        plain = None if "$" in value else value
        checks.environment_set(doc, place, place + len(name), plain)
        for found in words.environment_name().finditer(doc.text, start, end):
            checks.environment_read(doc, *found.span())
    elif not (value and checks.value(doc, start, end, commandline.meaning(doc, name))) and not checks.image(
        doc, start, end
    ):
        commandline.check(doc, start, end)


def logical_lines(text: str) -> list[tuple[int, int]]:
    """Spans of lines, joined where a backslash ends a line; line ends are left out."""
    found, start, offset = [], 0, 0
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        offset += len(line)
        if not bare.endswith("\\"):
            found.append((start, offset - len(line) + len(bare)))
            start = offset
    if start < len(text):
        found.append((start, len(text)))
    return found
