"""
YAML: PyYAML finds where keys and values stand, nothing is written by it. A file with template marks that is no YAML
(Helm, Jinja) is read line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import yaml

from mlu_migrate.configs import jsonfile, structured
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.structured import Leaf, Path

LIMIT = 1024 * 1024  # bytes; a larger YAML file is data, and PyYAML needs seconds a megabyte
_WORKFLOWS = re.compile(
    r"(?:^|/)(?:\.github/workflows/[^/]+|\.gitlab-ci|\.circleci/[^/]+|azure-pipelines|\.travis|\.cirrus)\.ya?ml$"
    r"|(?:^|/)(?:docker-)?compose[^/]*\.ya?ml$|(?:^|/)action\.ya?ml$|gitlab-ci[^/]*\.ya?ml$"
)
_LINE = re.compile(r"(?P<indent>[ \t]*)(?P<dash>(?:-[ \t]+)*)(?:(?P<key>[\w./-]+)[ \t]*:[ \t]+)?(?P<value>[^\s#].*)?$")
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t]+)*")  # an anchor, a tag
_QUOTED = re.compile(r"(['\"])(.*)\1\s*(?:#.*)?")


def check(doc: Document) -> None:
    """Look at one YAML file."""
    if len(doc.text) > LIMIT:
        return
    try:
        found = list(leaves(doc.text))
    except yaml.YAMLError:
        found = list(lines(doc.text))
    conda = _conda_lists(found) if _is_conda(found) else {}
    for path, items in conda.items():
        structured.dependencies(doc, items, comment=path is not None)
    members = {leaf for items in conda.values() for leaf in items}
    environment = _WORKFLOWS.search(PurePosixPath(doc.path).as_posix()) is not None
    structured.check(doc, [leaf for leaf in found if leaf not in members], environment=environment)


def valid(text: str) -> bool:
    """Whether the text is YAML."""
    try:
        for _ in yaml.compose_all(text, Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError:
        return False
    return True


def leaves(text: str) -> Iterator[Leaf]:
    """Keys and values of all documents in the text. Raises yaml.YAMLError."""
    for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
        if node is not None:
            yield from _node(text, node)


def _node(text: str, root: yaml.Node) -> Iterator[Leaf]:
    stack: list[tuple[Path, yaml.Node]] = [((), root)]
    seen: set[int] = set()  # an alias leads to a node that was seen
    while stack:
        path, node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            children = []
            for key, value in node.value:
                name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
                if isinstance(key, yaml.ScalarNode):
                    yield Leaf((*path, name), *_inner(text, key), is_key=True)
                children.append(((*path, name), value))
            stack.extend(reversed(children))
        elif isinstance(node, yaml.SequenceNode):
            stack.extend(((*path, index), item) for index, item in reversed(list(enumerate(node.value))))
        elif isinstance(node, yaml.ScalarNode):
            yield Leaf(path, *_inner(text, node))


def _inner(text: str, node: yaml.ScalarNode) -> tuple[int, int]:
    """The span inside the quotes, or the lines of a block."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in ("'", '"'):
        return text.index(node.style, start) + 1, end - 1
    if node.style is None or node.style == "":
        start = _PROPERTIES.match(text, start, end).end()  # type: ignore[union-attr]
        return start, end
    if node.style in ("|", ">"):
        header = text.find("\n", start, end)
        if header < 0:
            return end, end
        word = text[header + 1 : end].strip()
        if word and "\n" not in word:
            start = text.index(word, header + 1)
            return start, start + len(word)
        return header + 1, end
    return start, end


def lines(text: str) -> Iterator[Leaf]:
    """Keys and values of text that only looks like YAML, one line at a time; the path is the indented keys above."""
    above: list[tuple[int, str]] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        match = _LINE.match(line.rstrip("\r\n"))
        if match and not line.lstrip().startswith("#") and (match["key"] or match["value"]):
            indent = len(match["indent"]) + len(match["dash"])
            above = [(depth, key) for depth, key in above if depth < indent or (depth == indent and not match["key"])]
            stripped = re.match(r"[ \t-]*([\w./-]+)[ \t]*:[ \t]*$", line.rstrip("\r\n"))
            path: Path = tuple(key for _, key in above)
            if stripped:
                above.append((indent, stripped[1]))
                yield Leaf((*path, stripped[1]), offset + stripped.start(1), offset + stripped.end(1), is_key=True)
            else:
                if match["key"]:
                    path = (*path, match["key"])
                    yield Leaf(path, offset + match.start("key"), offset + match.end("key"), is_key=True)
                if match["value"]:
                    start, end = _line_value(match["value"], offset + match.start("value"))
                    yield from _line_leaves(text, path if match["key"] else (*path, 0), start, end)
        offset += len(line)


def _line_leaves(text: str, path: Path, start: int, end: int) -> Iterator[Leaf]:
    """A value, or the members of a list that stands on the line."""
    if text.startswith("[", start):
        try:
            for leaf in jsonfile.leaves(text[start:end]):
                yield Leaf((*path, *leaf.path), start + leaf.start, start + leaf.end, leaf.is_key)
            return
        except jsonfile.NotJson:
            pass
    yield Leaf(path, start, end)


def _line_value(value: str, start: int) -> tuple[int, int]:
    quoted = _QUOTED.fullmatch(value)
    if quoted:
        return start + quoted.start(2), start + quoted.end(2)
    plain = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
    return start, start + len(plain)


def _is_conda(found: list[Leaf]) -> bool:
    tops = {leaf.path[0] for leaf in found if leaf.is_key and len(leaf.path) == 1}
    members = any(leaf.path[:1] == ("dependencies",) and isinstance(leaf.path[-1], int) for leaf in found)
    return members and bool(tops & {"channels", "name", "prefix"})


def _conda_lists(found: list[Leaf]) -> dict[Path, list[Leaf]]:
    """The dependency list and the pip list inside it."""
    lists: dict[Path, list[Leaf]] = {}
    for leaf in found:
        if not leaf.is_key and leaf.path[:1] == ("dependencies",) and isinstance(leaf.path[-1], int):
            lists.setdefault(leaf.path[:-1], []).append(leaf)
    return lists
