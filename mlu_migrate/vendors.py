"""
Code that must keep its CUDA words because an MLU counterpart stands, or will stand, beside it.

Dispatch tables keep their "cuda" entry and gain an "mlu" one; an if / elif ladder or table that already has an mlu
branch is
left alone whole.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from mlu_migrate import loading
from mlu_migrate.flow import Proof, Shape
from mlu_migrate.sinks import DEVICE
from mlu_migrate.unit import Unit

_MLU = re.compile(r"(^|_|\b)mlu(\b|_|:|$)", re.IGNORECASE)
_CUDA = re.compile(r"cuda|nccl", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """
    A subtree whose CUDA words stay. ``why``: "entry" of a dispatch table, "sibling" beside an existing mlu
    branch, "tied" to a text that stays.
    """

    node: ast.AST
    why: str


def kept(unit: Unit) -> list[Kept]:
    """All such subtrees of a file; computed once a file."""
    found = unit.memo.get("vendors.kept")
    if found is None:
        found = [*_tables(unit), *_ladders(unit), *_groups(unit), *_tied(unit)]
        unit.memo["vendors.kept"] = found
        unit.memo["vendors.nodes"] = {k.node for k in found}
    return found  # type: ignore[return-value]


def is_kept(unit: Unit, node: ast.AST) -> bool:
    """Whether a node lies in a subtree that keeps its CUDA words."""
    kept(unit)
    nodes: set[ast.AST] = unit.memo["vendors.nodes"]  # type: ignore[assignment]
    return bool(nodes) and (node in nodes or any(a in nodes for a in unit.ancestors(node)))


def _tables(unit: Unit) -> list[Kept]:
    out: list[Kept] = []
    for node in unit.index.nodes[ast.Dict]:
        keys = [k.value for k in node.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
        cuda = [(k, v) for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant) and _is_cuda(k.value)]
        if not cuda or node in loading.tables(unit):
            continue
        if any(_is_mlu(k) for k in keys):
            out += [Kept(n, "sibling") for k, v in cuda for n in (k, v)]
        elif unit.flow.table(node, DEVICE).shape is Shape.KEY:
            out += [Kept(v, "entry") for _, v in cuda]
    return out


def _tied(unit: Unit) -> list[Kept]:
    """`suffix = "cuda" if torch.cuda.is_available() else "cpu"` for a file name: the question stays with its answer."""
    out: list[Kept] = []
    for node in unit.index.nodes[ast.IfExp]:
        value = node.body
        if isinstance(value, ast.Constant) and _names_device(value.value) and unit.flow.asks_availability(node.test):
            if unit.flow.of(value, DEVICE).proof is Proof.OTHER:
                out.append(Kept(node.test, "tied"))
    for branch in unit.index.nodes[ast.If]:
        only = branch.body[0] if len(branch.body) == 1 else None
        if (
            isinstance(only, (ast.Assign, ast.Return))
            and isinstance(only.value, ast.Constant)
            and _names_device(only.value.value)
        ):
            if unit.flow.asks_availability(branch.test) and unit.flow.of(only.value, DEVICE).proof is Proof.OTHER:
                out.append(Kept(branch.test, "tied"))
    return out


def _groups(unit: Unit) -> list[Kept]:
    """Tuples, lists and sets that hold both words, and match cases beside an mlu case."""
    out: list[Kept] = []
    for kind in (ast.Tuple, ast.List, ast.Set):
        for node in unit.index.nodes[kind]:
            texts = [e for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
            if any(_is_mlu(t.value) for t in texts):
                out += [Kept(t, "sibling") for t in texts if _is_cuda(t.value)]
    for node in unit.index.nodes[ast.MatchOr]:
        values = [p.value for p in node.patterns if isinstance(p, ast.MatchValue) and isinstance(p.value, ast.Constant)]
        if any(_is_mlu(v.value) for v in values):
            out += [Kept(v, "sibling") for v in values if _is_cuda(v.value)]
    for node in unit.index.nodes[ast.Match]:
        if any(_mentions(case.pattern, _MLU) and not _mentions(case.pattern, _CUDA) for case in node.cases):
            out += [Kept(c.pattern, "sibling") for c in node.cases if _mentions(c.pattern, _CUDA)]
    return out


def _is_cuda(value: object) -> bool:
    return isinstance(value, str) and (value in ("cuda", "nccl") or value.startswith("cuda:"))


def _names_device(value: object) -> bool:
    return isinstance(value, str) and DEVICE.text.fullmatch(value) is not None


def _is_mlu(value: object) -> bool:
    return isinstance(value, str) and (value in ("mlu", "cncl") or value.startswith("mlu:"))


def _ladders(unit: Unit) -> list[Kept]:
    out: list[Kept] = []
    for node in unit.index.nodes[ast.If]:
        parent = unit.parent(node)
        if isinstance(parent, ast.If) and parent.orelse == [node]:
            continue  # an elif: seen with its ladder
        rungs: list[tuple[ast.expr, list[ast.stmt]]] = []
        current: ast.If | None = node
        while current is not None:
            rungs.append((current.test, current.body))
            rest = current.orelse
            current = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
        if any(_mentions(t, _MLU) and not _mentions(t, _CUDA) for t, _ in rungs) and any(
            _mentions(t, _CUDA) for t, _ in rungs
        ):
            for test, body in rungs:
                if _mentions(test, _CUDA):
                    out += [Kept(test, "sibling"), *(Kept(s, "sibling") for s in body)]
    for node in unit.index.nodes[ast.IfExp]:
        rungs_exp: list[tuple[ast.expr, ast.expr]] = []
        now: ast.expr = node
        while isinstance(now, ast.IfExp):
            rungs_exp.append((now.test, now.body))
            now = now.orelse
        if any(_mentions(t, _MLU) and not _mentions(t, _CUDA) for t, _ in rungs_exp):
            out += [Kept(n, "sibling") for t, b in rungs_exp if _mentions(t, _CUDA) for n in (t, b)]
    return out


def _mentions(node: ast.AST, words: re.Pattern[str]) -> bool:
    for inner in ast.walk(node):
        text = (
            inner.id
            if isinstance(inner, ast.Name)
            else inner.attr
            if isinstance(inner, ast.Attribute)
            else inner.value
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
            else None
        )
        if text is not None and words.search(text):
            return True
    return False


def supports_mlu(unit: Unit) -> bool:
    """Whether the file chooses between CUDA and MLU itself: a ladder of conditions with a branch for each."""
    found = unit.memo.get("vendors.supports")
    if found is None:
        found = bool(_ladders(unit))
        unit.memo["vendors.supports"] = found
    return bool(found)
