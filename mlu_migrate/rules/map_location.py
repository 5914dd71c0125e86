"""MLU205: where checkpoints are loaded to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from mlu_migrate import loading, sieve
from mlu_migrate.decide import next_line
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rename import mapped, spell
from mlu_migrate.rule import Rule
from mlu_migrate.sinks import DEVICE
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

# Calls that may be made twice: a value that contains another call is not copied.
_RANK = re.compile(r"(get_)?(local_|global_|node_)?rank")
_PURE = frozenset(("str", "int", "torch.device", "torch.cuda.current_device", "torch.distributed.get_rank"))
# What a load of prepared data, made on the CPU, is called.
_DATA = re.compile(
    r"data|feature|split|process|cache|bytes|mask|vocab|label|index|idx|graph|edge|fixture|sample", re.IGNORECASE
)
_STATE = re.compile(r"model|state|ckpt|checkpoint|weight|param|pretrain|resume|path|load\(\w\)", re.IGNORECASE)


def _is_state(statement: str) -> bool:
    return _STATE.search(statement) is not None and _DATA.search(statement) is None


class MapLocation(Rule):
    """
    Where checkpoints are loaded to.

    ## What it changes
    The values of a `map_location` dictionary. Its keys are tags written in the file: "cuda:0" stays, so that old
    checkpoints load, and "mlu:0" is added with the same value for checkpoints saved from now on. A load without
    map_location is told once a file.

    ## Before
        import torch

        state = torch.load("model.pt", map_location={"cuda:0": "cuda:1"})

    ## After
        import torch
        import torch_mlu  # noqa: F401

        state = torch.load("model.pt", map_location={"cuda:0": "mlu:1", "mlu:0": "mlu:1"})

    ## Left alone
    Loads onto the CPU, functions as map_location (their `.cuda()` is rewritten by MLU201), loads of other libraries.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/storage.py:317 (tag `mlu:N`) and
    torch_mlu/utils/gpu_migration/migration.py:759-772 (a CUDA tag is read as mlu only there).
    """

    code = "MLU205"
    name = "map-location"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("devices",)

    def visit_Dict(self, node: ast.Dict, unit: Unit) -> Iterator[Finding]:
        """A display that reaches map_location, directly or through a variable."""
        if node not in loading.tables(unit) or is_kept(unit, node):
            return
        keys = [unit.data[unit.start(k) : unit.end(k)] for k in node.keys if k is not None]
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None or not _device_texts(key):
                continue
            new_key = _copied(unit, key)
            inside = _string_edits(unit, value)
            if inside is None or new_key is None:
                yield self.found(unit, value, "by_hand", severity=Severity.WARNING)
                continue
            span = (unit.start(key), unit.end(value))
            if new_key in keys:
                if inside:
                    yield self.found(unit, span, "sibling", tag=new_key.decode())
                continue
            if not _pure(unit, value):
                yield self.found(
                    unit,
                    span,
                    "side_effects",
                    inside,
                    severity=Severity.WARNING,
                    confidence=Confidence.MEDIUM,
                    tag=new_key.decode(),
                )
                continue
            entry = self._entry(unit, node, key, value, new_key)
            yield self.found(unit, span, "entry", (*inside, entry), tag=new_key.decode())

    def visit_DictComp(self, node: ast.DictComp, unit: Unit) -> Iterator[Finding]:
        """`{f"cuda:{i}": f"cuda:{rank}" for i in range(n)}`: the value changes, the new keys are for a human."""
        if node not in loading.tables(unit) or not _device_texts(node.key) or is_kept(unit, node):
            return
        inside = _string_edits(unit, node.value)
        if inside:
            yield self.found(unit, node, "comprehension", inside, severity=Severity.WARNING)

    @sieve.calls(("dict",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`dict([("cuda:0", "cuda:1")])`: which texts are tags and which are devices is for a human."""
        if node in loading.tables(unit) and _device_texts(node) and not is_kept(unit, node):
            yield self.found(unit, node, "called", severity=Severity.WARNING)

    @sieve.texts(lambda text: DEVICE.text.fullmatch(text) is not None)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`"cuda" in loc` inside a function given as map_location: the tag of new checkpoints is asked for as well."""
        known = loading.tags(unit)
        function = known.get(node)
        if function is None or is_kept(unit, node):
            return
        if any(
            f is function and str(t.value).startswith("mlu") for t, f in known.items() if isinstance(t, ast.Constant)
        ):
            return
        old = unit.text(node)
        new = old.replace("cuda", "mlu")
        parent = unit.parent(node)
        if isinstance(parent, ast.Compare):
            start, end = unit.span(parent)
            again = unit.data[start : unit.start(node)] + new.encode() + unit.data[unit.end(node) : end]
            both = b" and " if isinstance(parent.ops[0], (ast.NotIn, ast.NotEq)) else b" or "
            edits = (Edit(start, start, b"("), Edit(end, end, both + again + b")"))
            yield self.found(unit, parent, "tag", edits, tag=new)
        elif isinstance(parent, ast.Call):
            start, end = unit.span(node)
            yield self.found(
                unit, node, "tag", (Edit(start, start, b"("), Edit(end, end, f", {new})".encode())), tag=new
            )
        else:
            end = unit.end(node)
            yield self.found(unit, node, "tag", Edit(end, end, f", {new}".encode()), tag=new)

    def finish(self, unit: Unit, accepted: Sequence[Finding]) -> Iterable[Finding]:
        """Loads without map_location; in a file that says nothing of CUDA only those of a model's state."""
        if b"load" not in unit.data:
            return
        bare = [c for c in unit.index.nodes[ast.Call] if self._is_bare(unit, c) and not is_kept(unit, c)]
        if not (accepted or b"torch_mlu" in unit.data):
            bare = [c for c in bare if _is_state(unit.text(unit.statement(c))) and "test" not in unit.path.lower()]
        if bare:
            bare.sort(key=unit.start)
            lines = ", ".join(str(unit.source.position(unit.start(c))[0]) for c in bare[1:])
            yield self.found(unit, bare[0].func, "bare_more" if lines else "bare", lines=lines)

    def _is_bare(self, unit: Unit, call: ast.Call) -> bool:
        name = unit.callee(call)
        if name not in loading.LOADERS or any(k.arg is None for k in call.keywords):
            return False
        if any(isinstance(a, ast.Starred) for a in call.args):
            return False
        return loading.given(unit, call) is None

    def _entry(self, unit: Unit, table: ast.Dict, key: ast.expr, value: ast.expr, new_key: bytes) -> Edit:
        text = new_key + b": " + (_copied(unit, value) or b"")
        end = _after(unit, key, value)
        line = unit.source.line_of(unit.start(key))
        indent = unit.data[unit.source.starts[line - 1] : unit.start(key)]
        alone = not indent.strip() and line != unit.source.line_of(unit.start(table))
        behind = next_line(unit, end) if alone else None
        if behind is not None:
            return Edit(behind, behind, indent + text + b"," + unit.source.newline)
        return Edit(end, end, b"," + (unit.source.newline + indent if alone else b" ") + text)


