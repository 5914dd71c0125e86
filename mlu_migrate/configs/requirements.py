"""pip requirement files: one requirement a line, options among them."""

from __future__ import annotations

import re

from mlu_migrate.configs import packages
from mlu_migrate.configs.document import Document

_OPTION = re.compile(r"(?:-f|--find-links|-i|--index-url|--extra-index-url)[ \t=]+(?P<value>\S+)")


def check(doc: Document) -> None:
    """Look at one requirement file."""
    offset = 0
    continued = False
    for line in doc.text.splitlines(keepends=True):
        text = line.strip()
        start = offset + (line.index(text) if text else 0)
        offset += len(line)
        skip, continued = continued, text.endswith("\\")
        if not text or text.startswith("#") or skip:
            continue
        option = _OPTION.match(text)
        if option:
            packages.index(doc, start + option.start("value"), start + option.end("value"))
        elif text.startswith("-e ") or text.startswith("--editable"):
            value = text.split(None, 1)[1]
            at = start + text.index(value)
            packages.requirement(doc, at, at + len(value))
        elif not text.startswith("-"):
            bare = re.split(r"\s+#|\s*;|\s+--|\s*\\$", text, maxsplit=1)[0].rstrip()
            comment_at = None if continued else start
            packages.requirement(doc, start, start + len(bare), comment_at=comment_at)
