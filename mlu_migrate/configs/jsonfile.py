"""
JSON, also with comments, trailing commas and single quotes (editor settings, JSON5): a reader of our own that knows
where each string stands. A configuration is looked at; what is plainly data is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from mlu_migrate.configs import structured
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.structured import Leaf, Path

DEPTH = 1000  # objects and lists inside one another
LIMIT = 512 * 1024  # bytes; a larger JSON file is data
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'|[{}\[\],:]"""
    r"""|[^\s{}\[\],:"'/]+""",
    re.DOTALL,
)


class NotJson(ValueError):
    """The text is no JSON; the message says where."""


def check(doc: Document) -> None:
    """Look at one JSON file. Nothing is said about one that cannot be read."""
    if len(doc.text) > LIMIT or '"mlu-migrate"' in doc.text[:300]:  # the latter is a report of ours
        return
    try:
        found = list(leaves(doc.text))
    except NotJson:
        return
    doc.sure = doc.text.lstrip()[:1] != "["
    structured.check(doc, found)


def valid(text: str) -> bool:
    """Whether the text can be read: strictly, or with comments and trailing commas."""
    try:
        json.loads(text)
    except ValueError:
        try:
            for _ in leaves(text):
                pass
        except NotJson:
            return False
    return True


def leaves(text: str) -> Iterator[Leaf]:
    """Keys and values in the order of the text. Raises NotJson."""
    position, end = 0, len(text)
    stack: list[list[object]] = []  # [kind, key or index, expects key]
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotJson(f"offset {position}: not JSON")
        token, start = match[0], position
        position = match.end()
        if token[0].isspace() or token.startswith(("//", "/*")):
            continue
        if token in "{[":
            stack.append(["{", None, True] if token == "{" else ["[", 0, False])
            if len(stack) > DEPTH:
                raise NotJson(f"offset {start}: nests more than {DEPTH} deep")
        elif token in "}]":
            if not stack or stack.pop()[0] != {"}": "{", "]": "["}[token]:
                raise NotJson(f"offset {start}: {token} without its opening")
        elif token == ",":
            if stack and stack[-1][0] == "[":
                stack[-1][1] = int(str(stack[-1][1])) + 1
            elif stack:
                stack[-1][2] = True
        elif token == ":":
            if not stack or stack[-1][0] != "{":
                raise NotJson(f"offset {start}: colon outside an object")
            stack[-1][2] = False
        else:
            yield _leaf(text, stack, token, start, position)
    if stack:
        raise NotJson("ends inside an object or a list")


def _leaf(text: str, stack: list[list[object]], token: str, start: int, end: int) -> Leaf:
    if token[0] in "\"'":
        start, end = start + 1, end - 1
    is_key = bool(stack) and stack[-1][0] == "{" and bool(stack[-1][2])
    if is_key:
        stack[-1][1] = text[start:end]
    path: Path = tuple(part if isinstance(part, int) else str(part) for _, part, _ in stack)
    return Leaf(path, start, end, is_key)
