"""The walk outwards from a string, and the questions rules ask."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import texts
from mlu_migrate.flow import comparing, reading, rows, slots, tables
from mlu_migrate.flow.uses import DEPTH, GUARDS, LABEL, NOTHING, Proof, Shape, Slot, Use, leaf_of
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import Unit


class Flow:
    """Decisions about strings of one file."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.slots: dict[tuple[str, Slot], Use] = {}
        self.busy: set[tuple[str, Slot]] = set()
        # What one question has worked out on its way, with the depth it was met at: without it, the ways through a
        # file of functions that call each other multiply.
        self.passed: dict[tuple[str, Slot], tuple[int, Use]] = {}
        self.functions: dict[str, list[ast.AST]] = {}
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
            for node in unit.index.nodes[kind]:
                self.functions.setdefault(node.name, []).append(node)

    # --- the question rules ask -------------------------------------------------------------------------------
    def of(self, node: ast.expr, kind: Kind) -> Use:
        """The best that is known about the value of an expression (usually a string literal)."""
        return self.best(list(self.uses(node, kind, 0)))

    def holds(self, node: ast.expr, kind: Kind, depth: int = 0) -> Use:
        """Whether an expression that is *read* (compared, tested) holds a device: `x.device.type`, `str(d)`, `name`."""
        return reading.holds(self, node, kind, depth)

    @staticmethod
    def best(uses: list[Use]) -> Use:
        if not uses:
            return NOTHING
        best = max(uses, key=lambda u: u.proof)
        if best.why == GUARDS and any(u.why == LABEL for u in uses):
            return next(u for u in uses if u.why == LABEL)  # a trainer's word, whatever it guards
        if best.proof is Proof.SIBLING and any(u.proof is Proof.OTHER for u in uses):
            return next(u for u in uses if u.proof is Proof.OTHER)
        special = next((u for u in uses if u.shape is not Shape.REPLACE and u.proof >= Proof.SIBLING), None)
        return special if special is not None and best.proof >= Proof.SIBLING else best

    # --- outwards ---------------------------------------------------------------------------------------------
    def uses(self, node: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
        """Everything the value of ``node`` is used for."""
        if depth > DEPTH:
            return
        unit = self.unit
        child, parent = node, unit.parent(node)
        while parent is not None:
            if isinstance(parent, ast.IfExp):
                if child is parent.test:
                    return
                yield from rows.in_ternary(self, parent, child, kind)
            elif isinstance(parent, ast.BoolOp):
                yield from rows.by_siblings(self, [v for v in parent.values if v is not child], kind)
            elif isinstance(parent, ast.NamedExpr):
                if isinstance(parent.target, ast.Name):
                    yield slots.of_slot(self, slots.slot_of(self, parent.target), kind, depth)
            elif isinstance(parent, (ast.FormattedValue, ast.Starred, ast.Await)):
                pass
            elif isinstance(parent, ast.Yield):
                yield slots.of_return(self, parent, kind, depth)
                return
            elif isinstance(parent, ast.JoinedStr):
                if isinstance(child, ast.FormattedValue) and texts.inside_a_word(parent, child):
                    yield Use(Proof.OTHER, "part of a name", Shape.KEEP)
                    return
            elif isinstance(parent, ast.BinOp):
                if isinstance(parent.op, (ast.Div, ast.FloorDiv)):
                    yield Use(Proof.OTHER, "path", Shape.KEEP)
                    return
                if isinstance(parent.op, (ast.Add, ast.Mod)) and texts.inside_a_word(parent, child):
                    yield Use(Proof.OTHER, "part of a name", Shape.KEEP)
                    return
                if isinstance(parent.op, ast.BitOr) and not isinstance(child, ast.expr):
                    return
            elif isinstance(parent, ast.Attribute):
                outer = unit.parent(parent)
                if isinstance(outer, ast.Call) and outer.func is parent:
                    if parent.attr in (
                        "format",
                        "format_map",
                        "lower",
                        "upper",
                        "strip",
                        "replace",
                        "rstrip",
                        "lstrip",
                        "split",
                        "partition",
                        "removesuffix",
                        "removeprefix",
                        "title",
                        "capitalize",
                        "copy",
                        "rsplit",
                    ):
                        child, parent = outer, unit.parent(outer)
                        continue
                    if parent.attr in ("append", "extend", "add", "insert"):
                        return
                    if parent.attr == "join":
                        yield Use(Proof.OTHER, "text", Shape.KEEP)
                    return
                if parent.attr in ("type", "index"):
                    yield Use(Proof.SINK, f".{parent.attr}")
                if parent.attr != "value":  # the value of an Enum member goes on
                    return
            elif isinstance(parent, ast.Subscript):
                if child is parent.slice:
                    yield comparing.as_index(self, parent, child, kind, depth)
                    return
                outer = unit.parent(parent)
                if isinstance(outer, ast.Attribute) or not isinstance(
                    parent.slice, (ast.Constant, ast.Slice, ast.UnaryOp, ast.Name)
                ):
                    return
            elif isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
                if isinstance(unit.parent(parent), ast.Subscript) and unit.parent(parent).slice is parent:  # type: ignore[union-attr]
                    yield comparing.as_index(self, unit.parent(parent), parent, kind, depth)  # type: ignore[arg-type]
                    return
                yield from rows.by_siblings(self, [e for e in parent.elts if e is not child], kind)
                yield from rows.behind_option(self, parent, child, kind)
                yield from rows.of_started(self, parent, child, kind, depth)
                compared = unit.parent(parent)
                if isinstance(compared, ast.BinOp) and texts.inside_a_word(compared, parent, child):
                    yield Use(Proof.OTHER, "part of a name", Shape.KEEP)
                    return
                if isinstance(compared, ast.Call) and leaf_of(compared.func) in _COLLECTIONS:
                    compared = unit.parent(compared)
                if isinstance(compared, ast.Compare) and parent in compared.comparators:
                    yield comparing.membership(self, compared, kind, depth)
                    return
                if isinstance(compared, (ast.Assign, ast.AnnAssign)) and isinstance(child, ast.Constant):
                    yield from comparing.members_of(self, compared, kind, depth)
            elif isinstance(parent, ast.Dict):
                yield tables.in_dict(self, parent, child, kind, depth)
                return
            elif isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and child is parent.elt:
                if any(self.asks_availability(g.iter) for g in parent.generators):
                    yield Use(Proof.NAMED, "one for each card")
            elif isinstance(parent, ast.DictComp) and child is parent.value:
                yield tables.in_device_map(self, parent, kind)
                return
            else:
                yield from rows.at_end(self, parent, child, kind, depth)
                return
            child, parent = parent, unit.parent(parent)

    # --- contexts ---------------------------------------------------------------------------------------------

    def asks_availability(self, test: ast.AST, depth: int = 0) -> bool:
        """Whether a condition asks torch.cuda if there is a card."""
        for node in ast.walk(test):
            name = self.unit.name(node) if isinstance(node, ast.Attribute) else None
            if name in ("torch.cuda.is_available", "torch.cuda.device_count", "torch.distributed.is_nccl_available"):
                return True
            if depth < 2 and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):  # HAS = is_available()
                owner = self.unit.index.owner(self.unit.scope(node), node.id)
                for binding in (owner.bindings.get(node.id, ()) if owner else ())[:3]:
                    value = binding.value if binding.kind == "assign" else None
                    if value is not None and self.asks_availability(value, depth + 1):
                        return True
        return False

    # --- slots ------------------------------------------------------------------------------------------------

    # --- reading ----------------------------------------------------------------------------------------------


_COLLECTIONS = frozenset(("frozenset", "set", "tuple", "list"))
