"""
Run-time evidence for edits the rewriter only guessed at: strings that were seen reaching a device.

The reference run writes down every device string that reaches torch, with the line that handed it over. A string keeps
no memory of the literal it came from, so the link is made by name: the argument at that line is an expression such as
``cfg["device"]`` or ``args.device``, and the unsafe finding is a literal bound to the same name (``"device": "cuda"``,
``default="cuda"`` of an option ``--device``, ``device = "cuda"``), or it stands on that very line.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mlu_backend.parity.coverage import _read
from mlu_backend.parity.editmap import EditMap


def seen(folder: Path) -> list[dict[str, Any]]:
    """The device strings a run wrote down."""
    path = folder / "sinks.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def proven(edits: EditMap, sinks: Iterable[dict[str, Any]], root: Path) -> list[dict[str, Any]]:
    """
    Unsafe findings not applied whose string was seen reaching a device: ``{"path", "line", "code", "text",
    "seen_at"}``, lines of the original program.
    """
    used: dict[tuple[str, str], str] = {}
    direct: dict[tuple[str, int], str] = {}
    trees: dict[str, ast.Module | None] = {}
    for sink in sinks:
        where = f"{sink['file']}:{sink['line']}"
        direct[sink["file"], sink["line"]] = where
        for name in _argument_names(_tree(trees, root, sink["file"]), sink["line"]):
            used.setdefault((name, sink["text"]), where)
    found = []
    for path, findings in sorted(edits.files.items()):
        for finding in findings:
            if finding["applied"] or finding.get("safety") != "unsafe":
                continue
            line, text = finding["source"][0], str(finding.get("before", "")).strip("\"'rRuU")
            where = direct.get((path, line))
            if where is None:
                names = _bound_names(_tree(trees, root, path), line, text)
                where = next((used[n, text] for n in names if (n, text) in used), None)
            if where is not None:
                found.append({"path": path, "line": line, "code": finding["code"], "text": text, "seen_at": where})
    return found


def _tree(trees: dict[str, ast.Module | None], root: Path, path: str) -> ast.Module | None:
    if path not in trees:
        source = _read(root / path)
        try:
            trees[path] = ast.parse(source) if source is not None else None
        except (SyntaxError, ValueError, RecursionError):
            trees[path] = None
    return trees[path]


def _last_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return None


def _argument_names(tree: ast.Module | None, line: int) -> Iterator[str]:
    """Names of the expressions handed to calls on a line."""
    if tree is None:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            for argument in (*node.args, *(k.value for k in node.keywords)):
                for part in ast.walk(argument):
                    name = _last_name(part)
                    if name:
                        yield name


def _bound_names(tree: ast.Module | None, line: int, text: str) -> Iterator[str]:
    """Names a literal on a line is bound to: variable, attribute, key, keyword, parameter, option."""
    if tree is None:
        return

    def here(node: ast.AST | None) -> bool:
        return any(
            isinstance(n, ast.Constant) and n.value == text and n.lineno <= line <= (n.end_lineno or n.lineno)
            for n in (ast.walk(node) if node is not None else ())
        )

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and here(node.value):
            yield from (n for t in node.targets if (n := _last_name(t)))
        elif isinstance(node, ast.AnnAssign) and here(node.value):
            yield from filter(None, [_last_name(node.target)])
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and here(value):
                    yield key.value
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg and here(keyword.value):
                    yield keyword.arg
            if any(here(k.value) for k in node.keywords if k.arg == "default"):
                yield from _option_names(node)
        elif isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            for argument, default in zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True):
                if here(default):
                    yield argument.arg
            for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                if here(default):
                    yield argument.arg


def _option_names(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value.startswith("-"):
            yield argument.value.lstrip("-").replace("-", "_")
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)
