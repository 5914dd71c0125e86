"""Types written as text: string annotations, forward references in typing calls, and type comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from mlu_migrate.names import last_word
from mlu_migrate.scopes import Scope
from mlu_migrate.unit import Unit

_TYPING = ("typing.", "typing_extensions.", "collections.abc.")
_COMMENT = re.compile(r"#[ \t]*type:[ \t]*(?!ignore\b)(?P<type>[^#]*)")


# A cheap look before the file is tokenised.
_MENTIONED = re.compile(rb"#[ \t]*type:[^\r\n]*cuda")


def texts(unit: Unit) -> dict[ast.AST, Scope]:
    """String constants that are types, with the scope their names are looked up in; worked out once a file."""
    known = unit.memo.get("typetexts.texts")
    if known is None:
        known = dict(_texts(unit)) if b"cuda" in unit.data else {}
        unit.memo["typetexts.texts"] = known
    return known  # type: ignore[return-value]


def comments(unit: Unit) -> list[tuple[int, str]]:
    """(offset, text) of what stands behind `# type:` in each type comment."""
    if not _MENTIONED.search(unit.data):
        return []
    out: list[tuple[int, str]] = []
    try:
        for token in tokenize.tokenize(io.BytesIO(unit.data).readline):
            if token.type == tokenize.COMMENT:
                match = _COMMENT.match(token.string)
                if match and match["type"].strip():
                    line_start = unit.source.starts[token.start[0] - 1]
                    head = token.line[: token.start[1]] + token.string[: match.start("type")]
                    out.append((line_start + len(head.encode("utf-8")), match["type"]))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass  # the file parsed; the comments read so far are what there is
    return out


def name_in(unit: Unit, root: str, scope: Scope) -> str | None:
    """The canonical name a bare name would have if it were evaluated in a scope."""
    owner = unit.index.owner(scope, root)
    if owner is None:
        return None
    found: set[str] = set()
    for binding in owner.bindings[root]:
        found |= unit.names.meaning(binding)
    return found.pop() if len(found) == 1 else None


def _texts(unit: Unit) -> Iterator[tuple[ast.AST, Scope]]:
    for arg in unit.index.nodes[ast.arg]:
        yield from _inside(unit, arg.annotation)
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for function in unit.index.nodes[kind]:
            yield from _inside(unit, function.returns)
    for assign in unit.index.nodes[ast.AnnAssign]:
        yield from _inside(unit, assign.annotation)
    for call in unit.index.nodes[ast.Call]:
        name = unit.callee(call) or ""
        leaf = name.rpartition(".")[2]
        if not name.startswith(_TYPING) or leaf not in ("cast", "TypeVar", "NewType", "NamedTuple", "ForwardRef"):
            continue
        if leaf == "cast":
            yield from _inside(unit, call.args[0] if call.args else None)
            continue
        for given in (*(call.args if leaf == "ForwardRef" else call.args[1:]), *(k.value for k in call.keywords)):
            if leaf == "NamedTuple" and isinstance(given, (ast.List, ast.Tuple)):
                for field in given.elts:
                    if isinstance(field, ast.Tuple) and len(field.elts) == 2:
                        yield from _inside(unit, field.elts[1])
            else:
                yield from _inside(unit, given)
    for subscript in unit.index.nodes[ast.Subscript]:
        name = unit.name(subscript.value) or ""
        if name.startswith(_TYPING) and not name.endswith((".Literal", ".Annotated")):
            yield from _inside(unit, subscript.slice)


def _inside(unit: Unit, annotation: ast.expr | None) -> Iterator[tuple[ast.AST, Scope]]:
    """String constants of one annotation, outside `Literal[...]` and the extras of `Annotated[...]`."""
    stack: list[ast.AST] = [annotation] if annotation is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, unit.scope(node)
        elif isinstance(node, ast.Subscript):
            leaf = last_word(node.value)
            if leaf == "Annotated" and isinstance(node.slice, ast.Tuple):
                stack.append(node.slice.elts[0])
            elif leaf != "Literal":
                stack.append(node.slice)
        elif isinstance(node, (ast.Tuple, ast.List, ast.BinOp, ast.Starred)):
            stack.extend(ast.iter_child_nodes(node))
