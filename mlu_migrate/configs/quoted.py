"""
Files whose strings hold command lines: Jenkins pipelines and other Groovy, Terraform, justfiles.

Their own grammar is not read. Every string that holds a command goes through the rules for command lines, and
``NAME = 'value'`` through those for variables.
"""

from __future__ import annotations

import re

from mlu_migrate.configs import checks, commandline
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document

_TEXT = re.compile(
    r"//[^\n]*|#[^\n]*|/\*.*?\*/"
    r"|'''(?P<a>.*?)'''|\"\"\"(?P<b>.*?)\"\"\"|'(?P<c>[^'\n]*)'|\"(?P<d>[^\"\n]*)\"",
    re.DOTALL,
)
_KEY = re.compile(r"(?:(?P<name>[A-Za-z_][\w.-]*)|['\"](?P<quoted>[\w.-]+)['\"])[ \t]*(?::?=|:)[ \t]*$")
_JUST = re.compile(
    r"^(?P<export>export[ \t]+)?(?P<name>[A-Za-z_][\w-]*)[ \t]*:=[ \t]*(?P<q>['\"])(?P<value>[^'\"\n]*)(?P=q)",
    re.MULTILINE,
)


def check(doc: Document) -> None:
    """Look at one Groovy or Terraform file."""
    for match in _TEXT.finditer(doc.text):
        group = match.lastgroup
        if group is None:
            continue
        start, end = match.span(group)
        before = max(doc.line_start(match.start()), match.start() - 100)
        key = _KEY.search(doc.text[before : match.start()])
        name = (key["name"] or key["quoted"]) if key else None
        if key is not None and name in words.environment():
            at = before + key.start("name" if key["name"] else "quoted")
            checks.environment_set(doc, at, at + len(name or ""), doc.text[start:end])
        elif not checks.image(doc, start, end) and not (name and checks.value(doc, start, end, name)):
            if re.search(r"\s", doc.text[start:end].strip()):
                commandline.check(doc, start, end)
                _container(doc, start, end)
            elif doc.text[start:end].split("=")[0] in words.environment():  # withEnv(['CUDA_VISIBLE_DEVICES=0'])
                commandline.environment_words(doc, start, end)


def just(doc: Document) -> None:
    """Look at one justfile: variables, and recipe lines as shell commands."""
    for match in _JUST.finditer(doc.text):
        name, (start, end) = match["name"], match.span("value")
        if name in words.environment():
            checks.environment_set(doc, *match.span("name"), match["value"])
        elif start < end and not checks.value(doc, start, end, commandline.meaning(doc, name)):
            checks.image(doc, start, end)
    for body in re.finditer(r"^[ \t]+\S[^\n]*(?:\n[ \t]+\S[^\n]*)*", doc.text, re.MULTILINE):
        commandline.check(doc, *body.span())


def _container(doc: Document, start: int, end: int) -> None:
    for match in re.compile(r"--gpus(?:[= ][^\s'\"]+)?|--runtime[= ]nvidia\b").finditer(doc.text, start, end):
        if match.start() not in doc.places:
            checks.container_option(doc, *match.span())
