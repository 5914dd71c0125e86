"""
The one walk over a file: parents, scopes, bindings, and nodes listed by type.

Everything rules need is collected here once, so rules never walk. `ast` is used rather than libcst because its parse
costs 13 % of libcst's and its positions are byte columns already; libcst checks each edited place afterwards (guard.py)
and takes over f-strings where the running Python gives wrong positions (strings.py).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


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


class Index:
    """What one walk of a module leaves behind."""

    def __init__(self, tree: ast.Module, before_text: Callable[[ast.JoinedStr], None] | None = None) -> None:
        """``before_text`` is handed each f-string before the walk goes into it, and may put other nodes into it."""
        self.tree = tree
        self.nodes: dict[type, list[Any]] = defaultdict(list)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scope_of: dict[
            ast.AST, Scope
        ] = {}  # for Name, Lambda, def, class, comprehension, call: where it is evaluated
        self.module = Scope(tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self._before_text = before_text
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)
        self._run(tree)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The syntactic parent."""
        return self.parents.get(node)

    def scope(self, node: ast.AST) -> Scope:
        """The scope a node is evaluated in."""
        found = self.scope_of.get(node)
        while found is None:
            up = self.parents.get(node)
            if up is None:
                return self.module
            found = self.scopes.get(up) if not _evaluated_outside(up, node) else None
            node = up
            found = found or self.scope_of.get(node)
        return found

    # The walk is iterative: 400 chained calls overflow Python's stack otherwise. Children are put on the stack last
    # first; the kinds that make up most of a file are dealt with in place.
    def _run(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(s, self.module) for s in reversed(tree.body)]
        push, pop = stack.append, stack.pop
        parents, nodes, scope_of, attributes = self.parents, self.nodes, self.scope_of, self.attributes
        names, constants, dotted = nodes[ast.Name], nodes[ast.Constant], nodes[ast.Attribute]
        for statement in tree.body:
            parents[statement] = tree
        while stack:
            node, scope = pop()
            kind = type(node)
            if kind is ast.Name:
                names.append(node)
                scope_of[node] = scope
                continue
            if kind is ast.Constant:
                constants.append(node)
                continue
            if isinstance(node, ast.Attribute):
                dotted.append(node)
                attributes[node.attr].append(node)
                child = node.value
                parents[child] = node
                push((child, scope))
                continue
            nodes[kind].append(node)
            enter = _ENTER.get(kind)
            if enter is not None:
                inner = enter(self, node, scope)
                if inner is not None:
                    stack.extend(reversed(inner))
                    continue
            for name in _CHILDREN.get(kind) or _children_of(kind):
                value = getattr(node, name, None)
                if value.__class__ is list:
                    for item in reversed(value):
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            push((item, scope))
                elif isinstance(value, ast.AST):
                    parents[value] = node
                    push((value, scope))

    @cached_property
    def loads(self) -> dict[tuple[Scope, str], list[ast.Name]]:
        """The places that read a name, by the scope whose name it is."""
        found: dict[tuple[Scope, str], list[ast.Name]] = {}
        for name in self.nodes[ast.Name]:
            if isinstance(name.ctx, ast.Load):
                owner = self.owner(self.scope_of[name], name.id)
                if owner is not None:
                    found.setdefault((owner, name.id), []).append(name)
        return found

    def owner(self, scope: Scope, name: str) -> Scope | None:
        """The scope whose binding a name used in ``scope`` refers to, None for builtins and unknowns."""
        first = True
        current: Scope | None = scope
        if scope.outer.get(name) == "global":
            return self.module if name in self.module.bindings else None
        while current is not None:
            if (first or not current.is_class) and name in current.bindings:
                return current
            first = False
            current = current.parent
        return None

    def _children(self, parent: ast.AST, items: list[tuple[ast.AST | None, Scope]]) -> list[tuple[ast.AST, Scope]]:
        out: list[tuple[ast.AST, Scope]] = []
        for item, scope in items:
            if item is not None:
                self.parents[item] = parent
                out.append((item, scope))
        return out


_CHILDREN: dict[type, tuple[str, ...]] = {}


def _children_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """Fields that may hold nodes, last first; operators and contexts are no nodes here."""
    found = tuple(name for name in reversed(kind._fields) if name not in ("ctx", "op", "ops"))
    return _CHILDREN.setdefault(kind, found)


def _evaluated_outside(owner: ast.AST, child: ast.AST) -> bool:
    if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return child not in owner.body
    if isinstance(owner, ast.ClassDef):
        return child not in owner.body
    if isinstance(owner, ast.Lambda):
        return child is owner.args
    return False


def _joined(index: Index, node: ast.JoinedStr, scope: Scope) -> None:
    if index._before_text is not None:
        index._before_text(node)


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
    return index._children(node, items)


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
    return index._children(node, items)


def _class(index: Index, node: ast.ClassDef, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    index.scope_of[node] = scope
    scope.bind(Binding("class", node.name, node))
    inner = Scope(node, scope)
    index.scopes[node] = inner
    items: list[tuple[ast.AST | None, Scope]] = [(d, scope) for d in node.decorator_list]
    items.extend((b, scope) for b in node.bases)
    items.extend((k, scope) for k in node.keywords)
    items.extend((s, inner) for s in node.body)
    return index._children(node, items)


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
    out = index._children(node, items)
    for generator in node.generators:
        for child in (generator.iter, generator.target, *generator.ifs):
            index.parents[child] = generator
    return out


def _match_as(index: Index, node: Any, scope: Scope) -> None:
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    if name:
        scope.bind(Binding("other", name, node))


_ENTER: dict[type, Any] = {
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
