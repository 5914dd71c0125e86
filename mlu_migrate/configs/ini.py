"""INI files, ``setup.cfg`` and ``tox.ini``: keys with values, and values that go on over indented lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from mlu_migrate.configs import checks, commandline, packages, structured
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.structured import Leaf

_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_PAIR = re.compile(r"(?P<key>[^\s=:#;\[][^=:]*?)\s*[=:]\s*(?P<value>.*)")
# `option gpu=* --gres=gpu:$0`: how Kaldi and ESPnet tell queue.pl and slurm.pl to ask for cards
_QUEUE = re.compile(r"(?m)^option[ \t]+gpu=(?!0\b)\S+[ \t](?:[^#\n]*[ \t])?(?P<asked>--gres=gpu\S*|-l[ \t]+\S*gpu\S*)")
_REQUIREMENTS = frozenset({"install_requires", "setup_requires", "tests_require", "deps", "requires"})
_COMMANDS = frozenset(
    "commands commands_pre commands_post command addopts arguments args execstart execstartpre execstartpost "
    "execstop cmd cmdline testing_command".split()
)
_CARDS = frozenset({"request_gpus", "number_of_gpu"})
_ENVIRONMENT = frozenset({"setenv", "set_env", "passenv", "pass_env", "env", "environment"})


def check(doc: Document) -> None:
    """Look at one INI file."""
    for line in _QUEUE.finditer(doc.text):
        checks.resource(doc, *line.span("asked"))
    setup = PurePosixPath(doc.path).name in ("setup.cfg", "tox.ini")
    for section, key, start, end in pairs(doc.text):
        lower = key.lower().strip()
        if lower in _CARDS and doc.text[start:end].strip() not in ("", "0"):
            place = doc.text.rindex(key, 0, start)
            checks.resource(doc, place, place + len(key))
            continue
        if setup and (lower in _REQUIREMENTS or section == "options.extras_require"):
            _requirements(doc, start, end)
        elif lower in _COMMANDS:
            commandline.check(doc, start, end)
        elif lower in _ENVIRONMENT:
            for match in re.compile(r"[^\s,;\"']+(?:[ \t]*=[ \t]*[^\s,]+)?").finditer(doc.text, start, end):
                _environment(doc, *match.span())
        else:
            place = doc.text.rfind(key, 0, start)
            leaves = [Leaf((section, key), place, place + len(key), is_key=True)] if place >= 0 else []
            if start < end:
                leaves.append(Leaf((section, key), *_unquoted(doc.text, start, end)))
            structured.check(doc, leaves, environment=section.lower() in _ENVIRONMENT)


def _environment(doc: Document, start: int, end: int) -> None:
    text = doc.text[start:end]
    name = re.match(r"\w+", text)
    if name is None:
        return
    value = re.search(r"=\s*(\S*)", text)
    from_here = start + name.end()
    if name[0] != text and value is None:
        commandline.environment_words(doc, start, end)
    else:
        checks.environment_set(doc, start, from_here, value[1] if value else None)


def _unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    if end - start >= 2 and text[start] in "'\"" and text[end - 1] == text[start]:
        return start + 1, end - 1
    return start, end


def _requirements(doc: Document, start: int, end: int) -> None:
    position = start
    for line in doc.text[start:end].splitlines(keepends=True):
        text = line.strip()
        if text and not text.startswith("#"):
            at = position + line.index(text)
            packages.requirement(doc, at, at + len(text.split(" #")[0].rstrip()))
        position += len(line)


def pairs(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Section, key and the span of the value, which takes in the indented lines below."""
    section, offset = "", 0
    current: tuple[str, int, int] | None = None
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        continued = current is not None and bare[:1] in (" ", "\t") and bare.strip() != ""
        comment = bare.lstrip()[:1] in ("#", ";")
        if continued and current is not None:
            current = (current[0], current[1], offset + len(bare.rstrip()))
        elif not comment and bare.strip():
            if current is not None:
                yield section, *current
            current = None
            header, pair = _SECTION.match(bare), _PAIR.match(bare)
            if header:
                section = header[1].strip()
            elif pair:
                value = re.split(r"\s[#;]", pair["value"], maxsplit=1)[0].rstrip()
                current = (pair["key"], offset + pair.start("value"), offset + pair.start("value") + len(value))
        offset += len(line)
    if current is not None:
        yield section, *current
