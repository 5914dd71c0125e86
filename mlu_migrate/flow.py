"""
Where a string goes: from the literal outwards through expressions, names, parameters and attributes to a sink.

A literal is decided by the *slot* it lands in (a variable, parameter, attribute, key or return value), and a slot by
every use it has in the file and, by name, in the project. So all literals that meet in one slot get one decision.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from dataclasses import dataclass

from mlu_migrate import receivers, sinks, texts
from mlu_migrate.scopes import Binding, Scope
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import Unit, argument, is_text

_DEPTH = 14


class Proof(enum.IntEnum):
    """How well something is known to be a device (or backend). Higher wins."""

    NONE = 0
    OTHER = 1  # known to be something else
    SIBLING = 2  # stands beside "cpu" or the like
    NAMED = 3  # its name says so
    SINK = 4  # reaches a device sink


class Shape(enum.Enum):
    """What has to happen at the literal."""

    REPLACE = "replace"
    MEMBER = "member"  # one of several in a membership test: gains a member
    KEY = "key"  # key of a dispatch table: gains an entry
    CASE = "case"  # match case: gains an alternative
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Use:
    """One thing known about a value. ``why`` names a reason for messages, e.g. "torch.device"."""

    proof: Proof
    why: str
    shape: Shape = Shape.REPLACE
    node: ast.AST | None = None


_NOTHING = Use(Proof.NONE, "unknown")
Slot = tuple[object, ...]


class Flow:
    """Decisions about strings of one file."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._slots: dict[tuple[str, Slot], Use] = {}
        self._busy: set[tuple[str, Slot]] = set()
        # What one question has worked out on its way, with the depth it was met at: without it, the ways through a
        # file of functions that call each other multiply.
        self._passed: dict[tuple[str, Slot], tuple[int, Use]] = {}
        self._functions: dict[str, list[ast.AST]] = {}
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
            for node in unit.index.nodes[kind]:
                self._functions.setdefault(node.name, []).append(node)

    # --- the question rules ask -------------------------------------------------------------------------------
    def of(self, node: ast.expr, kind: Kind) -> Use:
        """The best that is known about the value of an expression (usually a string literal)."""
        return self._best(list(self._uses(node, kind, 0)))

    def holds(self, node: ast.expr, kind: Kind, depth: int = 0) -> Use:
        """Whether an expression that is *read* (compared, tested) holds a device: `x.device.type`, `str(d)`, `name`."""
        return self._holds(node, kind, depth)

    @staticmethod
    def _best(uses: list[Use]) -> Use:
        if not uses:
            return _NOTHING
        best = max(uses, key=lambda u: u.proof)
        if best.proof is Proof.SIBLING and any(u.proof is Proof.OTHER for u in uses):
            return next(u for u in uses if u.proof is Proof.OTHER)
        special = next((u for u in uses if u.shape is not Shape.REPLACE and u.proof >= Proof.SIBLING), None)
        return special if special is not None and best.proof >= Proof.SIBLING else best

    # --- outwards ---------------------------------------------------------------------------------------------
    def _uses(self, node: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
        """Everything the value of ``node`` is used for."""
        if depth > _DEPTH:
            return
        unit = self.unit
        child, parent = node, unit.parent(node)
        while parent is not None:
            if isinstance(parent, ast.IfExp):
                if child is parent.test:
                    return
                yield from self._ternary(parent, child, kind)
            elif isinstance(parent, ast.BoolOp):
                yield from self._siblings([v for v in parent.values if v is not child], kind)
            elif isinstance(parent, ast.NamedExpr):
                if isinstance(parent.target, ast.Name):
                    yield self._slot(self._variable(parent.target), kind, depth)
            elif isinstance(parent, (ast.FormattedValue, ast.Starred, ast.Await)):
                pass
            elif isinstance(parent, ast.Yield):
                yield self._returned(parent, kind, depth)
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
                    yield self._index(parent, child, kind, depth)
                    return
                outer = unit.parent(parent)
                if isinstance(outer, ast.Attribute) or not isinstance(
                    parent.slice, (ast.Constant, ast.Slice, ast.UnaryOp, ast.Name)
                ):
                    return
            elif isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
                if isinstance(unit.parent(parent), ast.Subscript) and unit.parent(parent).slice is parent:  # type: ignore[union-attr]
                    yield self._index(unit.parent(parent), parent, kind, depth)  # type: ignore[arg-type]
                    return
                yield from self._siblings([e for e in parent.elts if e is not child], kind)
                yield from self._behind_option(parent, child, kind)
                yield from self._started(parent, child, kind, depth)
                compared = unit.parent(parent)
                if isinstance(compared, ast.BinOp) and texts.inside_a_word(compared, parent, child):
                    yield Use(Proof.OTHER, "part of a name", Shape.KEEP)
                    return
                if isinstance(compared, ast.Call) and _leaf(compared.func) in _COLLECTIONS:
                    compared = unit.parent(compared)
                if isinstance(compared, ast.Compare) and parent in compared.comparators:
                    yield self._membership(compared, kind, depth)
                    return
                if isinstance(compared, (ast.Assign, ast.AnnAssign)) and isinstance(child, ast.Constant):
                    yield from self._members(compared, kind, depth)
            elif isinstance(parent, ast.Dict):
                yield self._dict(parent, child, kind, depth)
                return
            elif isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and child is parent.elt:
                if any(self.asks_availability(g.iter) for g in parent.generators):
                    yield Use(Proof.NAMED, "one for each card")
            elif isinstance(parent, ast.DictComp) and child is parent.value:
                yield self._map(parent, kind)
                return
            else:
                yield from self._terminal(parent, child, kind, depth)
                return
            child, parent = parent, unit.parent(parent)

    def _terminal(self, parent: ast.AST, child: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
        unit = self.unit
        if isinstance(parent, ast.keyword):
            call = unit.parent(parent)
            if isinstance(call, ast.Call):
                yield self._keyword(call, parent.arg, child, kind, depth)
        elif isinstance(parent, ast.Call):
            if child is not parent.func:
                yield from self._positional(parent, child, kind, depth)
        elif isinstance(parent, ast.Compare):
            yield self._compare(parent, child, kind, depth)
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            for target in targets:
                for part in _parts(target):
                    yield self._target(part, kind, depth)
        elif isinstance(parent, ast.AugAssign):
            yield self._target(parent.target, kind, depth)
        elif isinstance(parent, ast.Return):
            yield self._returned(parent, kind, depth)
        elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            name = _default_of(parent.args, child)
            if name is not None:
                yield self._slot(("v", unit.index.scopes[parent], name), kind, depth)
            elif isinstance(parent, ast.Lambda) and child is parent.body:
                yield from self._from_lambda(parent, kind, depth)
        elif isinstance(parent, ast.MatchValue):
            yield self._case(parent, kind, depth)
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            if child is parent.iter:
                for part in _parts(parent.target):
                    yield self._target(part, kind, depth)
        elif isinstance(parent, (ast.Raise, ast.Assert)):
            yield Use(Proof.OTHER, "message", Shape.KEEP)

    # --- contexts ---------------------------------------------------------------------------------------------
    def _from_lambda(self, node: ast.Lambda, kind: Kind, depth: int) -> Iterator[Use]:
        """What a lambda gives back: the field it makes a default for, or where calls of its name go."""
        parent = self.unit.parent(node)
        if isinstance(parent, ast.keyword) and parent.arg in ("default_factory", "default"):
            outer = self.unit.parent(parent)
            if isinstance(outer, ast.Call):
                yield self._keyword(outer, "default", node, kind, depth + 1)
        elif isinstance(parent, ast.Assign):
            for load in [one for target in parent.targets for one in self._loads(target)]:
                call = self.unit.parent(load)
                if isinstance(call, ast.Call) and call.func is load:
                    yield from self._uses(call, kind, depth + 1)
            for target in parent.targets:
                leaf = _leaf(target)
                if leaf and sinks.says(kind, leaf):
                    yield Use(Proof.NAMED, f"given by {leaf}")

    def _behind_option(self, row: ast.Tuple | ast.List | ast.Set, child: ast.AST, kind: Kind) -> Iterator[Use]:
        """`["train.py", "--device", "cuda"]`: the option before it says what a word of a command line is."""
        at = next((i for i, e in enumerate(row.elts) if e is child), 0)
        before = row.elts[at - 1] if at and not isinstance(row, ast.Set) else None
        if isinstance(before, ast.Constant) and isinstance(before.value, str) and before.value.startswith("-"):
            if sinks.says(kind, before.value) and before.value.lstrip("-") not in sinks._TOO_SHORT:
                yield Use(Proof.NAMED, f"option {before.value}")
        elif is_text(before) and at % 2:
            taker = self.unit.parent(row)  # cfg.merge_from_list(["MODEL.DEVICE", "cuda"])
            leaf = _leaf(taker.func) if isinstance(taker, ast.Call) else getattr(taker, "arg", None)
            key = before.value.rpartition(".")[2]  # type: ignore[union-attr]
            if leaf in ("merge_from_list", "opts", "overrides", "from_dotlist") and sinks.says(kind, key):
                yield Use(Proof.NAMED, f"key {key}")

    def _started(self, row: ast.Tuple | ast.List | ast.Set, child: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
        """`mp.spawn(worker, args=(world, "nccl"))`, `Process(target=worker, args=(...))`: arguments of a function."""
        word = self.unit.parent(row)
        if not isinstance(word, ast.keyword) or word.arg != "args":
            return
        call = self.unit.parent(word)
        if not isinstance(call, ast.Call):
            return
        leaf = _leaf(call.func)
        function = argument(call, "fn", 0) if leaf in ("spawn", "start_processes") else argument(call, "target")
        if isinstance(function, (ast.Name, ast.Attribute)):
            at = next(i for i, e in enumerate(row.elts) if e is child)
            at += leaf in ("spawn", "start_processes")  # the number of the process comes first
            made = ast.Call(func=function, args=[], keywords=[])
            name = self.unit.name(function)
            yield from self._project_call(made, name, at, None, kind, depth)

    def _ternary(self, node: ast.IfExp, child: ast.AST, kind: Kind) -> Iterator[Use]:
        if self.asks_availability(node.test):
            yield Use(Proof.SIBLING, "availability test")
        yield from self._siblings([node.orelse if child is node.body else node.body], kind)

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

    def _siblings(self, others: list[ast.expr], kind: Kind) -> Iterator[Use]:
        for other in others:
            text = other.value if isinstance(other, ast.Constant) else None
            if isinstance(text, str) and text.lower() in kind.siblings:
                yield Use(Proof.SIBLING, f'beside "{text}"')
            elif isinstance(text, str) and text.lower() == "rocm":
                yield Use(Proof.OTHER, f'beside "{text}"', Shape.KEEP)
            elif isinstance(other, ast.IfExp):
                yield from self._siblings([other.body, other.orelse], kind)
            elif isinstance(other, ast.Call) and self.unit.callee(other) == "torch.device" and kind.name == "device":
                yield Use(Proof.SIBLING, "beside torch.device")
            elif isinstance(other, ast.Attribute) and kind.name == "device" and _is_device_read(other):
                yield Use(Proof.SIBLING, f"beside .{other.attr}")

    def _foreign(self, call: ast.Call) -> str | None:
        if _leaf(call.func) in ("HParams", "ConfigDict", "config_dict"):
            return None  # a bag of settings: who reads them decides
        for name in self.unit.names.all_of(call.func):
            root = name.partition(".")[0]
            if root in sinks.FOREIGN and not name.startswith("cuda_"):
                return root
        return None

    def _positional(self, call: ast.Call, child: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
        name = self.unit.callee(call)
        position = next((i for i, a in enumerate(call.args) if a is child), None)
        if position is None or (any(isinstance(a, ast.Starred) for a in call.args[:position])):
            return
        foreign = self._foreign(call)
        if foreign:
            yield Use(Proof.OTHER, f"{foreign}", Shape.KEEP)
            return
        for one in sorted(self.unit.names.all_of(call.func)):  # `scope = autocast if half else nullcontext`
            known = kind.calls.get(one)
            if known is not None:
                yield Use(Proof.SINK, one) if known[0] == position else Use(Proof.OTHER, one, Shape.KEEP)
                return
        if name in ("functools.partial", "functools.partialmethod") and position > 0:
            inner = self.unit.name(call.args[0]) or ""
            bound = kind.calls.get(inner)
            if bound is not None and bound[0] == position - 1:
                yield Use(Proof.SINK, inner)
            return
        leaf = _leaf(call.func)
        if leaf in _ASSERTS and position in (0, 1) and len(call.args) > 1:
            held = self._holds(call.args[1 - position], kind, depth + 1)
            row = leaf in ("assertIn", "assertNotIn") and position == 1 and isinstance(child, (ast.Tuple, ast.List))
            yield Use(held.proof, held.why, Shape.MEMBER, call) if row and held.proof else held
            return
        if kind.name == "device" and name and name.startswith(("torch.cuda.", "torch.mlu.")):
            if not name.endswith("Tensor") and not name.partition(".")[2].partition(".")[2].startswith(_NO_DEVICE):
                yield Use(Proof.SINK, name)
            return
        if leaf in ("add_argument_group", "add_parser", "add_mutually_exclusive_group", "getLogger"):
            yield Use(Proof.OTHER, "label", Shape.KEEP)
            return
        if leaf == "join" and isinstance(call.func, ast.Attribute) and is_text(call.func.value):
            if call.func.value.value != ":":  # type: ignore[attr-defined]
                yield Use(Proof.OTHER, "text", Shape.KEEP)
                return
        if (
            kind.name == "device"
            and isinstance(call.func, ast.Attribute)
            and leaf in sinks.DEVICE_METHODS
            and position == 0
        ):
            yield Use(Proof.SINK, f".{leaf}")
            return
        if leaf in (
            "str",
            "list",
            "tuple",
            "set",
            "sorted",
            "frozenset",
            "repr",
            "cast",
            "deepcopy",
            "copy",
            "iter",
            "next",
            "reversed",
            "cycle",
            "chain",
            "deque",
            "intern",
        ) and name in (leaf, None, *(f"{module}.{leaf}" for module in _PASSING)):
            if leaf == "cast" and position == 0:
                return
            yield from self._uses(call, kind, depth + 1)
            return
        if leaf in _QUESTIONS and position == 0:
            if isinstance(call.func, ast.Attribute):
                held = self._holds(call.func.value, kind, depth + 1)
                several = isinstance(child, ast.Tuple) and held.proof  # startswith(("cuda", "xpu"))
                yield Use(held.proof, held.why, Shape.MEMBER, call) if several else held
            return
        if leaf == "format" and isinstance(call.func, ast.Attribute) and texts.inside_a_word(call, child):
            yield Use(Proof.OTHER, "part of a name", Shape.KEEP)
            return
        if leaf in sinks.PROSE or (leaf or "").endswith(("Error", "Exception", "Warning")):
            yield Use(Proof.OTHER, "message", Shape.KEEP)
            return
        if name in sinks.PATHS or leaf in ("joinpath", "Path", "CDLL", "import_module"):
            yield Use(Proof.OTHER, "path", Shape.KEEP)
            return
        if (
            leaf in ("get", "pop", "setdefault", "getenv")
            and len(call.args) == 2
            and position == 1
            and is_text(call.args[0])
        ):
            yield self._key(call.args[0].value, kind, depth)  # type: ignore[attr-defined]
            yield from self._uses(call, kind, depth + 1)
            return
        if leaf == "getattr" and position == 2 and is_text(call.args[1]):
            yield self._key(call.args[1].value, kind, depth)  # type: ignore[attr-defined]
            yield from self._uses(call, kind, depth + 1)
            return
        if leaf == "setattr" and position == 2 and is_text(call.args[1]):
            yield self._key(call.args[1].value, kind, depth)  # type: ignore[attr-defined]
            return
        if leaf in ("getattr", "hasattr", "setattr", "delattr") and position == 1:
            yield Use(Proof.OTHER, "attribute name", Shape.KEEP)
            return
        if leaf in ("get", "pop") and position == 0:
            yield Use(Proof.OTHER, "key", Shape.KEEP)
            return
        if leaf == "parametrize" and position == 1 and call.args:
            for word in _parameter_names(call.args[0]):
                if sinks.says(kind, word):
                    yield Use(Proof.NAMED, f'parameter "{word}"')
            return
        if leaf in ("DEFINE_string", "DEFINE_enum") and position > 0 and is_text(call.args[0]):
            if position == 1 or (leaf == "DEFINE_enum" and position == 2):
                yield self._option(call, kind, depth)
            else:
                yield Use(Proof.OTHER, "message", Shape.KEEP)
            return
        if leaf == "param":  # pytest.param("cuda", marks=...)
            yield from self._test_parameter(call, position, kind)
            return
        if leaf in ("append", "add", "insert", "extend", "appendleft") and isinstance(call.func, ast.Attribute):
            yield self._target(call.func.value, kind, depth)
            return
        if leaf in ("Option", "Argument", "Field", "field", "Value"):
            yield from self._uses(call, kind, depth + 1)
            return
        yield from self._project_call(call, name, position, None, kind, depth)

    def _test_parameter(self, call: ast.Call, position: int, kind: Kind) -> Iterator[Use]:
        """What the surrounding `parametrize` calls the value at that position."""
        for outer in self.unit.ancestors(call):
            if isinstance(outer, ast.Call) and _leaf(outer.func) == "parametrize" and outer.args:
                names = _parameter_names(outer.args[0])
                if position < len(names) and sinks.says(kind, names[position]):
                    yield Use(Proof.NAMED, f'parameter "{names[position]}"')
                return

    def _keyword(self, call: ast.Call, word: str | None, child: ast.AST, kind: Kind, depth: int) -> Use:
        if word is None:
            return _NOTHING
        name = self.unit.callee(call)
        foreign = self._foreign(call)
        if foreign:
            return Use(Proof.OTHER, foreign, Shape.KEEP)
        leaf = _leaf(call.func)
        if leaf in ("add_argument", "option", "argument", "add_option", "DEFINE_string", "DEFINE_enum"):
            if word in ("default", "choices", "const", "type", "nargs", "flag_value"):
                return self._option(call, kind, depth)
            return Use(Proof.OTHER, "attribute name" if word == "dest" else "message", Shape.KEEP)
        if leaf in ("Field", "field", "Option", "Argument", "ib", "attrib") and word in ("default", "default_factory"):
            return self._best(list(self._uses(call, kind, depth + 1)))
        if leaf in ("replace", "_replace", "evolve"):  # dataclasses.replace(options, where="cuda")
            return self._slot(("a", word), kind, depth)
        if leaf in ("get", "pop", "getoption", "config") and word in ("fallback", "default"):
            keys = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            return self._best([*(self._key(k, kind, depth) for k in keys[-1:]), *self._uses(call, kind, depth + 1)])
        if name in ("functools.partial", "functools.partialmethod") and call.args:
            inner = self.unit.name(call.args[0]) or ""
            if kind.calls.get(inner, (None, ""))[1] == word:
                return Use(Proof.SINK, inner)
            made = ast.Call(func=call.args[0], args=[], keywords=[])
            passed = self._best(list(self._project_call(made, inner or None, None, word, kind, depth)))
            if passed.proof:
                return passed
        known = kind.calls.get(name or "")
        if known is not None and known[1] == word:
            return Use(Proof.SINK, name or word)
        if word == "dest":
            return Use(Proof.OTHER, "attribute name", Shape.KEEP)
        if word == "accelerator" and kind.name == "device":
            return Use(Proof.OTHER, "label", Shape.KEEP)  # MLU908 tells
        if word in ("id", "ids") and leaf in ("param", "parametrize"):
            return Use(Proof.OTHER, "label", Shape.KEEP)
        if word in ("prog", "help", "metavar", "reason", "match", "msg", "desc", "description", "title", "label"):
            return Use(Proof.OTHER, "message", Shape.KEEP)
        if kind.name == "device" and word in ("device", "map_location", "device_type"):
            return Use(Proof.SINK, f"{word}=")
        proofs = list(self._project_call(call, name, None, word, kind, depth))
        if sinks.says(kind, word):
            proofs.append(Use(Proof.NAMED, f"{word}="))
        elif sinks.says_other(kind, word):
            proofs.append(Use(Proof.OTHER, f"{word}=", Shape.KEEP))
        return self._best(proofs)

    def _project_call(
        self, call: ast.Call, name: str | None, position: int | None, word: str | None, kind: Kind, depth: int
    ) -> Iterator[Use]:
        """A call of a function of this file or project: what its parameter is used for."""
        for function, bound in self._targets(call):
            args = function.args
            params = [a.arg for a in (*args.posonlyargs, *args.args)][bound:]
            chosen = (
                word
                if word is not None
                else (params[position] if position is not None and position < len(params) else None)
            )
            if chosen is not None and chosen in (*params, *(a.arg for a in args.kwonlyargs)):
                yield self._slot(("v", self.unit.index.scopes[function], chosen), kind, depth)
                return
        facts = self.unit.facts
        leaf = _leaf(call.func)
        for known in [name] if name else self._inherited(call):
            function_name, params_known = self._of_project(known)
            if params_known is not None and kind.name == "device":
                params = [p for p in params_known if p not in ("self", "cls")]
                chosen = (
                    word
                    if word is not None
                    else (params[position] if position is not None and position < len(params) else None)
                )
                if chosen is not None:
                    if (function_name, chosen) in facts.device_params:
                        yield Use(Proof.SINK, f"{function_name}({chosen})")
                        return
                    if sinks.says(kind, chosen):
                        yield Use(Proof.NAMED, f"{function_name}({chosen})")
                        return
        if kind.name == "device" and leaf and isinstance(call.func, ast.Attribute):
            place = word if word is not None else position
            if name is None and place is not None and place in facts.device_methods.get(leaf, ()):
                yield Use(Proof.SINK, f"{leaf}()")
                return
        if call not in self.unit.index.parents:  # made up: a function handed over with its arguments
            return
        if word is None and any(u.proof is Proof.SINK for u in self._uses(call, kind, depth + 1)):
            yield Use(Proof.NAMED, f"passed through {leaf}()")  # x.to(pick("cuda:0"))
        elif word is not None and leaf and kind.name == "device" and (leaf, word) in facts.device_params:
            yield Use(Proof.SINK, f"{leaf}({word})")
        elif leaf and word is None and sinks.says(kind, leaf):
            yield Use(Proof.NAMED, f"{leaf}()")

    def _of_project(self, name: str) -> tuple[str, tuple[str, ...] | None]:
        """A function, class or method of another file: its name in the project facts and its parameters."""
        facts, near = self.unit.facts, self.unit.module
        module, _, leaf = name.rpartition(".")
        known = facts.functions_of(module, near).get(leaf)
        if known is None:
            module, _, owner = module.rpartition(".")
            leaf = f"{owner}.{leaf}"
            known = facts.functions_of(module, near).get(leaf)
        return leaf, known

    def _inherited(self, call: ast.Call) -> list[str]:
        """`super().__init__(...)`, `super().m(...)`: the names that has in the base classes of other files."""
        func = call.func
        if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Call):
            return []
        if getattr(func.value.func, "id", "") != "super":
            return []
        mine = self.unit.enclosing_class(func)
        bases = [self.unit.name(b) for b in mine.bases] if mine is not None else []
        suffix = "" if func.attr == "__init__" else f".{func.attr}"
        return [base + suffix for base in bases if base is not None and "." in base]

    def _targets(self, call: ast.Call) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
        """Functions of this file a call may mean, with the number of bound leading parameters."""
        func, unit = call.func, self.unit
        if isinstance(func, ast.Name):
            owner = unit.index.owner(unit.scope(func), func.id)
            for binding in owner.bindings.get(func.id, ()) if owner else ():
                if isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield binding.node, 0
                elif isinstance(binding.node, ast.ClassDef):
                    for item in binding.node.body:
                        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                            yield item, 1
        elif isinstance(func, ast.Attribute):
            named = False
            owners = self._owners(func)
            if not owners and isinstance(func.value, ast.Name):
                owner = unit.index.owner(unit.scope(func.value), func.value.id)
                bound = [b.node for b in (owner.bindings.get(func.value.id, ()) if owner else ())]
                owners = [n for n in bound if isinstance(n, ast.ClassDef)]
                named = bool(owners)  # T.method(...)
            for owner_class in owners:
                for item in owner_class.body:
                    if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == func.attr:
                        marks = {d.id for d in item.decorator_list if isinstance(d, ast.Name)}
                        free = "staticmethod" in marks or named and "classmethod" not in marks
                        yield item, 0 if free else 1

    def _owners(self, func: ast.Attribute) -> list[ast.ClassDef]:
        """Classes of this file whose method `self.m`, `super().m` or `T().m` is."""
        unit, value = self.unit, func.value
        if isinstance(value, ast.Name) and value.id in ("self", "cls"):
            mine = unit.enclosing_class(func)
            return [mine, *self._bases(mine)] if mine is not None else []
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
            mine = unit.enclosing_class(func)
            return self._bases(mine) if mine is not None else []
        found = receivers.class_of(unit, value) if func in unit.index.parents else None
        return [found.node, *self._bases(found.node)] if found is not None and found.node is not None else []

    def _bases(self, node: ast.ClassDef, depth: int = 0) -> list[ast.ClassDef]:
        """The base classes of a class that stand in this file."""
        out: list[ast.ClassDef] = []
        for base in node.bases:
            if isinstance(base, ast.Name) and depth < 4:
                owner = self.unit.index.owner(self.unit.scope(base), base.id)
                for binding in owner.bindings.get(base.id, ()) if owner else ():
                    if isinstance(binding.node, ast.ClassDef) and binding.node is not node:
                        out += [binding.node, *self._bases(binding.node, depth + 1)]
        return out

    def _option(self, call: ast.Call, kind: Kind, depth: int) -> Use:
        """An argparse / click / absl option: its own name, then where `args.<dest>` goes."""
        given = call.args[:1] if (_leaf(call.func) or "").startswith("DEFINE_") else call.args
        names = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        dest = argument(call, "dest")
        if is_text(dest):
            names.append(dest.value)  # type: ignore[union-attr]
        for name in names:
            if sinks.says(kind, name) and name.lstrip("-") not in sinks._TOO_SHORT:
                return Use(Proof.NAMED, f"option {name}")
        for name in names:
            use = self._slot(("a", name.lstrip("-").replace("-", "_")), kind, depth)
            if use.proof >= Proof.NAMED:
                return use
        if any(sinks.says_other(kind, n) for n in names):
            return Use(Proof.OTHER, f"option {names[0]}", Shape.KEEP)
        choices = argument(call, "choices")
        if isinstance(choices, (ast.List, ast.Tuple, ast.Set)):
            return self._best([*self._siblings(list(choices.elts), kind), *self._strangers(list(choices.elts), kind)])
        return _NOTHING

    @staticmethod
    def _strangers(others: list[ast.expr], kind: Kind) -> Iterator[Use]:
        """Of a closed list of words none is a device: `Literal["cuda", "exllama"]` names an algorithm."""
        words = [o.value.lower() for o in others if isinstance(o, ast.Constant) and isinstance(o.value, str)]
        plain = [w for w in words if not kind.text.fullmatch(w) and w not in _NEUTRAL]
        if plain and not any(w.partition(":")[0] in kind.siblings or w in ("gpu", "mlu", "cncl") for w in plain):
            yield Use(Proof.OTHER, f'beside "{plain[0]}"', Shape.KEEP)

    def _compare(self, node: ast.Compare, child: ast.AST, kind: Kind, depth: int) -> Use:
        sides = [node.left, *node.comparators]
        at = next((i for i, s in enumerate(sides) if s is child), 0)
        if len(sides) != 2:
            others = [s for i, s in enumerate(sides) if abs(i - at) == 1]
            return self._best([self._holds(o, kind, depth + 1) for o in others])
        other, op = sides[1 - at], node.ops[0]
        if isinstance(op, (ast.In, ast.NotIn)):
            if at == 0:  # "cuda" in x
                held = self._holds(other, kind, depth + 1)
                if isinstance(other, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
                    return Use(Proof.OTHER, "membership", Shape.KEEP)
                return Use(Proof.OTHER, "key", Shape.KEEP) if self._is_mapping(other) else held
            return _NOTHING
        held = self._holds(other, kind, depth + 1)
        if held.proof < Proof.NAMED and self._guards_cuda(node):
            return Use(Proof.SINK, "guards CUDA calls", node=node)
        return held

    def _is_mapping(self, node: ast.expr) -> bool:
        """Whether a name stands for a mapping: it is read by text keys, or asked for its items."""
        for load in self._loads(node) if isinstance(node, (ast.Name, ast.Attribute)) else ():
            outer = self.unit.parent(load)
            if isinstance(outer, ast.Subscript) and outer.value is load and is_text(outer.slice):
                return True
            if isinstance(outer, ast.Attribute) and outer.attr in ("items", "keys", "values", "get", "pop", "update"):
                return True
        return False

    def _guards_cuda(self, node: ast.Compare) -> bool:
        """`torch.cuda if kind == "cuda" else torch.xpu`: the test decides about CUDA calls."""
        outer = self.unit.parent(node)
        while isinstance(outer, ast.BoolOp):
            outer = self.unit.parent(outer)
        body = [outer.body] if isinstance(outer, ast.IfExp) else outer.body if isinstance(outer, ast.If) else []
        if isinstance(outer, (ast.IfExp, ast.If)) and isinstance(node.ops[0], ast.Eq):
            for statement in body:
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.Attribute) and (self.unit.name(inner) or "").startswith("torch.cuda"):
                        return True
        return False

    def _membership(self, node: ast.Compare, kind: Kind, depth: int) -> Use:
        held = self._holds(node.left, kind, depth + 1)
        return Use(held.proof, held.why, Shape.MEMBER, node) if held.proof else held

    def _members(self, node: ast.Assign | ast.AnnAssign, kind: Kind, depth: int) -> Iterator[Use]:
        """`DEVICES = ["cpu", "cuda"]` that is only asked `x in DEVICES`: it gains a member."""
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            loads = self._loads(target)
            tests = [self.unit.parent(load) for load in loads]
            asked = [
                t
                for t, load in zip(tests, loads)
                if isinstance(t, ast.Compare) and load in t.comparators and isinstance(t.ops[0], (ast.In, ast.NotIn))
            ]
            if asked and len(asked) == len(loads):
                for test in asked:
                    yield self._membership(test, kind, depth)

    def _case(self, node: ast.MatchValue, kind: Kind, depth: int) -> Use:
        for outer in self.unit.ancestors(node):
            if isinstance(outer, ast.Match):
                held = self._holds(outer.subject, kind, depth + 1)
                return Use(held.proof, held.why, Shape.CASE, node) if held.proof else held
        return _NOTHING

    def _index(self, node: ast.Subscript, child: ast.AST, kind: Kind, depth: int) -> Use:
        """`table["cuda"]`, `Literal["cpu", "cuda"]`."""
        if _leaf(node.value) == "Literal":
            return self._literal_type(node, kind, depth)
        return Use(Proof.OTHER, "key", Shape.KEEP)

    def _literal_type(self, node: ast.Subscript, kind: Kind, depth: int) -> Use:
        """The variable, parameter or field that the Literal annotates."""
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        uses = [*self._siblings(list(inside), kind), *self._strangers(list(inside), kind)]
        for outer in self.unit.ancestors(node):
            if isinstance(outer, ast.AnnAssign):
                uses.append(self._target(outer.target, kind, depth))
                break
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for arg in (*outer.args.posonlyargs, *outer.args.args, *outer.args.kwonlyargs):
                    if arg.annotation is not None and any(n is node for n in ast.walk(arg.annotation)):
                        uses.append(self._slot(("v", self.unit.index.scopes[outer], arg.arg), kind, depth))
                break
            if isinstance(outer, ast.Assign):
                uses.extend(self._target(t, kind, depth) for t in outer.targets)
                break
        return self._best(uses)

    def _dict(self, node: ast.Dict, child: ast.AST, kind: Kind, depth: int) -> Use:
        for key, value in zip(node.keys, node.values):
            if value is child and key is not None:
                known = self._key(key.value, kind, depth) if is_text(key) else _NOTHING  # type: ignore[attr-defined]
                if known.proof:
                    return known
                if getattr(self.unit.parent(node), "arg", None) in _FILES:
                    return Use(Proof.OTHER, "path", Shape.KEEP)
                mapped = self._map(node, kind)
                return mapped if mapped.proof else self._looked_up(node, child, kind, depth)
        return self.table(node, kind, depth)

    def _looked_up(self, node: ast.Dict, child: ast.AST, kind: Kind, depth: int) -> Use:
        """`{True: "nccl", False: "gloo"}[flag]`: a choice written as a table goes where the look-up goes."""
        parent = self.unit.parent(node)
        call = self.unit.parent(parent) if isinstance(parent, ast.Attribute) and parent.attr in _TAKEN else None
        read = parent if isinstance(parent, ast.Subscript) and parent.value is node else call
        if not isinstance(read, (ast.Subscript, ast.Call)):
            return _NOTHING
        uses = list(self._siblings([v for v in node.values if v is not child], kind))
        walked = self.unit.parent(read)
        if isinstance(walked, (ast.For, ast.AsyncFor, ast.comprehension)) and walked.iter is read:
            into = walked.target
            if isinstance(into, ast.Tuple) and len(into.elts) == 2 and parent.attr == "items":  # type: ignore[union-attr]
                return self._best([*uses, *(self._target(p, kind, depth) for p in _parts(into.elts[1]))])
        return self._best([*uses, *self._uses(read, kind, depth + 1)])

    def _map(self, node: ast.Dict | ast.DictComp, kind: Kind) -> Use:
        """`device_map={"": "cuda:0"}`: the values of a mapping whose own name says device."""
        parent = self.unit.parent(node)
        target = parent.targets[0] if isinstance(parent, ast.Assign) else getattr(parent, "target", None)
        name = parent.arg if isinstance(parent, ast.keyword) else _leaf(target) if target is not None else None
        if name and name.lower().endswith("device_map") and kind.name == "device":
            return Use(Proof.NAMED, f"{name}")
        return _NOTHING

    def table(self, node: ast.Dict, kind: Kind, depth: int = 0) -> Use:
        """Whether a dict literal is a dispatch table over devices, decided by how it is indexed, else by its keys."""
        parent = self.unit.parent(node)
        reads: list[ast.expr] = []
        if isinstance(parent, ast.Subscript) and parent.value is node:
            reads.append(parent.slice)
        elif isinstance(parent, ast.Attribute) and isinstance(self.unit.parent(parent), ast.Call):
            call = self.unit.parent(parent)
            if parent.attr == "get" and call.args:  # type: ignore[union-attr]
                reads.append(call.args[0])  # type: ignore[union-attr]
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            for target in targets:
                for load in self._loads(target):
                    outer = self.unit.parent(load)
                    if isinstance(outer, ast.Subscript) and outer.value is load:
                        reads.append(outer.slice)
                    elif isinstance(outer, ast.Attribute) and outer.attr == "get":
                        call = self.unit.parent(outer)
                        if isinstance(call, ast.Call) and call.args:
                            reads.append(call.args[0])
                    elif isinstance(outer, ast.Compare) and load in outer.comparators:
                        reads.append(outer.left)
        best = self._best([self._holds(r, kind, depth + 1) for r in reads])
        if best.proof >= Proof.NAMED:
            return Use(best.proof, best.why, Shape.KEY, node)
        keys = {k.value for k in node.keys if isinstance(k, ast.Constant)}
        if len(keys & (kind.siblings | {"cuda"})) >= 2 and any(
            (self.unit.name(v) or "").startswith("torch.cuda") for v in node.values if isinstance(v, ast.Attribute)
        ):
            return Use(Proof.NAMED, "table of devices", Shape.KEY, node)
        return Use(Proof.OTHER, "key", Shape.KEEP)

    def _loads(self, target: ast.AST) -> list[ast.expr]:
        if isinstance(target, ast.Name):
            owner = self.unit.index.owner(self.unit.scope(target), target.id)
            return list(self.unit.index.loads.get((owner, target.id), ())) if owner else []
        if isinstance(target, ast.Attribute):
            return [a for a in self.unit.index.attributes[target.attr] if isinstance(a.ctx, ast.Load)]
        return []

    # --- slots ------------------------------------------------------------------------------------------------
    def _variable(self, node: ast.Name) -> Slot:
        scope = self.unit.scope(node)
        return ("v", self.unit.index.owner(scope, node.id) or scope, node.id)

    def _target(self, node: ast.AST, kind: Kind, depth: int) -> Use:
        if isinstance(node, ast.Name):
            return self._slot(self._variable(node), kind, depth)
        if isinstance(node, ast.Attribute):
            return self._slot(("a", node.attr), kind, depth)
        if isinstance(node, ast.Subscript) and is_text(node.slice):
            known = self._key(node.slice.value, kind, depth)  # type: ignore[attr-defined]
            if not known.proof and self.unit.name(node.value) == "os.environ":
                return Use(Proof.OTHER, "environment", Shape.KEEP)
            return known
        return _NOTHING

    def _key(self, key: str, kind: Kind, depth: int) -> Use:
        """A dict or config key: by its name, and by where an attribute or variable of the same name goes."""
        if sinks.says(kind, key):
            return Use(Proof.NAMED, f'key "{key}"')
        if kind.name == "device" and key in self.unit.facts.device_names and not sinks.says_other(kind, key):
            return Use(Proof.NAMED, f'key "{key}"')
        if sinks.says_other(kind, key):
            return Use(Proof.OTHER, f'key "{key}"', Shape.KEEP)
        return _NOTHING

    def _slot(self, slot: Slot, kind: Kind, depth: int) -> Use:
        key = (kind.name, slot)
        known = self._slots.get(key)
        if known is not None:
            return known
        if key in self._busy or depth > _DEPTH:
            return _NOTHING
        passed = self._passed.get(key)
        if passed is not None and passed[0] <= depth:
            return passed[1]
        self._busy.add(key)
        try:
            use = self._best(list(self._evidence(slot, kind, depth + 1)))
        finally:
            self._busy.discard(key)
        if self._busy:
            self._passed[key] = (depth, use)
        else:
            self._slots[key] = use
            self._passed.clear()
        return use

    def _evidence(self, slot: Slot, kind: Kind, depth: int) -> Iterator[Use]:
        name = str(slot[-1])
        bindings: list[Binding] = []
        loads: list[ast.AST]
        if slot[0] == "v":
            scope: Scope = slot[1]  # type: ignore[assignment]
            loads = list(self.unit.index.loads.get((scope, name), ()))
            bindings = scope.bindings.get(name, [])
            if scope.is_class and _is_enum(scope.node):
                owner = scope.node.name  # type: ignore[attr-defined]
                if sinks.says(kind, owner):
                    yield Use(Proof.NAMED, f"member of {owner}")
                elif sinks.says_other(kind, owner):
                    yield Use(Proof.OTHER, f"member of {owner}", Shape.KEEP)
            if scope.is_class:  # a class field is read as an attribute
                loads += [a for a in self.unit.index.attributes.get(name, ()) if isinstance(a.ctx, ast.Load)]
        else:
            loads = [a for a in self.unit.index.attributes.get(name, ()) if isinstance(a.ctx, ast.Load)]
            for function in self._functions.get(name, ()):  # `@target.setter`
                given = function.args.args[1:2]  # type: ignore[attr-defined]
                if given and any(getattr(d, "attr", "") == "setter" for d in function.decorator_list):  # type: ignore[attr-defined]
                    yield self._slot(("v", self.unit.index.scopes[function], given[0].arg), kind, depth)
        if sinks.says(kind, name) and name not in sinks._TOO_SHORT:
            yield Use(Proof.NAMED, f"named {name}")
        elif sinks.says(kind, name):
            yield Use(Proof.SIBLING, f"named {name}")
        elif sinks.says_other(kind, name):
            yield Use(Proof.OTHER, f"named {name}", Shape.KEEP)
        for load in loads:
            test = self.unit.parent(load)
            if (
                isinstance(test, ast.Compare)
                and len(test.comparators) == 1
                and isinstance(test.ops[0], (ast.Eq, ast.NotEq))
            ):
                yield from self._siblings([test.left, *test.comparators], kind)  # `if kind == "cpu"` elsewhere
            for use in self._uses(load, kind, depth):
                # The shape belongs to the place of use, not to the literal that flows there.
                yield Use(use.proof, use.why, Shape.REPLACE if use.shape is not Shape.KEEP else use.shape)
        for binding in bindings:
            if binding.kind == "assign" and binding.value is not None:
                yield from self._siblings([binding.value], kind)
                if isinstance(binding.value, (ast.Call, ast.Attribute, ast.BoolOp, ast.IfExp, ast.Subscript, ast.Name)):
                    held = self._holds(binding.value, kind, depth)
                    if held.proof >= Proof.NAMED:
                        yield held
            elif binding.kind == "loop" and isinstance(binding.value, (ast.Tuple, ast.List, ast.Set)):
                yield from self._siblings(list(binding.value.elts), kind)
            elif binding.kind == "param":
                yield from self._param(binding, kind)
            annotation = getattr(binding.node, "annotation", None)
            if isinstance(annotation, ast.Subscript) and _leaf(annotation.value) == "Literal":
                words = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
                yield from self._strangers(list(words), kind)
        exported = slot[0] == "a" or (isinstance(slot[1], Scope) and (slot[1].parent is None or slot[1].is_class))
        if (
            kind.name == "device"
            and exported
            and name in self.unit.facts.device_names
            and not sinks.says_other(kind, name)
        ):
            yield Use(Proof.NAMED, f"{name} reaches a device in another file")

    def _param(self, binding: Binding, kind: Kind) -> Iterator[Use]:
        function = next((a for a in self.unit.ancestors(binding.node) if isinstance(a, ast.FunctionDef)), None)
        if (
            kind.name == "device"
            and function is not None
            and function.name in sinks.DEVICE_METHODS
            and isinstance(self.unit.parent(function), ast.ClassDef)
            and function.args.args[1:2] == [binding.node]
        ):
            yield Use(Proof.SINK, f".{function.name}")  # `def to(self, target)`
        annotation = getattr(binding.node, "annotation", None)
        if annotation is not None and kind.name == "device":
            for node in ast.walk(annotation):
                if isinstance(node, (ast.Attribute, ast.Name)) and self.unit.name(node) == "torch.device":
                    yield Use(Proof.SINK, "annotated torch.device")

    def _returned(self, node: ast.Return | ast.Yield, kind: Kind, depth: int) -> Use:
        """A function that returns device strings: its name, then where its calls go."""
        function = next(
            (a for a in self.unit.ancestors(node) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), None
        )
        if function is None:
            return _NOTHING
        uses: list[Use] = []
        if sinks.says(kind, function.name):
            uses.append(Use(Proof.NAMED, f"returned by {function.name}"))
        elif sinks.says_other(kind, function.name):
            uses.append(Use(Proof.OTHER, f"returned by {function.name}", Shape.KEEP))
        key = (kind.name, ("r", function))
        if key not in self._busy and depth < _DEPTH:
            self._busy.add(key)
            try:
                scope = self.unit.index.scope_of[function]
                loads: list[ast.AST] = list(self.unit.index.loads.get((scope, function.name), ()))
                loads += [a for a in self.unit.index.attributes.get(function.name, ()) if isinstance(a.ctx, ast.Load)]
                for load in loads:
                    call = self.unit.parent(load)
                    if isinstance(call, ast.Call) and call.func is load:
                        uses.extend(self._uses(call, kind, depth + 1))
                    elif _is_property(function):
                        uses.extend(self._uses(load, kind, depth + 1))
            finally:
                self._busy.discard(key)
        for other in ast.walk(function):
            if isinstance(other, ast.Return) and other is not node and other.value is not None:
                uses.extend(self._siblings([other.value], kind))
        return self._best([Use(u.proof, u.why, Shape.REPLACE if u.shape is not Shape.KEEP else u.shape) for u in uses])

    # --- reading ----------------------------------------------------------------------------------------------
    def _holds(self, node: ast.AST, kind: Kind, depth: int) -> Use:
        if depth > _DEPTH:
            return _NOTHING
        if isinstance(node, ast.Name):
            return self._slot(self._variable(node), kind, depth)
        if isinstance(node, ast.NamedExpr):
            return self._holds(node.value, kind, depth + 1)
        if isinstance(node, ast.Attribute):
            if kind.name == "device":
                if node.attr == "device":
                    return Use(Proof.SINK, ".device")
                if node.attr == "type":
                    return self._type_of(node.value, kind, depth)
            return self._slot(("a", node.attr), kind, depth)
        if isinstance(node, ast.Subscript):
            if is_text(node.slice):
                return self._key(node.slice.value, kind, depth)  # type: ignore[attr-defined]
            return self._holds(node.value, kind, depth + 1)
        if isinstance(node, ast.IfExp):
            return self._best([self._holds(node.body, kind, depth + 1), self._holds(node.orelse, kind, depth + 1)])
        if isinstance(node, ast.BoolOp):
            return self._best([self._holds(v, kind, depth + 1) for v in node.values])
        if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
            return self._best([self._holds(e, kind, depth + 1) for e in node.elts])
        if isinstance(node, ast.JoinedStr):
            return self._best(
                [self._holds(v.value, kind, depth + 1) for v in node.values if isinstance(v, ast.FormattedValue)]
            )
        if isinstance(node, ast.Call):
            return self._call_holds(node, kind, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and is_text(node.left, "%s", "%r"):
            return self._holds(node.right, kind, depth + 1)  # "%s" % x.device
        return _NOTHING

    def _call_holds(self, node: ast.Call, kind: Kind, depth: int) -> Use:
        name, leaf = self.unit.callee(node), _leaf(node.func)
        if kind.name == "backend":
            if name in sinks.BACKEND_READERS or leaf in (
                "get_backend",
                "_get_default_backend",
                "communication_backend_name",
            ):
                return Use(Proof.SINK, leaf or "")
        elif name == "torch.device" or leaf == "get_device":
            return Use(Proof.SINK, leaf or "")
        elif leaf == "type" and isinstance(node.func, ast.Attribute) and not node.args:
            return Use(Proof.SINK, ".type()")  # "torch.cuda.FloatTensor"
        if leaf in (
            "str",
            "repr",
            "lower",
            "upper",
            "strip",
            "split",
            "partition",
            "rsplit",
            "replace",
            "getattr",
            "get",
            "pop",
            "__str__",
            "__repr__",
            "casefold",
            "rpartition",
            "format",
        ):
            if leaf == "format" and isinstance(node.func, ast.Attribute):
                only = is_text(node.func.value, "{}", "{0}") and len(node.args) == 1
                return self._holds(node.args[0], kind, depth + 1) if only else _NOTHING
            if leaf in ("getattr",) and len(node.args) >= 2 and is_text(node.args[1]):
                return self._key(node.args[1].value, kind, depth)  # type: ignore[attr-defined]
            if leaf in ("get", "pop"):
                return self._key(node.args[0].value, kind, depth) if node.args and is_text(node.args[0]) else _NOTHING  # type: ignore[attr-defined]
            inner = node.func.value if isinstance(node.func, ast.Attribute) else (node.args[0] if node.args else None)
            return self._holds(inner, kind, depth + 1) if inner is not None else _NOTHING
        if leaf and sinks.says(kind, leaf):
            return Use(Proof.NAMED, f"{leaf}()")
        return _NOTHING

    def _type_of(self, node: ast.expr, kind: Kind, depth: int) -> Use:
        """`d.type`: a device's type if d is a device, else the name has to say so."""
        held = self._holds(node, kind, depth + 1)
        if held.proof >= Proof.NAMED:
            return Use(Proof.SINK, ".device.type")
        leaf = _leaf(node)
        if leaf and (sinks.says(kind, leaf) or leaf in sinks._TOO_SHORT):
            return Use(Proof.SINK, ".type")
        return Use(Proof.SIBLING, ".type") if held.proof is not Proof.OTHER else held


# unittest and friends: both arguments are compared
_ASSERTS = frozenset(
    ("assertEqual", "assertNotEqual", "assert_equal", "assertEquals", "assertIs", "eq_", "assertIn", "assertNotIn")
)


def _parameter_names(node: ast.expr) -> list[str]:
    """`parametrize("device,n", ...)`, also as a tuple or list of texts."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [word.strip() for word in node.value.split(",")]
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
    return [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    """The names and attributes that an assignment or a loop binds."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for inner in target.elts:
            yield from _parts(inner)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _is_enum(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any((_leaf(b) or "").endswith("Enum") for b in node.bases)


_COLLECTIONS = frozenset(("frozenset", "set", "tuple", "list"))
# Functions of torch.cuda whose first argument is something else.
_NO_DEVICE = (
    "set_rng_state",
    "manual_seed",
    "stream",
    "set_stream",
    "nvtx",
    "cnpx",
    "amp",
    "graph",
    "check_error",
    "comm",
    "make_graphed",
    "ExternalStream",
    "set_per_process",
)
_PASSING = ("typing", "copy", "itertools", "collections", "sys")
_NEUTRAL = frozenset(("", "auto", "none", "default"))
_FILES = frozenset(("package_data", "exclude_package_data", "package_dir", "data_files"))
_TAKEN = frozenset(("get", "items", "values", "pop"))
# Methods of text whose first argument is looked for in it.
_QUESTIONS = frozenset(
    "startswith endswith removeprefix split rsplit partition rpartition replace count find rfind index rindex strip "
    "lstrip __eq__ __ne__ __contains__".split()
)


def _is_device_read(node: ast.Attribute) -> bool:
    """`x.device`, `x.device.type`: what a device says of itself."""
    if node.attr == "type":
        leaf = _leaf(node.value)
        return leaf is not None and (leaf in sinks._TOO_SHORT or sinks.says(sinks.DEVICE, leaf))
    return node.attr == "device"


def _leaf(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return _leaf(node.func)
    return None


def _default_of(args: ast.arguments, child: ast.AST) -> str | None:
    positional = [*args.posonlyargs, *args.args]
    for arg, default in zip(positional[len(positional) - len(args.defaults) :], args.defaults):
        if default is child:
            return arg.arg
    for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults):
        if kw_default is child:
            return arg.arg
    return None


def _is_property(node: ast.AST) -> bool:
    return any(_leaf(d) in ("property", "cached_property") for d in getattr(node, "decorator_list", ()))
