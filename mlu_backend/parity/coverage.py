"""
Edit coverage: which edited lines the candidate run really executed.

Only files of the edit map are traced, and only until each of their edited lines was seen once, so a program whose
edits run early goes on at full speed. A line counts when the interpreter reports it; an edit inside an expression that
spans lines counts when its own line is reported or, where that line has no code of its own, the statement it is part
of. A short-circuit that is never reached on a line that is reached cannot be told apart.

Tracing starts at the end of ``import torch``. What the main program did before that is taken from the frames on the
stack: statements at the top level of a module up to the one that is running have run.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from mlu_backend.parity.editmap import EditMap
from mlu_backend.parity.editmap import read as read_map

FILE = "lines.txt"


def lines_with_code(source: str, name: str = "<source>") -> set[int]:
    """Lines the interpreter can report."""
    found: set[int] = set()
    pending: list[CodeType] = [compile(source, name, "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        found.update(line for _, _, line in code.co_lines() if line)
        pending.extend(const for const in code.co_consts if isinstance(const, CodeType))
    return found


def statements(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """First line, last line and enclosing function of each statement; of a compound one, its header only."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, function = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{function}.{node.name}" if function else node.name
        else:
            inner = function
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            body = getattr(node, "body", None)
            last = node.end_lineno or node.lineno
            if isinstance(body, list) and body:
                last = max(first, body[0].lineno - 1) if body[0].lineno > node.lineno else node.lineno
            yield first, last, function
        for child in ast.iter_child_nodes(node):
            pending.append((child, inner))


def places(source: str, first: int, last: int) -> tuple[set[int], str]:
    """The lines any of which shows that an edit on ``first`` to ``last`` ran, and the function it is in."""
    try:
        tree, possible = ast.parse(source), lines_with_code(source)
    except (SyntaxError, ValueError, RecursionError):
        return set(), ""
    around = [(a, b, f) for a, b, f in statements(tree) if a <= last and b >= first]
    function = max(around, key=lambda s: (s[0], -s[1]))[2] if around else ""
    own = set(range(first, last + 1)) & possible
    if own:
        return own, function
    if not around:
        return set(), ""
    a, b, _ = min(around, key=lambda s: s[1] - s[0])
    return set(range(a, b + 1)) & possible, function


