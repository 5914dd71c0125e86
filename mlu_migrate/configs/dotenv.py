"""``.env`` files: one variable a line."""

from __future__ import annotations

import re

from mlu_migrate.configs import checks
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document

_LINE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.]*)[ \t]*=[ \t]*(?P<quote>['\"]?)(?P<value>[^\n\r#]*?)(?P=quote)"
    r"[ \t]*(?:#[^\n]*)?\r?$",
    re.MULTILINE,
)


def check(doc: Document) -> None:
    """Look at one ``.env`` file."""
    for match in _LINE.finditer(doc.text):
        start, end = match.span("value")
        name = match["name"]
        if name in words.environment() or name.startswith("NCCL_"):
            checks.environment_set(doc, *match.span("name"), match["value"] if "$" not in match["value"] else None)
        elif start < end and not checks.value(doc, start, end, name):
            checks.image(doc, start, end)
        for found in words.environment_name().finditer(doc.text, start, end):
            if doc.text[max(0, found.start() - 2) : found.start()].endswith(("$", "${")):
                checks.environment_read(doc, *found.span())