def _after(unit: Unit, key: ast.expr, value: ast.expr) -> int:
    """The end of a value, behind parentheses of its own."""
    end = unit.end(value)
    while True:
        rest = unit.data[end:]
        gap = len(rest) - len(rest.lstrip())
        between = unit.data[unit.end(key) : end]
        if rest[gap : gap + 1] != b")" or between.count(b"(") <= between.count(b")"):
            return end
        end += gap + 1


def _device_texts(node: ast.expr) -> list[ast.expr]:
    """The literals below an expression that spell a CUDA device."""
    out: list[ast.expr] = []
    stack: list[ast.AST] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.JoinedStr):
            first = item.values[0] if item.values else None
            if isinstance(first, ast.Constant) and str(first.value) in ("cuda", "cuda:"):
                out.append(item)
            continue
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and DEVICE.text.fullmatch(item.value):
            out.append(item)
        stack.extend(ast.iter_child_nodes(item))
    return out


def _string_edits(unit: Unit, node: ast.expr) -> tuple[Edit, ...] | None:
    """Edits that make the device texts of an expression say mlu; None where one is spelled with escapes."""
    out: list[Edit] = []
    for text in _device_texts(node):
        edits = unit.replace_in_string(text, "cuda", "mlu")
        if edits is None:
            return None
        out += edits
    return tuple(out)


def _copied(unit: Unit, node: ast.expr) -> bytes | None:
    """The source of an expression with its CUDA words renamed."""
    edits = list(_string_edits(unit, node) or ())
    if not edits and _device_texts(node):
        return None
    for inner in ast.walk(node):
        name = unit.name(inner) if isinstance(inner, ast.Attribute) else None
        outer = unit.parent(inner)
        if name is None or not name.startswith("torch.") or (isinstance(outer, ast.Attribute) and unit.name(outer)):
            continue
        new = mapped(name, unit.settings.torch_mlu)
        if new != name and isinstance(inner, ast.Attribute):
            edits += spell(unit, inner, name, new) or ()
    base = unit.start(node)
    out, position = b"", base
    for edit in sorted(edits):
        out += unit.data[position : edit.start] + edit.text
        position = edit.end
    return out + unit.data[position : unit.end(node)]


def _pure(unit: Unit, node: ast.expr) -> bool:
    """Whether evaluating an expression twice does no harm."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.ListComp)):
            return False
        if isinstance(inner, ast.Call) and unit.name(inner.func) not in _PURE:
            leaf = last_word(inner.func)
            if leaf != "format" and not _RANK.fullmatch(leaf):
                return False
    return True
