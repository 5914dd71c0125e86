"""Shell scripts, with ``#SBATCH`` and ``#PBS`` lines of batch systems."""

from __future__ import annotations

import re

from mlu_migrate.configs import commandline
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.shellwords import Word

_BATCH = re.compile(r"^[ \t]*#(?:SBATCH|BSUB|PBS|\$)[ \t]+(?P<options>[^#\n\r]*)", re.MULTILINE)


def check(doc: Document) -> None:
    """Look at one shell script."""
    for match in _BATCH.finditer(doc.text):
        batch(doc, match.start("options"), match.end("options"))
    commandline.check(doc, 0, len(doc.text))


def batch(doc: Document, start: int, end: int) -> None:
    """Look at the options on one line of a batch system."""
    items = [Word(m.start(), m.end(), m[0]) for m in re.compile(r"\S+").finditer(doc.text, start, end)]
    commandline.scheduler_words(doc, items)
    for item in items:
        commandline.environment_words(doc, item.start, item.end, passes=True)
        value = re.compile(r"\d+:gpus=\d+|select=[^\s]*ngpus=\d+[^\s]*|gpu=\S+").search(doc.text, item.start, item.end)
        if value:
            commandline.scheduler_words(doc, [Word(value.start(), value.end(), "--gpus")])
