"""
What a name means: canonical dotted names through imports, aliases, re-exports and shadowing.

`Names.of(node)` gives the one canonical name an expression has, or None where it has none or several. A name that a
`try` binds by import and its handler by a stand-in (None, False, a stub) keeps the imported meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from mlu_migrate.index import Index
from mlu_migrate.scopes import Binding, Scope

UNKNOWN = "?"
NOTHING = frozenset((UNKNOWN,))  # one object, so that callers may ask for it with `is`
_TORCH = frozenset(("torch",))
_LIMIT = 12  # aliases of aliases; deeper chains are treated as unknown


class Names:
    """Canonical names of one module's expressions."""

    def __init__(
        self,
        index: Index,
        module: str = "",
        exports: Mapping[str, Mapping[str, str]] | None = None,
        stars: Mapping[str, frozenset[str]] | None = None,
        is_package: bool = False,
    ) -> None:
        self.index = index
        self.module = module
        self.is_package = is_package
        self.exports = exports or {}
        self.stars = stars or {}
        self._holding: frozenset[str] | None = None
        self._cache: dict[ast.AST, frozenset[str]] = {}
        self._roots: dict[ast.Name, frozenset[str]] = {}  # of the names that dotted names begin with
        self._star_modules = [n for scope in index.scopes.values() for n in scope.stars]

    def of(self, node: ast.AST | None) -> str | None:
        """The single canonical name of a Name, Attribute or alias expression, or None."""
        if node is None:
            return None
        found = self.all_of(node)
        if len(found) == 1:
            (name,) = found
            return None if name == UNKNOWN else name
        return None

    def all_of(self, node: ast.AST, depth: int = 0) -> frozenset[str]:
        """Every canonical name an expression may have; contains "?" where something unknown is among them."""
        cached = self._cache.get(node)
        if cached is not None:
            return cached
        if depth > _LIMIT:
            return NOTHING
        self._cache[node] = NOTHING  # a cycle of aliases ends here
        parts: list[str] = []
        current = node
        while isinstance(current, ast.Attribute):
            parts.append(current.attr)
            current = current.value
        if isinstance(current, ast.Name):
            roots = self._roots.get(current) or self._root(current, depth)
            if parts and parts[-1] in self._holding_torch() and (roots == NOTHING or self._is_own_class(current.id)):
                parts.pop()
                roots = frozenset(("torch",))
        elif isinstance(current, ast.Subscript):
            roots = self._module_of_text(current, depth)
        elif isinstance(current, ast.IfExp) and not parts:
            roots = self.all_of(current.body, depth + 1) | self.all_of(current.orelse, depth + 1)
        elif isinstance(current, ast.Call):
            roots = self._dynamic(current, depth)
        else:
            roots = NOTHING
        if roots == NOTHING:
            return NOTHING
        suffix = ".".join(reversed(parts))
        result = frozenset(self._export(f"{r}.{suffix}" if suffix and r != UNKNOWN else r) for r in roots)
        self._cache[node] = result
        return result

    def _holding_torch(self) -> frozenset[str]:
        """Attributes given the module torch and nothing else: `self.th = torch`, or imported by a class body."""
        if self._holding is None:
            self._holding = frozenset()  # what a question asked on the way sees
            classes = [scope for scope in self.index.scopes.values() if scope.is_class]
            found = {
                name
                for scope in classes
                for name, bindings in scope.bindings.items()
                if all(self.meaning(binding) == _TORCH for binding in bindings)
            }
            given: set[ast.Attribute] = set()
            for node in self.index.nodes[ast.Assign]:
                target = node.targets[0]
                if isinstance(target, ast.Attribute) and isinstance(node.value, ast.Name) and len(node.targets) == 1:
                    if isinstance(target.value, ast.Name) and self.all_of(node.value) == _TORCH:
                        given.add(target)
            found |= {node.attr for node in given}
            self._holding = frozenset(name for name in found if self._only_in(name, given, classes))
        return self._holding

    def _is_own_class(self, name: str) -> bool:
        bindings = self.index.module.bindings.get(name, ())
        return bool(bindings) and all(binding.kind == "class" for binding in bindings)

    def _only_in(self, name: str, given: set[ast.Attribute], classes: list[Scope]) -> bool:
        stored = [n for n in self.index.attributes.get(name, ()) if not isinstance(n.ctx, ast.Load)]
        bound = [b for scope in classes for b in scope.bindings.get(name, ())]
        return all(node in given for node in stored) and all(self.meaning(b) == _TORCH for b in bound)

    def _module_of_text(self, node: ast.Subscript, depth: int) -> frozenset[str]:
        """`sys.modules["torch"]`."""
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            if self.all_of(node.value, depth + 1) == frozenset(("sys.modules",)):
                return frozenset((node.slice.value,))
        return NOTHING

    def _dynamic(self, node: ast.Call, depth: int) -> frozenset[str]:
        """`getattr(torch, "cuda")` and `importlib.import_module("torch.cuda")` with plain texts."""
        name = node.func.id if isinstance(node.func, ast.Name) else None
        text = node.args[-1].value if node.args and isinstance(node.args[-1], ast.Constant) else None
        if isinstance(text, str) and name == "getattr" and len(node.args) == 2:
            return frozenset(UNKNOWN if r == UNKNOWN else f"{r}.{text}" for r in self.all_of(node.args[0], depth + 1))
        if (
            isinstance(text, str)
            and len(node.args) == 1
            and self.of(node.func) in ("importlib.import_module", "__import__")
        ):
            return frozenset((text,))
        return NOTHING

    def _root(self, node: ast.Name, depth: int) -> frozenset[str]:
        found = self._roots[node] = self._name(node, depth)
        return found

    def _name(self, node: ast.Name, depth: int) -> frozenset[str]:
        scope = self.index.scope_of.get(node) or self.index.scope(node)
        owner = self.index.owner(scope, node.id)
        if owner is None:
            return frozenset((self._star(node.id) or (node.id if node.id in _BUILTINS else UNKNOWN),))
        bindings = self._reaching(owner, scope, node)
        if len(bindings) == 1:
            return self.meaning(bindings[0], depth)
        out: set[str] = set()
        for binding in bindings:
            out |= self.meaning(binding, depth)
        return frozenset(out) or NOTHING

    def meaning(self, binding: Binding, depth: int = 0) -> frozenset[str]:
        """What one binding makes its name stand for."""
        if binding.kind == "import":
            return frozenset((self._export(self.absolute(binding.target or "", binding.level)),))
        if binding.kind in ("def", "class"):
            scope = self.index.scope_of.get(binding.node)
            if scope is self.index.module:
                return frozenset((f"{self.module}.{binding.name}" if self.module else f".{binding.name}",))
            return NOTHING
        if binding.kind == "assign" and isinstance(binding.value, (ast.Name, ast.Attribute, ast.IfExp, ast.Call)):
            target = (
                binding.node.targets[0]
                if isinstance(binding.node, ast.Assign)
                else getattr(binding.node, "target", None)
            )
            if isinstance(target, ast.Name) or binding.value is not getattr(binding.node, "value", None):
                return self.all_of(binding.value, depth + 1)
        return NOTHING

    def of_alias(self, node: ast.ImportFrom, alias: ast.alias) -> str:
        """Canonical name of one name of a from-import."""
        target = f"{node.module}.{alias.name}" if node.module else alias.name
        return self._export(self.absolute(target, node.level))

    def absolute(self, target: str, level: int) -> str:
        """A module name without leading dots; relative to this module where that is known."""
        if not level:
            return target
        base = self.module.split(".") if self.module else []
        keep = len(base) - level + (1 if self.is_package else 0)
        prefix = ".".join(base[: max(keep, 0)])
        return f"{prefix}.{target}" if prefix else "." * level + target

    def _export(self, name: str) -> str:
        """Follow `from utils import cuda` to what utils means by it."""
        for _ in range(4):
            module, dot, leaf = name.rpartition(".")
            rest = ""
            while dot:
                known = self.exports.get(module)
                if known is not None and leaf in known:
                    name = known[leaf] + rest
                    break
                rest = f".{leaf}{rest}"
                module, dot, leaf = module.rpartition(".")
            else:
                return name
        return name

    def _star(self, name: str) -> str | None:
        for node in self._star_modules:
            module = self.absolute(node.module or "", node.level)
            if name in self.stars.get(module, ()):
                return f"{module}.{name}"
            known = self.exports.get(module)
            if known is not None and name in known:
                return known[name]
        return None

    def _reaching(self, owner: Scope, scope: Scope, use: ast.Name) -> list[Binding]:
        every = owner.bindings[use.id]
        if len(every) == 1:
            return every
        bindings = [b for b in every if b.kind not in ("declare", "del")] or every
        real = [b for b in bindings if not self._stand_in(b)]
        if owner is not scope or not real:
            chosen = real or bindings
        else:
            chosen = self._before(real, use)
        return chosen

    def _before(self, bindings: list[Binding], use: ast.Name) -> list[Binding]:
        """Bindings that may hold at ``use``, by source order and blocks; loops may bring later ones round."""
        place = (use.lineno, use.col_offset)
        ancestors = self._ancestors(use)
        chosen: list[Binding] = []
        for binding in bindings:
            if binding.kind == "param":
                chosen = [binding]
                continue
            at = _place(binding.node)
            if at is None:
                continue
            inside = binding.node in ancestors  # x = x.cuda(): the value is evaluated first
            if inside and isinstance(binding.node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
                if self._share_loop(binding.node, ancestors):
                    chosen.append(binding)
                continue
            if at > place:
                if self._share_loop(binding.node, ancestors):
                    chosen.append(binding)
                continue
            if self._always_before(binding.node, ancestors):
                chosen = [binding]
            else:
                chosen.append(binding)
        return chosen or bindings

    def _ancestors(self, node: ast.AST) -> set[ast.AST]:
        out: set[ast.AST] = set()
        current: ast.AST | None = node
        while current is not None:
            out.add(current)
            current = self.index.parents.get(current)
        return out

    def _share_loop(self, node: ast.AST, ancestors: set[ast.AST]) -> bool:
        current = self.index.parents.get(node)
        while current is not None:
            if isinstance(current, (ast.For, ast.AsyncFor, ast.While)) and current in ancestors:
                return True
            if isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
                return False
            current = self.index.parents.get(current)
        return False

    def _always_before(self, node: ast.AST, ancestors: set[ast.AST]) -> bool:
        """Whether the binding's block encloses the use, so that reaching the use means having passed the binding."""
        statement: ast.AST | None = node
        while statement is not None and not isinstance(statement, ast.stmt):
            statement = self.index.parents.get(statement)
        if statement is None:
            return False
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)) and statement in ancestors:
            return True
        parent = self.index.parents.get(statement)
        if isinstance(parent, ast.Module):
            return True
        if parent not in ancestors:
            return False
        for field in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and statement in block:
                return any(s in ancestors for s in block)
        return False

    def _stand_in(self, binding: Binding) -> bool:
        """A fallback for a failed import: in an ImportError handler, or the constant None / False."""
        if binding.kind == "import":
            return False
        current: ast.AST | None = binding.node
        while current is not None and not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            if isinstance(current, ast.ExceptHandler):
                return True
            current = self.index.parents.get(current)
        return isinstance(binding.value, ast.Constant) and binding.value.value in (None, False)


def _place(node: ast.AST) -> tuple[int, int] | None:
    line = getattr(node, "lineno", None)
    if line is None:
        target = getattr(node, "target", None)
        return (target.lineno, target.col_offset) if target is not None else None
    return line, node.col_offset  # type: ignore[attr-defined]


_BUILTINS = frozenset(
    "getattr hasattr setattr delattr isinstance str int float bool print len range super __import__ eval exec compile "
    "map filter dict list tuple set type property staticmethod classmethod open repr format vars globals locals".split()
)


def dotted(node: ast.AST) -> str | None:
    """The spelling of a Name or Attribute chain, None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([node.id, *reversed(parts)])
    return None


def last_word(node: ast.AST | None) -> str:
    """The last word of a Name or Attribute as it is spelled, empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def under(name: str | None, prefixes: Iterable[str]) -> bool:
    """Whether a canonical name is one of the prefixes or lies below one."""
    return name is not None and any(name == p or name.startswith(p + ".") for p in prefixes)
