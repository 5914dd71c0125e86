"""
Code that must keep its CUDA words because an MLU counterpart stands, or will stand, beside it.

Dispatch tables keep their "cuda" entry and gain an "mlu" one; an if / elif ladder or table that already has an mlu
branch is
left alone whole.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlu_migrate import loading
from mlu_migrate.flow import Proof, Shape
from mlu_migrate.flow import tables as flow_tables
from mlu_migrate.sinks import DEVICE, OTHER_DEVICES
from mlu_migrate.unit import Unit

_MLU = re.compile(r"(^|_|\b)(mlu|Mlu|MLU)(\b|_|:|$)")
_CUDA = re.compile(r"cuda|nccl", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """
    A subtree whose CUDA words stay. ``why``: "entry" of a dispatch table, "sibling" beside an existing mlu
    branch, "tied" to a text that stays.
    """

    node: ast.AST
    why: str
    group: int = 0  # one finding is told for all members of a group; 0 stands alone


def kept(unit: Unit) -> list[Kept]:
    """All such subtrees of a file; computed once a file."""
    found = unit.memo.get("vendors.kept")
    if found is None:
        found = [*_tables(unit), *_ladders(unit), *_twins(unit), *_groups(unit), *_tied(unit)]
        if supports_mlu(unit):
            found += _of_others(unit)
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
            out += [Kept(n, "sibling", id(k)) for k, v in cuda for n in (k, v)]
        elif flow_tables.table(unit.flow, node, DEVICE).shape is Shape.KEY:
            out += [Kept(v, "entry") for _, v in cuda]
    for call in unit.index.nodes[ast.Call]:
        words = {k.arg: k.value for k in call.keywords}
        if "cuda" not in words or unit.name(call.func) != "dict":
            continue
        if "mlu" in words:
            out.append(Kept(words["cuda"], "sibling"))
        elif words.keys() & OTHER_DEVICES and _below_torch_cuda(unit, words["cuda"]):
            out.append(Kept(words["cuda"], "entry"))
    return out


def _below_torch_cuda(unit: Unit, node: ast.AST) -> bool:
    return any(
        (unit.name(inner) or "").startswith("torch.cuda")
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
    )


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
    known = unit.memo.get("vendors.ladders")
    if known is None:
        known = unit.memo["vendors.ladders"] = _find_ladders(unit) if _names_mlu(unit) else []
    return known  # type: ignore[return-value]


def _names_mlu(unit: Unit) -> bool:
    return b"mlu" in unit.data or b"MLU" in unit.data or b"Mlu" in unit.data


def _find_ladders(unit: Unit) -> list[Kept]:
    out: list[Kept] = []
    for node in unit.index.nodes[ast.If]:
        parent = unit.parent(node)
        if isinstance(parent, ast.If) and parent.orelse == [node]:
            continue  # an elif: seen with its ladder
        rungs: list[tuple[ast.AST, list[ast.AST]]] = []
        last: list[ast.AST] = []
        current: ast.If | None = node
        while current is not None:
            rungs.append((current.test, list(current.body)))
            rest = current.orelse
            current = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
            last = list(rest) if current is None else []
        out += _cuda_side(rungs, last)
    for rungs, last in _returning(unit):
        out += _cuda_side(rungs, last)
    for outer in unit.index.nodes[ast.IfExp]:
        chosen: list[tuple[ast.AST, list[ast.AST]]] = []
        now: ast.expr = outer
        while isinstance(now, ast.IfExp):
            chosen.append((now.test, [now.body]))
            now = now.orelse
        out += _cuda_side(chosen, [now])
    return out


def _cuda_side(rungs: list[tuple[ast.AST, list[ast.AST]]], last: list[ast.AST]) -> list[Kept]:
    """Of a choice with a side for the MLU: the sides whose test names CUDA, or the rest where no test does."""
    if not any(_mentions(t, _MLU) and not _mentions(t, _CUDA) for t, _ in rungs):
        return []
    cuda = [(t, body) for t, body in rungs if _mentions(t, _CUDA)]
    if cuda:
        return [Kept(n, "sibling", id(t)) for t, body in cuda for n in (t, *body)]
    return [Kept(n, "sibling", id(last[0])) for n in last if any(_mentions(part, _CUDA) for part in last)]


def _returning(unit: Unit) -> Iterator[tuple[list[tuple[ast.AST, list[ast.AST]]], list[ast.AST]]]:
    """`if is_mlu_available(): return a` and, below it, `if is_cuda_available(): return b`: a ladder all the same."""
    seen: set[ast.AST] = set()
    for node in unit.index.nodes[ast.If]:
        if node in seen or not _leaves(node):
            continue
        block = next((b for b in _blocks(unit.parent(node)) if node in b), [])
        run = [node]
        rest = block[block.index(node) + 1 :] if block else []
        while rest and isinstance(rest[0], ast.If) and _leaves(rest[0]):
            run.append(rest[0])
            rest = rest[1:]
        seen.update(run)
        last: list[ast.AST] = [rest[0]] if rest and isinstance(rest[0], ast.Return) else []
        if len(run) > 1 or last:
            yield [(n.test, list(n.body)) for n in run], last


# Vendors whose devices are reached through torch.cuda or beside it.
_OTHERS = re.compile(r"^(torch_)?(hip|rocm|xla|tpu)(:|$)|(^|_)(hip|rocm|xla|tpu)(_|$)")


def _of_others(unit: Unit) -> list[Kept]:
    """In a file that knows the MLU: statements and conditions that tell CUDA from another vendor's device."""
    out: list[Kept] = []
    for kind in (ast.If, ast.IfExp, ast.While):
        for node in unit.index.nodes[kind]:
            if _mentions(node.test, _OTHERS) and _mentions(node.test, _CUDA):
                out.append(Kept(node.test, "sibling", id(node)))
    tests = {k.node for k in out}
    for value in [n.value for kind in (ast.Return, ast.Assign) for n in unit.index.nodes[kind]]:
        if value is not None:
            if isinstance(value, (ast.BoolOp, ast.Compare)) or isinstance(value, ast.IfExp) and value.test not in tests:
                if _mentions(value, _OTHERS) and _mentions(value, _CUDA):
                    out.append(Kept(value, "sibling", id(value)))
    return out


