"""Dockerfiles: base images, variables, and the commands that build and start the container."""

from __future__ import annotations

import re

from mlu_migrate.configs import checks, commandline, jsonfile
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.makefile import logical_lines
from mlu_migrate.configs.shellwords import Word

_INSTRUCTION = re.compile(
    r"(?i)[ \t]*(?P<name>from|run|cmd|label|maintainer|expose|env|add|copy|entrypoint|volume|user|workdir|arg|onbuild"
    r"|stopsignal|healthcheck|shell)[ \t]+"
)
_FROM = re.compile(r"(?:--platform=\S+[ \t]+)?(?P<image>\S+)")
_ARGUMENT = re.compile(r"(?P<name>\w+)(?:=(?P<quote>['\"]?)(?P<value>[^'\"\s]*)(?P=quote))?")


def check(doc: Document) -> None:
    """Look at one Dockerfile."""
    for start, end in _instructions(doc.text):
        match = _INSTRUCTION.match(doc.text, start, end)
        if match is None or doc.text[start:end].lstrip().startswith("#"):
            continue
        name, body = match["name"].upper(), match.end()
        if name == "FROM":
            image = _FROM.match(doc.text, body, end)
            if image:
                checks.image(doc, image.start("image"), image.end("image"))
                _references(doc, body, end)
        elif name in ("COPY", "ADD") and (source := re.compile(r"--from=(\S+)").search(doc.text, body, end)):
            checks.image(doc, *source.span(1))
            _references(doc, body, end)
        elif name == "ENV":
            _env(doc, body, end)
        elif name == "ARG":
            _arg(doc, body, end)
        elif name in ("RUN", "CMD", "ENTRYPOINT", "SHELL", "HEALTHCHECK"):
            _command(doc, body, end)
        else:
            _references(doc, body, end)


def _instructions(text: str) -> list[tuple[int, int]]:
    """Logical lines; a here document belongs to the instruction that opens it, comment lines inside one stay in it."""
    spans: list[tuple[int, int]] = []
    pending: str | None = None
    open_line = False
    for start, end in logical_lines(text):
        line = text[start:end]
        if pending is not None and spans:
            spans[-1] = (spans[-1][0], end)
            if line.strip() == pending:
                pending = None
            continue
        if open_line and spans and not _INSTRUCTION.match(line):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        heredoc = re.search(r"<<-?['\"]?(\w+)['\"]?", line)
        pending = heredoc[1] if heredoc and not line.lstrip().startswith("#") else None
        last = line.rsplit("\n", 1)[-1].strip()
        open_line = last.startswith("#") and "\n" in line
    return spans


def _env(doc: Document, start: int, end: int) -> None:
    old = re.compile(r"(\w+)[ \t]+(?!=)(\S.*)", re.DOTALL).fullmatch(doc.text, start, end)
    if old and "=" not in doc.text[old.start(1) : old.end(1)] and "=" not in old[2].split()[0]:
        if old[1] in words.environment() or old[1].startswith("NCCL_"):
            checks.environment_set(doc, old.start(1), old.end(1), old[2])
        elif not checks.value(doc, old.start(2), old.end(2), old[1]):
            _references(doc, start, end)
        return
    commandline.check(doc, start, end)


def _arg(doc: Document, start: int, end: int) -> None:
    match = _ARGUMENT.match(doc.text, start, end)
    if match is None:
        return
    if match["name"] in words.environment():
        checks.environment_set(doc, match.start("name"), match.end("name"), match["value"])
    elif match["value"] and not checks.value(doc, match.start("value"), match.end("value"), match["name"]):
        checks.image(doc, match.start("value"), match.end("value"))


def _command(doc: Document, start: int, end: int) -> None:
    body = doc.text[start:end].strip()
    if body.startswith("[") and body.endswith("]"):
        at = doc.text.index("[", start)
        try:
            items = list(jsonfile.leaves(doc.text[at:end]))
        except jsonfile.NotJson:
            items = []
        spans = [(at + leaf.start, at + leaf.end) for leaf in items]
        commandline.check_words(doc, [Word(first, last, doc.text[first:last]) for first, last in spans])
        return
    while option := re.compile(r"--(?:mount|network|security|interval|timeout)=\S+\s+").match(doc.text, start, end):
        start = option.end()
    commandline.check(doc, start, end)


def _references(doc: Document, start: int, end: int) -> None:
    for match in words.environment_name().finditer(doc.text, start, end):
        if doc.text[max(start, match.start() - 2) : match.start()].endswith(("$", "${")):
            checks.environment_read(doc, *match.span())
    path = words.TOOLKIT_PATH.search(doc.text, start, end)
    if path:
        checks.toolkit_path(doc, *path.span())
