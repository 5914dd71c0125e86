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
from functools import cached_property
from typing import Any

from mlu_migrate.scopes import ENTER, Scope


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
        self.before_text = before_text
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
            enter = ENTER.get(kind)
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

    def placed(self, parent: ast.AST, items: list[tuple[ast.AST | None, Scope]]) -> list[tuple[ast.AST, Scope]]:
        """Children with the scopes they are evaluated in, the absent ones left out, once their parent is noted."""
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
