"""``--add-ignore``: keep comments where findings are, so that a project can start with a clean slate."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from mlu_migrate import suppress
from mlu_migrate.model import Finding

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_KEEP = re.compile(rb"#[ \t]*mlu:[ \t]*keep[ \t]*\[([^\]\r\n]*)\]")


@dataclass(slots=True)
class Added:
    """
    The new bytes of a file, how many lines have a new or longer comment, and what could not be done (``line:
    reason``).
    """

    output: bytes
    lines: int = 0
    problems: list[str] = field(default_factory=list)


def add(source: bytes, findings: Iterable[Finding]) -> Added:
    """
    Put ``# mlu: keep[CODES]`` at the end of the lines of these findings, or their codes into a comment that is there.

    A finding inside a triple-quoted string or before a backslash gets it at the end of the whole construct. MLU003
    is left alone: the comment it complains about is to be deleted.
    """
    ends = suppress.line_ends(source)
    codes: dict[int, set[str]] = {}
    for finding in findings:
        if finding.code != suppress.CODE:
            codes.setdefault(ends.get(finding.line, finding.line), set()).add(finding.code)
    lines = _LINE.findall(source)
    added = Added(source)
    for number, wanted in sorted(codes.items()):
        if number > len(lines):
            added.problems.append(f"{number}: no such line")
            continue
        lines[number - 1] = _with_comment(lines[number - 1], wanted)
        added.lines += 1
    output = b"".join(lines)
    if _tree(output) != _tree(source):
        added.problems.append("1: comments cannot be added without changing the program, left as it was")
        return Added(source, 0, added.problems)
    added.output = output
    return added


def _with_comment(line: bytes, codes: set[str]) -> bytes:
    body = line.rstrip(b"\r\n")
    end = line[len(body) :]
    found = _KEEP.search(body)
    if found:
        known = {code.strip() for code in found[1].decode("ascii", "replace").split(",") if code.strip()}
        listed = ",".join(sorted(known | codes)).encode()
        return body[: found.start(1)] + listed + body[found.end(1) :] + end
    return body.rstrip() + b"  # mlu: keep[" + ",".join(sorted(codes)).encode() + b"]" + end


def _tree(source: bytes) -> str | None:
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
