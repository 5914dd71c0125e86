"""Shell scripts, with ``#SBATCH`` and ``#PBS`` lines of batch systems."""

from __future__ import annotations

import re

from mlu_migrate.configs import checks, commandline
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.shellwords import Word

_BATCH = re.compile(r"^[ \t]*#(?:SBATCH|BSUB|PBS|\$)[ \t]+(?P<options>[^#\n\r]*)", re.MULTILINE)
_CONDOR = re.compile(r"(?im)^[ \t]*(?P<key>request_gpus)[ \t]*=[ \t]*(?!0\s*$)\S")
_CARDS = re.compile(r"\d+:gpus=\d+|select=[^\s]*ngpus=\d+[^\s]*|gpu=\S+|ngpus(?:_\w+)?=\d+")


def check(doc: Document) -> None:
    """Look at one shell script."""
    for match in _CONDOR.finditer(doc.text):
        checks.resource(doc, *match.span("key"))
    for match in _BATCH.finditer(doc.text):
        batch(doc, match.start("options"), match.end("options"))
    commandline.check(doc, 0, len(doc.text))


def container(doc: Document) -> None:
    """Look at one definition of a Singularity or Apptainer image."""
    for match in re.finditer(r"(?im)^[ \t]*from[ \t]*:[ \t]*(?P<image>\S+)", doc.text):
        checks.image(doc, *match.span("image"))
    for match in re.finditer(r"(?m)^%(?P<section>\w+)[^\n]*\n(?P<body>(?:(?!%\w)[^\n]*(?:\n|$))*)", doc.text):
        if match["section"] not in ("labels", "help", "files"):
            commandline.check(doc, *match.span("body"))


def batch(doc: Document, start: int, end: int) -> None:
    """Look at the options on one line of a batch system."""
    items = [Word(m.start(), m.end(), m[0]) for m in re.compile(r"\S+").finditer(doc.text, start, end)]
    commandline.scheduler_words(doc, items)
    for item in items:
        commandline.environment_words(doc, item.start, item.end, passes=True)
        value = _CARDS.search(doc.text, item.start, item.end)
        if value:
            commandline.scheduler_words(doc, [Word(value.start(), value.end(), "--gpus")])
