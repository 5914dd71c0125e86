"""What a call does with a string that is handed to it: sinks, containers, options, functions of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlu_migrate import libraries, sinks, texts
from mlu_migrate.flow import reading, rows, slots, targets
from mlu_migrate.flow.uses import NOTHING, Proof, Shape, Use, leaf_of
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import argument, is_text

if TYPE_CHECKING:
    from mlu_migrate.flow.core import Flow


def foreign_library(flow: Flow, call: ast.Call) -> str | None:
    if leaf_of(call.func) in ("HParams", "ConfigDict", "config_dict"):
        return None  # a bag of settings: who reads them decides
    for name in flow.unit.names.all_of(call.func):
        root = name.partition(".")[0]
        if root in sinks.FOREIGN and not name.startswith("cuda_"):
            return root
        if name in libraries.keeping():
            return root
    return None


def only_abroad(flow: Flow, loads: list[ast.AST]) -> str | None:
    """
    The library with device words of its own to which alone a variable goes, whatever it is called. What prints or
    compares it does not count.
    """
    found = None
    for load in loads:
        parent = flow.unit.parent(load)
        call = flow.unit.parent(parent) if isinstance(parent, ast.keyword) else parent
        foreign = foreign_library(flow, call) if isinstance(call, ast.Call) and call.func is not load else None
        if foreign:
            found = found or foreign
        elif not isinstance(parent, ast.Compare) and not _is_said(flow, load):
            return None
    return found


def _is_said(flow: Flow, node: ast.AST) -> bool:
    """Whether a value only goes into a text that is printed or logged."""
    outer = next((a for a in flow.unit.ancestors(node) if isinstance(a, (ast.Call, ast.stmt))), None)
    return isinstance(outer, ast.Call) and leaf_of(outer.func) in _SAYS


_SAYS = frozenset("print debug info warning error log exception write echo".split())


def given_by_position(flow: Flow, call: ast.Call, child: ast.AST, kind: Kind, depth: int) -> Iterator[Use]:
    name = flow.unit.callee(call)
    position = next((i for i, a in enumerate(call.args) if a is child), None)
    if position is None or (any(isinstance(a, ast.Starred) for a in call.args[:position])):
        return
    foreign = foreign_library(flow, call)
    if foreign:
        yield Use(Proof.OTHER, f"{foreign}", Shape.KEEP)
        return
    for one in sorted(flow.unit.names.all_of(call.func)):  # `scope = autocast if half else nullcontext`
        known = kind.calls.get(one)
        if known is not None:
            yield Use(Proof.SINK, one) if known[0] == position else Use(Proof.OTHER, one, Shape.KEEP)
            return
    if name in ("functools.partial", "functools.partialmethod") and position > 0:
        inner = flow.unit.name(call.args[0]) or ""
        bound = kind.calls.get(inner)
        if bound is not None and bound[0] == position - 1:
            yield Use(Proof.SINK, inner)
        return
    if name == "operator.methodcaller" and position == 1 and kind.name == "device":
        if is_text(call.args[0], *sinks.DEVICE_METHODS):
            yield Use(Proof.SINK, name)
        return
    leaf = leaf_of(call.func)
    if leaf in _ASSERTS and position in (0, 1) and len(call.args) > 1:
        held = reading.holds(flow, call.args[1 - position], kind, depth + 1)
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
    if leaf in ("set", "update") and 0 < position == len(call.args) - 1 and is_text(call.args[position - 1]):
        key = call.args[position - 1].value.rpartition(".")[2]  # type: ignore[attr-defined]
        yield slots.under_key(flow, key, kind, depth)  # parser.set("run", "device", "cuda")
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
        yield from flow.uses(call, kind, depth + 1)
        return
    if leaf in _QUESTIONS and position == 0:
        if isinstance(call.func, ast.Attribute):
            held = reading.holds(flow, call.func.value, kind, depth + 1)
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
        yield slots.under_key(flow, call.args[0].value, kind, depth)  # type: ignore[attr-defined]
        yield from flow.uses(call, kind, depth + 1)
        return
    if leaf == "getattr" and position == 2 and is_text(call.args[1]):
        yield slots.under_key(flow, call.args[1].value, kind, depth)  # type: ignore[attr-defined]
        yield from flow.uses(call, kind, depth + 1)
        return
    if leaf == "setattr" and position == 2 and is_text(call.args[1]):
        yield slots.under_key(flow, call.args[1].value, kind, depth)  # type: ignore[attr-defined]
        return
    if leaf in ("getattr", "hasattr", "setattr", "delattr") and position == 1:
        if kind.name == "device" and flow.unit.name(call.args[0]) == "torch":
            yield Use(Proof.SINK, f"{leaf}(torch, ...)")
            return
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
            yield given_as_option(flow, call, kind, depth)
        else:
            yield Use(Proof.OTHER, "message", Shape.KEEP)
        return
    if leaf == "param":  # pytest.param("cuda", marks=...)
        yield from test_parameter(flow, call, position, kind)
        return
    if leaf in ("append", "add", "insert", "extend", "appendleft") and isinstance(call.func, ast.Attribute):
        yield slots.of_target(flow, call.func.value, kind, depth)
        return
    if leaf in ("Option", "Argument", "Field", "field", "Value"):
        yield from flow.uses(call, kind, depth + 1)
        return
    yield from targets.project_call(flow, call, name, position, None, kind, depth)


def test_parameter(flow: Flow, call: ast.Call, position: int, kind: Kind) -> Iterator[Use]:
    """What the surrounding `parametrize` calls the value at that position."""
    for outer in flow.unit.ancestors(call):
        if isinstance(outer, ast.Call) and leaf_of(outer.func) == "parametrize" and outer.args:
            names = _parameter_names(outer.args[0])
            if position < len(names) and sinks.says(kind, names[position]):
                yield Use(Proof.NAMED, f'parameter "{names[position]}"')
            return


def given_by_keyword(flow: Flow, call: ast.Call, word: str | None, child: ast.AST, kind: Kind, depth: int) -> Use:
    if word is None:
        return NOTHING
    name = flow.unit.callee(call)
    foreign = foreign_library(flow, call)
    if foreign:
        return Use(Proof.OTHER, foreign, Shape.KEEP)
    leaf = leaf_of(call.func)
    if leaf in ("add_argument", "option", "argument", "add_option", "DEFINE_string", "DEFINE_enum"):
        if word in ("default", "choices", "const", "type", "nargs", "flag_value"):
            return given_as_option(flow, call, kind, depth)
        return Use(Proof.OTHER, "attribute name" if word == "dest" else "message", Shape.KEEP)
    if leaf in ("Field", "field", "Option", "Argument", "ib", "attrib") and word in ("default", "default_factory"):
        return flow.best(list(flow.uses(call, kind, depth + 1)))
    if leaf in ("replace", "_replace", "evolve"):  # dataclasses.replace(options, where="cuda")
        return slots.of_slot(flow, ("a", word), kind, depth)
    if leaf in ("get", "pop", "getoption", "config") and word in ("fallback", "default"):
        keys = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return flow.best(
            [*(slots.under_key(flow, k, kind, depth) for k in keys[-1:]), *flow.uses(call, kind, depth + 1)]
        )
    if name in ("functools.partial", "functools.partialmethod") and call.args:
        inner = flow.unit.name(call.args[0]) or ""
        if kind.calls.get(inner, (None, ""))[1] == word:
            return Use(Proof.SINK, inner)
        made = ast.Call(func=call.args[0], args=[], keywords=[])
        passed = flow.best(list(targets.project_call(flow, made, inner or None, None, word, kind, depth)))
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
    proofs = list(targets.project_call(flow, call, name, None, word, kind, depth))
    if word in ("value", "default", "index") and isinstance(child, ast.Constant):  # gr.Dropdown(choices=[...], value=)
        offered = argument(call, "choices") or argument(call, "options")
        if isinstance(offered, (ast.List, ast.Tuple)):
            proofs += rows.by_siblings(flow, list(offered.elts), kind)
    if sinks.says(kind, word):
        proofs.append(Use(Proof.NAMED, f"{word}="))
    elif sinks.says_other(kind, word):
        proofs.append(Use(Proof.OTHER, f"{word}=", Shape.KEEP))
    return flow.best(proofs)


def given_as_option(flow: Flow, call: ast.Call, kind: Kind, depth: int) -> Use:
    """An argparse / click / absl option: its own name, then where `args.<dest>` goes."""
    given = call.args[:1] if (leaf_of(call.func) or "").startswith("DEFINE_") else call.args
    names = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    dest = argument(call, "dest")
    if is_text(dest):
        names.append(dest.value)  # type: ignore[union-attr]
    for name in names:
        if sinks.says(kind, name) and name.lstrip("-") not in sinks._TOO_SHORT:
            return Use(Proof.NAMED, f"option {name}")
    for name in names:
        use = slots.of_slot(flow, ("a", name.lstrip("-").replace("-", "_")), kind, depth)
        if use.proof >= Proof.NAMED:
            return use
    if any(sinks.says_other(kind, n) for n in names):
        return Use(Proof.OTHER, f"option {names[0]}", Shape.KEEP)
    choices = argument(call, "choices")
    if isinstance(choices, (ast.List, ast.Tuple, ast.Set)):
        return flow.best([*rows.by_siblings(flow, list(choices.elts), kind), *strangers(list(choices.elts), kind)])
    return NOTHING


def strangers(others: list[ast.expr], kind: Kind) -> Iterator[Use]:
    """Of a closed list of words none is a device: `Literal["cuda", "exllama"]` names an algorithm."""
    words = [o.value.lower() for o in others if isinstance(o, ast.Constant) and isinstance(o.value, str)]
    plain = [w for w in words if not kind.text.fullmatch(w) and w not in _NEUTRAL]
    if plain and not any(w.partition(":")[0] in kind.siblings or w in ("gpu", "mlu", "cncl") for w in plain):
        yield Use(Proof.OTHER, f'beside "{plain[0]}"', Shape.KEEP)


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


# Methods of text whose first argument is looked for in it.
_QUESTIONS = frozenset(
    "startswith endswith removeprefix split rsplit partition rpartition replace count find rfind index rindex strip "
    "lstrip __eq__ __ne__ __contains__".split()
)
