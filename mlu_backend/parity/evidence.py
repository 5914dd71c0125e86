"""
Run-time evidence for edits the rewriter only guessed at: strings that were seen reaching a device.

The reference run writes down every device string that reaches torch, with the line that handed it over. A string keeps
no memory of the literal it came from, so the link is made by name: the argument at that line is an expression such as
``cfg["device"]`` or ``args.device``, and the unsafe finding is a literal bound to the same name (``"device": "cuda"``,
``default="cuda"`` of an option ``--device``, ``device = "cuda"``), or it stands in the argument itself.

A link that could be another literal's is none: where the project binds two literals of that text to the name, either
may be the one that was seen, and neither is proven.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mlu_backend.parity.coverage import _read
from mlu_backend.parity.editmap import EditMap

DEPTH = 3  # names that stand for names
_PLACES = ("device", "map_location", "device_type")
_LOOKED_UP = {"get", "getattr", "pop", "setdefault", "getenv"}

Place = tuple[str, int, int]  # file, line, column of a literal, from 1, in characters


def seen(folder: Path) -> list[dict[str, Any]]:
    """The device strings a run wrote down."""
    path = folder / "sinks.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def proven(edits: EditMap, sinks: Iterable[dict[str, Any]], root: Path) -> list[dict[str, Any]]:
    """
    Unsafe findings not applied whose string was seen reaching a device: ``{"path", "line", "column", "code", "text",
    "seen_at"}``, places of the original program.
    """
    files = _Files(root)
    used, direct = _reached(files, sinks)
    bound = _bound(files, edits.files)
    found = []
    for path, findings in sorted(edits.files.items()):
        for finding in findings:
            if finding["applied"] or finding.get("safety") != "unsafe":
                continue
            text = str(finding.get("before", "")).strip("\"'rRuU")
            place = files.literal(path, finding["source"][0], finding.get("column"), text)
            if place is None:
                continue
            names = [key for key, places in bound.items() if key[1] == text and places == {place}]
            where = direct.get((place, text)) or next((used[key] for key in names if key in used), None)
            if where is not None:
                _, line, column = place
                row = {"path": path, "line": line, "column": column, "code": finding["code"], "text": text}
                found.append({**row, "seen_at": where})
    return found


class _Files:
    """The original's files, parsed when they are asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees: dict[str, tuple[ast.Module, list[str]] | None] = {}

    def tree(self, path: str) -> ast.Module | None:
        """The syntax tree, None for what is no Python."""
        if path not in self._trees:
            source = _read(self._root / path)
            try:
                # no splitlines(): it knows line ends that Python does not
                lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n") if source is not None else []
                self._trees[path] = (ast.parse(source), lines) if source is not None else None
            except (SyntaxError, ValueError, RecursionError):
                self._trees[path] = None
        known = self._trees[path]
        return known[0] if known else None

    def place(self, path: str, node: ast.expr) -> Place:
        """Where a node of that file begins."""
        known = self._trees[path]
        assert known is not None
        line = known[1][node.lineno - 1].encode("utf-8", "surrogatepass")
        return path, node.lineno, len(line[: node.col_offset].decode("utf-8", "replace")) + 1

    def literal(self, path: str, line: int, column: int | None, text: str) -> Place | None:
        """The literal of a finding; without a column, the only one of its text on the line."""
        tree = self.tree(path)
        if tree is None:
            return None
        places = [
            self.place(path, node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value == text and node.lineno == line
        ]
        if column is not None:
            places = [place for place in places if place[2] == column]
        return places[0] if len(places) == 1 else None


def _reached(
    files: _Files, sinks: Iterable[dict[str, Any]]
) -> tuple[dict[tuple[str, str], str], dict[tuple[Place, str], str]]:
    """By (name, text) and by (literal, text): where a string was handed over."""
    used: dict[tuple[str, str], str] = {}
    direct: dict[tuple[Place, str], str] = {}
    for sink in sinks:
        path, text, where = sink["file"], sink["text"], f"{sink['file']}:{sink['line']}"
        tree = files.tree(path)
        if tree is None:
            continue
        for argument in _arguments(tree, sink["line"], sink["sink"]):
            for leaf in _leaves(argument, tree):
                if isinstance(leaf, ast.Constant):
                    direct.setdefault((files.place(path, leaf), text), where)
                name = _last_name(leaf)
                if name:
                    used.setdefault((name, text), where)
    return used, direct


def _bound(files: _Files, paths: Iterable[str]) -> dict[tuple[str, str], set[Place]]:
    """The literals of the project by (name they are bound to, text)."""
    found: dict[tuple[str, str], set[Place]] = {}
    for path in paths:
        tree = files.tree(path)
        for name, value in _bindings(tree) if tree is not None else ():
            for leaf in _leaves(value):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    found.setdefault((name, leaf.value), set()).add(files.place(path, leaf))
    return found


def _arguments(tree: ast.Module, line: int, sink: str) -> Iterator[ast.expr]:
    """
    What was handed to torch on a line: the arguments of the call of that name; else those that say where something
    goes; else those of the line's only call.
    """
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    named = [call for call in calls if _last_name(call.func) == sink]
    places = [k.value for call in calls for k in call.keywords if k.arg in _PLACES]
    if not named and places:
        yield from places
        return
    for call in named or (calls if len(calls) == 1 else [c for c in calls if _last_name(c.func) is None]):
        yield from call.args
        yield from (keyword.value for keyword in call.keywords)


def _leaves(node: ast.expr, tree: ast.Module | None = None, depth: int = 0) -> Iterator[ast.expr]:
    """The expressions one of which a value is: through conditions and defaults, and with ``tree`` through a name."""
    if isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.NamedExpr):
        parts = [node.value]
    elif isinstance(node, ast.Call) and _is_lookup(node):
        yield node
        parts = [*node.args[1 + (_last_name(node.func) == "getattr") :], *(k.value for k in node.keywords)]
    elif isinstance(node, ast.Call) and _last_name(node.func) == "str":
        parts = node.args
    else:
        yield node
        parts = _assigned(tree, node.id) if tree is not None and isinstance(node, ast.Name) and depth < DEPTH else []
    for part in parts:
        yield from _leaves(part, tree, depth + 1)


def _is_lookup(call: ast.Call) -> bool:
    return bool(call.args) and _last_name(call.func) in _LOOKED_UP


def _assigned(tree: ast.Module, name: str) -> list[ast.expr]:
    """The value of a name that the file assigns once."""
    values = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    return values if len(values) == 1 else []


def _last_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    key: ast.AST | None = None
    if isinstance(node, ast.Subscript):
        key = node.slice
    elif isinstance(node, ast.Call) and _is_lookup(node):
        key = node.args[1 if _last_name(node.func) == "getattr" and len(node.args) > 1 else 0]
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _bindings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is bound to them: variable, attribute, key, keyword, parameter, option."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((name, node.value) for target in node.targets if (name := _last_name(target)))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from ((name, node.value) for name in [_last_name(node.target)] if name)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                names = _option_names(node) if keyword.arg == "default" else ()
                yield from ((name, keyword.value) for name in (*names, *([keyword.arg] if keyword.arg else ())))
        elif isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            defaults = zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True)
            for argument, default in (*defaults, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
                if default is not None:
                    yield argument.arg, default


def _option_names(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value.startswith("-"):
            yield argument.value.lstrip("-").replace("-", "_")
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)