def _leaves(node: ast.If) -> bool:
    return not node.orelse and isinstance(node.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _blocks(parent: ast.AST | None) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list):
            yield block


def _twins(unit: Unit) -> list[Kept]:
    """`def is_cuda_available` beside `def is_mlu_available`: each answers for its own device."""
    if not _names_mlu(unit):
        return []
    out: list[Kept] = []
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for node in unit.index.nodes[kind]:
            if "cuda" not in node.name:
                continue
            bound = unit.index.scope(node).bindings.get(node.name.replace("cuda", "mlu"), ())
            if any(isinstance(b.node, (ast.FunctionDef, ast.AsyncFunctionDef)) for b in bound):
                body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
                out += [Kept(n, "sibling", id(node)) for n in body]
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


# Names a project gives its own question for an MLU. The rewriter makes none of them.
_ASKS = re.compile(
    r"^(is|has|have|use|using|with)_(torch_)?mlu(_is)?(_available)?$|^(torch_)?mlu_available$", re.IGNORECASE
)


def supports_mlu(unit: Unit) -> bool:
    """Whether the file chooses between CUDA and MLU itself: a branch for each, or a question of its own."""
    found = unit.memo.get("vendors.supports")
    if found is None:
        found = bool(_ladders(unit) or _twins(unit)) or _asks(unit)
        unit.memo["vendors.supports"] = found
    return bool(found)


def _asks(unit: Unit) -> bool:
    if not _names_mlu(unit):
        return False
    for kind in (ast.If, ast.IfExp, ast.While):
        for node in unit.index.nodes[kind]:
            for inner in ast.walk(node.test):
                name = (
                    inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else ""
                )
                if name != "is_mlu" and _ASKS.search(name):
                    return True
    return False
