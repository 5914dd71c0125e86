"""
IPython's additions to Python: which lines of a cell are Python, which are commands, and which are neither.

Nothing is rewritten here. A line that is no Python is named as such, so that the caller can put a harmless statement
in its place while rules look at the cell.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

_RUNS_PYTHON = frozenset("time timeit prun memit mprun lprun snakeviz capture heat scalene tic toc px debug".split())
_RUNS_SHELL = frozenset("bash sh script system sx ! shell".split())
_STATEMENT = re.compile(
    r"(?P<indent>[ \t]*)%(?P<name>time|timeit|prun|memit|mprun|lprun|snakeviz)[ \t]+"
    r"(?P<options>(?:-[nrlsTDf][ \t]*\S+[ \t]+|-[a-zA-Z]\d*[ \t]+)*)(?P<statement>\S.*)"
)
_LINE_MAGIC = re.compile(
    r"(?P<indent>[ \t]*)(?:(?P<target>[\w, \t.\[\]'\"]+?)[ \t]*=[ \t]*)?(?P<mark>!!?|%|\?{1,2}|,|;|/)"
)
_HELP = re.compile(r"[ \t]*[%\w.\[\]*]+\?{1,2}[ \t]*;?[ \t]*")
_SHELL_MAGIC = re.compile(r"%(?:pip|conda|mamba|sx|system|run|env|set_env)\b")


@dataclass(frozen=True, slots=True)
class Line:
    """
    One physical line of a cell, ``text[start:end]`` without its line end.

    ``kind``: ``python``; ``statement`` (Python from ``code`` on, after a magic such as ``%time``); ``command`` (a shell
    command from ``code`` on); ``environment`` (``%env NAME=value``, from ``code`` on); ``other``.
    """

    kind: str
    start: int
    end: int
    code: int


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What a cell is. ``kind``: ``python`` (see ``lines``), ``shell`` and ``file`` (the body from ``body`` on, a file's
    name in ``name``), ``foreign``, ``broken`` (``reason`` says why).
    """

    kind: str
    lines: tuple[Line, ...] = ()
    body: int = 0
    name: str = ""
    reason: str = ""


def read(text: str) -> Reading:
    """Find out what a cell is."""
    lines = _split(text)
    first = 0
    if text.startswith("%%"):
        words = text[2 : lines[0][1]].split()
        magic = words[0] if words else ""
        body = lines[1][0] if len(lines) > 1 else len(text)
        if magic in _RUNS_SHELL:
            shell = magic != "script" or any(word.rsplit("/", 1)[-1] in ("bash", "sh", "zsh") for word in words[1:])
            return Reading("shell" if shell else "foreign", body=body)
        if magic in ("writefile", "file"):
            return Reading("file", body=body, name=words[-1].strip("'\""))
        if magic in ("python", "python3"):  # a process of its own, so a program of its own
            return Reading("file", body=body, name="cell.py")
        if magic not in _RUNS_PYTHON:
            return Reading("foreign")
        first = 1
    return _python(text, lines, first)


def _split(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    while True:
        end = text.find("\n", start)
        if end < 0:
            return [*spans, (start, len(text))]
        spans.append((start, end))
        start = end + 1


def _python(text: str, spans: list[tuple[int, int]], first: int) -> Reading:
    lines = [Line("python", start, end, start) for start, end in spans]
    if first:
        lines[0] = Line("other", *spans[0], spans[0][1])
    tried_all = False
    while True:
        reason, number = _error(_neutral(text, lines))
        if not reason:
            return Reading("python", tuple(lines))
        index = number - 1
        if 0 <= index < len(lines) and lines[index].kind == "python" and _is_magic(text, lines[index]):
            _mark(text, lines, index)
        elif not tried_all:
            tried_all = True
            for index, line in enumerate(lines):
                if line.kind == "python" and _is_magic(text, line):
                    _mark(text, lines, index)
        else:
            lines = _dedented(text, spans) or []
            return Reading("python", tuple(lines)) if lines else Reading("broken", reason=f"line {number}: {reason}")


def _dedented(text: str, spans: list[tuple[int, int]]) -> list[Line] | None:
    """The lines without an indentation that all share, as IPython reads them; None when that is not what is wrong."""
    filled = [text[start:end] for start, end in spans if text[start:end].strip()]
    width = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    if not width:
        return None
    lines = [Line("statement", start, end, min(start + width, end)) for start, end in spans]
    return None if _error("\n".join(text[line.code : line.end] for line in lines))[0] else lines


def _error(source: str) -> tuple[str, int]:
    """What Python has against a text, and the line; an empty reason when it has nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        return error.msg or "syntax error", error.lineno or 0
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__, 0
    return "", 0


def _neutral(text: str, lines: list[Line]) -> str:
    return "\n".join(replacement(text, line) for line in lines)


def replacement(text: str, line: Line) -> str:
    """The Python that stands for a line while it is looked at."""
    whole = text[line.start : line.end]
    if line.kind == "python":
        return whole
    indent = whole[: len(whole) - len(whole.lstrip(" \t"))]
    if line.kind == "statement":
        magic = "%" in whole[: line.code - line.start]
        return (indent if magic else "") + text[line.code : line.end]
    if line.kind == "continued":
        return ""
    assigned = re.match(r"[ \t]*[\w, \t.\[\]'\"]+?[ \t]*=(?=[ \t]*[!%])", whole)
    return f"{assigned[0]} None" if assigned else f"{indent}pass"


def _is_magic(text: str, line: Line) -> bool:
    whole = text[line.start : line.end]
    return _LINE_MAGIC.match(whole) is not None or _HELP.fullmatch(whole) is not None


def _mark(text: str, lines: list[Line], index: int) -> None:
    """Name the line, and the lines that a backslash joins to it."""
    line = lines[index]
    whole = text[line.start : line.end]
    lines[index] = _named(whole, line)
    while text[lines[index].start : lines[index].end].rstrip("\r").endswith("\\") and index + 1 < len(lines):
        index += 1
        lines[index] = Line("continued", lines[index].start, lines[index].end, lines[index].end)


def _named(whole: str, line: Line) -> Line:
    statement = _STATEMENT.fullmatch(whole)
    if statement and not _error(statement["statement"])[0]:
        return Line("statement", line.start, line.end, line.start + statement.start("statement"))
    match = _LINE_MAGIC.match(whole)
    if match is None or match["mark"] in ("?", "??"):
        return Line("other", line.start, line.end, line.end)
    if match["mark"] in ("!", "!!"):
        return Line("command", line.start, line.end, line.start + match.end())
    magic = _SHELL_MAGIC.match(whole, match.start("mark"))
    if magic is None:
        return Line("other", line.start, line.end, line.end)
    if magic[0] in ("%env", "%set_env"):
        return Line("environment", line.start, line.end, line.start + magic.end())
    skip = magic.end() if magic[0] in ("%sx", "%system", "%run") else match.end("mark")
    return Line("command", line.start, line.end, line.start + skip)
