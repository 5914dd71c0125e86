"""
Scopes and bindings: what gives a name a meaning, and where.

``ENTER`` says what the walk over a file (index.py) does at each kind of node that opens a scope or binds a name.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlu_migrate.index import Index

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False, slots=True)
class Binding:
    """
    One place that gives a name a meaning. ``kind``: import, assign, param, loop, with, def, class, except,
    del, other.
    """

    kind: str
    name: str
    node: ast.AST
    value: ast.expr | None = None
    target: str | None = None  # canonical name, for imports
    level: int = 0  # leading dots of a relative import


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function, lambda or comprehension."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)  # name -> "global" | "nonlocal"
    stars: list[ast.ImportFrom] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, FUNCTIONS)

    def bind(self, binding: Binding) -> None:
        """Record a binding in the scope that really receives it."""
        where: Scope = self
        how = self.outer.get(binding.name)
        if how == "global":
            while where.parent is not None:
                where = where.parent
        elif how == "nonlocal":
            scope = self.parent
            while scope is not None and (scope.is_class or binding.name not in scope.bindings):
                scope = scope.parent
            where = scope or self
        where.bindings.setdefault(binding.name, []).append(binding)


def _joined(index: Index, node: ast.JoinedStr, scope: Scope) -> None:
    if index.before_text is not None:
        index.before_text(node)


def _import(index: Index, node: ast.Import, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    for alias in node.names:
        index.parents[alias] = node
        if alias.asname:
            scope.bind(Binding("import", alias.asname, alias, target=alias.name))
        else:
            root = alias.name.partition(".")[0]
            scope.bind(Binding("import", root, alias, target=root))
    return []


def _import_from(index: Index, node: ast.ImportFrom, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    for alias in node.names:
        index.parents[alias] = node
        if alias.name == "*":
            scope.stars.append(node)
            continue
        target = f"{node.module}.{alias.name}" if node.module else alias.name
        scope.bind(Binding("import", alias.asname or alias.name, alias, target=target, level=node.level))
    return []


def _bind_target(scope: Scope, kind: str, target: ast.AST, node: ast.AST, value: ast.expr | None) -> None:
    stack: list[tuple[ast.AST, ast.expr | None]] = [(target, value)]
    while stack:
        current, given = stack.pop()
        if isinstance(current, ast.Name):
            scope.bind(Binding(kind, current.id, node, given))
        elif isinstance(current, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(current.elts)
            if isinstance(given, (ast.Tuple, ast.List)) and len(given.elts) == len(current.elts):
                values = list(given.elts)
            stack.extend(zip(current.elts, values))
        elif isinstance(current, ast.Starred):
            stack.append((current.value, None))


def _assign(index: Index, node: ast.Assign, scope: Scope) -> None:
    for target in node.targets:
        _bind_target(scope, "assign", target, node, node.value)


def _ann_assign(index: Index, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None or not isinstance(node.target, ast.Name):
        _bind_target(scope, "assign", node.target, node, node.value)
    else:
        _bind_target(scope, "declare", node.target, node, None)


def _aug_assign(index: Index, node: ast.AugAssign, scope: Scope) -> None:
    _bind_target(scope, "other", node.target, node, None)


def _named(index: Index, node: ast.NamedExpr, scope: Scope) -> None:
    where: Scope = scope
    while isinstance(where.node, COMPREHENSIONS) and where.parent is not None:
        where = where.parent
    _bind_target(where, "assign", node.target, node, node.value)


def _for(index: Index, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
    _bind_target(scope, "loop", node.target, node, node.iter)


def _with(index: Index, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
    for item in node.items:
        if item.optional_vars is not None:
            _bind_target(scope, "with", item.optional_vars, node, item.context_expr)


def _handler(index: Index, node: ast.ExceptHandler, scope: Scope) -> None:
    if node.name:
        scope.bind(Binding("except", node.name, node))


def _outer(how: str) -> Any:
    def enter(index: Index, node: ast.Global | ast.Nonlocal, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        for name in node.names:
            scope.outer[name] = how
        return []

    return enter


def _delete(index: Index, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            scope.bind(Binding("del", target.id, node))


def _function(index: Index, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    scope.bind(Binding("def", node.name, node))
    inner = Scope(node, scope)
    index.scopes[node] = inner
    items: list[tuple[ast.AST | None, Scope]] = [(d, scope) for d in node.decorator_list]
    _arguments(index, node, node.args, scope, inner, items)
    items.append((node.returns, scope))
    items.extend((s, inner) for s in node.body)
    # Declarations anywhere in the body hold for the whole body.
    for statement in ast.walk(node) if _declares(node) else ():
        if isinstance(statement, (ast.Global, ast.Nonlocal)):
            for name in statement.names:
                inner.outer[name] = "global" if isinstance(statement, ast.Global) else "nonlocal"
    return index.placed(node, items)


def _declares(node: ast.AST) -> bool:
    return any(isinstance(s, (ast.Global, ast.Nonlocal)) for s in getattr(node, "body", ()))


def _arguments(
    index: Index,
    node: ast.AST,
    args: ast.arguments,
    scope: Scope,
    inner: Scope,
    items: list[tuple[ast.AST | None, Scope]],
) -> None:
    index.parents[args] = node
    index.nodes[ast.arguments].append(args)
    positional = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    rest = [a for a in (args.vararg, args.kwarg) if a is not None]
    for arg, default in [
        *zip(positional, defaults),
        *zip(args.kwonlyargs, args.kw_defaults),
        *((a, None) for a in rest),
    ]:
        inner.bind(Binding("param", arg.arg, arg, default))
        index.parents[arg] = args
        index.nodes[ast.arg].append(arg)
        index.scope_of[arg] = inner
        if arg.annotation is not None:
            items.append((arg.annotation, scope))
        if default is not None:
            items.append((default, scope))


def _lambda(index: Index, node: ast.Lambda, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    inner = Scope(node, scope)
    index.scopes[node] = inner
    items: list[tuple[ast.AST | None, Scope]] = []
    _arguments(index, node, node.args, scope, inner, items)
    items.append((node.body, inner))
    return index.placed(node, items)


def _class(index: Index, node: ast.ClassDef, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    scope.bind(Binding("class", node.name, node))
    inner = Scope(node, scope)
    index.scopes[node] = inner
    items: list[tuple[ast.AST | None, Scope]] = [(d, scope) for d in node.decorator_list]
    items.extend((b, scope) for b in node.bases)
    items.extend((k, scope) for k in node.keywords)
    items.extend((s, inner) for s in node.body)
    return index.placed(node, items)


def _comprehension(index: Index, node: Any, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    inner = Scope(node, scope)
    index.scopes[node] = inner
    items: list[tuple[ast.AST | None, Scope]] = []
    for number, generator in enumerate(node.generators):
        index.parents[generator] = node
        index.nodes[ast.comprehension].append(generator)
        _bind_target(inner, "loop", generator.target, generator, generator.iter)
        where = scope if number == 0 else inner
        index.scope_of[generator] = where
        for child, child_scope in (
            (generator.iter, where),
            (generator.target, inner),
            *((c, inner) for c in generator.ifs),
        ):
            items.append((child, child_scope))
    elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    items.extend((e, inner) for e in elements)
    out = index.placed(node, items)
    for generator in node.generators:
        for child in (generator.iter, generator.target, *generator.ifs):
            index.parents[child] = generator
    return out


def _match_as(index: Index, node: Any, scope: Scope) -> None:
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    if name:
        scope.bind(Binding("other", name, node))


ENTER: dict[type, Any] = {
    ast.JoinedStr: _joined,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.NamedExpr: _named,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _handler,
    ast.Global: _outer("global"),
    ast.Nonlocal: _outer("nonlocal"),
    ast.Delete: _delete,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.ClassDef: _class,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.MatchAs: _match_as,
    ast.MatchStar: _match_as,
    ast.MatchMapping: _match_as,
}