def judge(edits: EditMap, root: Path, seen: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """
    ``{"edits": n, "exercised": n, "not_traceable": n, "list": [...], "left": [...]}``; in the lists ``{"path", "line",
    "source", "code", "exercised", "function"}``, where ``line`` is that of the migrated file and ``source`` that of the
    original. Edits in files other than Python, and on lines without code such as comments, are counted apart as
    ``not_traceable``. ``left`` are the errors and warnings for people to decide whose line ran.
    """
    hit: dict[str, set[int]] = {}
    for path, line in seen:
        hit.setdefault(path, set()).add(line)
    sources: dict[str, str | None] = {}

    def row_of(path: str, edit: dict[str, Any]) -> dict[str, Any]:
        if path not in sources:
            sources[path] = _read(root / path) if path.endswith((".py", ".pyw")) else None
        source = sources[path]
        wanted, function = places(source, *edit["lines"]) if source is not None else (set(), "")
        return {
            "path": path,
            "line": edit["lines"][0],
            "source": edit["source"][0],
            "code": edit["code"],
            "name": edit.get("name", ""),
            "function": function,
            "traceable": bool(wanted),
            "exercised": bool(wanted & hit.get(path, set())),
        }

    rows = [row_of(path, edit) for path, edit in edits.applied()]
    left = [
        {**row_of(path, edit), "severity": edit["severity"], "message": edit.get("message", "")}
        for path, edit in edits.left()
    ]
    traceable = [r for r in rows if r["traceable"]]
    return {
        "edits": len(traceable),
        "exercised": sum(r["exercised"] for r in traceable),
        "not_traceable": len(rows) - len(traceable),
        "list": rows,
        "left": sorted((r for r in left if r["exercised"]), key=lambda r: r["severity"] != "error"),
    }


def _read(path: Path) -> str | None:
    import tokenize

    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def read(folder: Path) -> set[tuple[str, int]]:
    """Path and line of everything a run wrote down."""
    path = folder / FILE
    if not path.is_file():
        return set()
    found = set()
    for row in path.read_text(encoding="utf-8").splitlines():
        name, _, line = row.rpartition(":")
        if name and line.isdigit():
            found.add((name, int(line)))
    return found


class Tracer:
    """Writes down each wanted line when it first runs. Several processes may write to one file."""

    def __init__(self, wanted: dict[str, set[int]], folder: Path, root: str) -> None:
        self._wanted = {os.path.realpath(os.path.join(root, path)): set(lines) for path, lines in wanted.items()}
        self._names = {os.path.realpath(os.path.join(root, path)): path for path in wanted}
        self._real: dict[str, str | None] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def file_of(self, name: str) -> str | None:
        """The real path of a code object's file if lines of it are still wanted."""
        if name not in self._real:
            real = os.path.realpath(name) if not name.startswith("<") else ""
            self._real[name] = real if real in self._wanted else None
        return self._real[name]

    def line(self, file: str, line: int) -> None:
        """A line ran."""
        left = self._wanted.get(file)
        if left is not None and line in left:
            left.discard(line)
            os.write(self._file, f"{self._names[file]}:{line}\n".encode())

    def done(self, file: str) -> bool:
        """Whether nothing is left to see in a file."""
        return not self._wanted.get(file)

    def ran_before(self, frame: FrameType | None) -> None:
        """Take down what frames on the stack, and modules already imported, have executed at their top level."""
        current: dict[str, int] = {}
        while frame is not None:
            file = self.file_of(frame.f_code.co_filename)
            if file and frame.f_code.co_name == "<module>":
                current[file] = frame.f_lineno
            frame = frame.f_back
        loaded = {os.path.realpath(f) for m in list(sys.modules.values()) if (f := getattr(m, "__file__", None))}
        for file in self._wanted:
            if file in current or file in loaded:
                self._top_level(file, current.get(file, 1 << 60))

    def _top_level(self, file: str, before: int) -> None:
        source = _read(Path(file))
        if source is None:
            return
        for node in ast.parse(source).body:
            if node.lineno <= before and not isinstance(node, (ast.If, ast.Try, ast.For, ast.While, ast.With)):
                last = node.lineno if hasattr(node, "body") else (node.end_lineno or node.lineno)
                for line in range(node.lineno, last + 1):
                    self.line(file, line)


def start(edits: Path, folder: Path, root: str | None) -> None:
    """Trace the lines of an edit map in this process, all threads."""
    base = Path(root or ".")
    wanted: dict[str, set[int]] = {}
    sources: dict[str, str | None] = {}
    known = read_map(edits)
    for path, edit in (*known.applied(), *known.left()):
        if path not in sources:
            sources[path] = _read(base / path) if path.endswith((".py", ".pyw")) else None
        source = sources[path]
        if source is not None:
            wanted.setdefault(path, set()).update(places(source, *edit["lines"])[0])
    tracer = Tracer({p: lines for p, lines in wanted.items() if lines}, folder, str(base))
    tracer.ran_before(sys._getframe(1))
    if hasattr(sys, "monitoring"):
        _with_monitoring(tracer)
    else:
        _with_settrace(tracer)


def _with_monitoring(tracer: Tracer) -> None:
    """Python 3.12 and later: events can be switched off line by line, so what was seen costs nothing."""
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    tool = next((t for t in (monitoring.COVERAGE_ID, 3, 4) if monitoring.get_tool(t) is None), None)
    if tool is None:
        return _with_settrace(tracer)
    monitoring.use_tool_id(tool, "mlu-parity")

    def line(code: CodeType, number: int) -> Any:
        file = tracer.file_of(code.co_filename)
        if file is not None:
            tracer.line(file, number)
        return monitoring.DISABLE

    monitoring.register_callback(tool, monitoring.events.LINE, line)
    monitoring.set_events(tool, monitoring.events.LINE)


def _with_settrace(tracer: Tracer) -> None:
    def local(frame: FrameType, event: str, argument: Any) -> Any:
        file = tracer.file_of(frame.f_code.co_filename)
        if file is None:
            return None
        if event == "line":
            tracer.line(file, frame.f_lineno)
        return None if tracer.done(file) else local

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        file = tracer.file_of(frame.f_code.co_filename)
        if file is None or tracer.done(file):
            return None
        tracer.line(file, frame.f_lineno)
        return local

    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if tracer.file_of(frame.f_code.co_filename):
            frame.f_trace = local
        frame = frame.f_back
    threading.settrace(entered)
    sys.settrace(entered)


def summary(report: dict[str, Any]) -> str:
    """``270 of 312 edits ran``, with what cannot be traced."""
    edits = report["edits"]
    text = (
        f"{report['exercised']} of {edits} {'edit' if edits == 1 else 'edits'} ran"
        if edits
        else "no edit of Python code"
    )
    if report["exercised"] < report["edits"]:
        missed = report["edits"] - report["exercised"]
        text += f"; {missed} {'was' if missed == 1 else 'were'} not reached"
    if report["not_traceable"]:
        text += f"; {report['not_traceable']} more in other files than Python or in comments, which no run can show"
    return text


def unreached_functions(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Edits that were not reached, by ``file: function``, in files of which others were."""
    idle = unused_files(report)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in report["list"]:
        if row["traceable"] and not row["exercised"] and row["path"] not in idle:
            found.setdefault(f"{row['path']}: {row['function'] or 'top level'}", []).append(row)
    return found


def unused_files(report: dict[str, Any]) -> dict[str, int]:
    """Files none of whose edits ran, other programs of the project mostly, with the number of their edits."""
    ran = {row["path"] for row in report["list"] if row["exercised"]}
    found: dict[str, int] = {}
    for row in report["list"]:
        if row["traceable"] and row["path"] not in ran:
            found[row["path"]] = found.get(row["path"], 0) + 1
    return found


def dump(report: dict[str, Any]) -> str:
    """The report as JSON text."""
    return json.dumps(report, indent=1)
