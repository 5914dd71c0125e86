"""MLU403: double precision on the device."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mlu_migrate.model import Confidence, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.sinks import DEVICE
from mlu_migrate.unit import Unit, argument, is_text
from mlu_migrate.vendors import is_kept

_WIDE = frozenset(("torch.float64", "torch.double", "torch.complex128", "torch.cdouble"))
_METHODS = frozenset(("double", "cdouble"))
_TYPES = frozenset(("torch.cuda.DoubleTensor", "torch.mlu.DoubleTensor"))
_DEFAULT = frozenset(("torch.set_default_dtype",))


class DoublePrecision(Rule):
    """
    Double precision on the device.

    ## What it changes
    Nothing. Where a float64 or complex128 tensor plainly reaches the device, it is told once a file: an MLU computes it
    as float32 or complex64, while dtype and size still say 64 bit.

    ## Before
        import torch

        x = torch.zeros(3, dtype=torch.float64, device="cuda")

    ## Finding
    At the dtype: results have the precision of float32.

    ## Left alone
    Double precision on the CPU, in NumPy, and tensors whose device cannot be told.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/csrc/aten/utils/types.cpp:43-69 and
    torch_mlu/csrc/aten/utils/tensor_util.cpp:189-192.
    """

    code = "MLU403"
    name = "double-precision"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("precision",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """The first place, with the lines of the others."""
        if (
            not any(w in unit.data for w in (b"float64", b"double", b"complex128", b"DoubleTensor"))
            or not unit.uses_torch
        ):
            return
        places = [n for n in _places(unit) if not is_kept(unit, n)]
        if not places:
            return
        places = sorted({unit.start(n): n for n in places}.values(), key=unit.start)
        first, rest = places[0], places[1:]
        lines = sorted(
            {unit.source.position(unit.start(n))[0] for n in rest} - {unit.source.position(unit.start(first))[0]}
        )
        message = "double_more" if lines else "double"
        sure = Confidence.HIGH if first not in _defaults(unit) else Confidence.MEDIUM
        method = isinstance(first, ast.Attribute) and first.attr in _METHODS and unit.name(first) is None
        span = unit.attr_span(first) if method and isinstance(first, ast.Attribute) else unit.span(first)
        text = unit.data[span[0] : span[1]].decode("utf-8")
        yield self.found(unit, span, message, confidence=sure, text=text, lines=", ".join(map(str, lines)))


def _places(unit: Unit) -> list[ast.expr]:
    """Expressions that ask for 64-bit arithmetic on the device."""
    out: list[ast.expr] = _defaults(unit)
    for node in unit.index.nodes[ast.Attribute]:
        if node.attr == "DoubleTensor" and unit.name(node) in _TYPES:
            out.append(node)
    for call in unit.index.nodes[ast.Call]:
        name = unit.callee(call) or ""
        wide = _wide_argument(unit, call)
        if wide is not None:
            if _on_device(unit, _device_of(unit, call)) or _moved(unit, call):
                out.append(wide)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args and not name:
            if _moved(unit, call) or _came_from_device(unit, call.func.value):
                out.append(call.func)
    return out


def _defaults(unit: Unit) -> list[ast.expr]:
    """`torch.set_default_dtype(torch.float64)` in a file that works on the device."""
    if not any(w in unit.data for w in (b"cuda", b"mlu")):
        return []
    calls = [c for c in unit.index.nodes[ast.Call] if unit.callee(c) in _DEFAULT and c.args]
    return [c.args[0] for c in calls if unit.name(c.args[0]) in _WIDE]


def _wide_argument(unit: Unit, call: ast.Call) -> ast.expr | None:
    """The 64-bit dtype a call is given, by `dtype=` or as argument of `.to(...)`."""
    given = argument(call, "dtype")
    if given is not None:
        return given if unit.name(given) in _WIDE else None
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type"):
        return next((a for a in call.args if unit.name(a) in _WIDE), None)
    return None


def _device_of(unit: Unit, call: ast.Call) -> ast.expr | None:
    given = argument(call, "device")
    if given is None and isinstance(call.func, ast.Attribute) and call.func.attr == "to" and call.args:
        return call.args[0] if unit.name(call.args[0]) not in _WIDE else None
    return given


def _on_device(unit: Unit, node: ast.expr | None, depth: int = 0) -> bool:
    """Whether an expression is plainly the device: a literal, or a variable that holds one."""
    if node is None or depth > 4:
        return False
    if isinstance(node, ast.Constant):
        text = node.value
        return isinstance(text, str) and (DEVICE.text.fullmatch(text) is not None or text.startswith("mlu"))
    if isinstance(node, ast.JoinedStr):
        return bool(node.values) and is_text(node.values[0], "cuda:", "mlu:")
    if isinstance(node, ast.IfExp):
        return _on_device(unit, node.body, depth + 1) or _on_device(unit, node.orelse, depth + 1)
    if isinstance(node, ast.Call) and unit.callee(node) == "torch.device":
        return bool(node.args) and _on_device(unit, node.args[0], depth + 1)
    if isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        bindings = owner.bindings.get(node.id, [])[:8] if owner else []
        return any(b.value is not None and _on_device(unit, b.value, depth + 1) for b in bindings)
    if isinstance(node, ast.Attribute):
        for store in unit.index.attributes.get(node.attr, ())[:40]:
            parent = unit.parent(store)
            if isinstance(store.ctx, ast.Store) and isinstance(parent, ast.Assign):
                if _on_device(unit, parent.value, depth + 1):
                    return True
    return False


def _moved(unit: Unit, call: ast.Call) -> bool:
    """`x.double().cuda()`, `torch.ones(2, dtype=torch.float64).to("cuda")`: a later link moves it to the device."""
    node: ast.AST = call
    while True:
        link = unit.parent(node)
        outer = unit.parent(link) if isinstance(link, ast.Attribute) else None
        if not isinstance(link, ast.Attribute) or not isinstance(outer, ast.Call) or outer.func is not link:
            return False
        if link.attr in ("cuda", "mlu"):
            return True
        if link.attr == "to" and outer.args:
            return _on_device(unit, outer.args[0])
        if link.attr in ("float", "half", "cpu", "numpy", "item", "tolist"):
            return False
        node = outer


def _came_from_device(unit: Unit, node: ast.expr, depth: int = 0) -> bool:
    """`x.cuda().double()`, `y = x.cuda() * 2; y.double()`: an earlier link is on the device."""
    if depth > 4:
        return False
    if isinstance(node, ast.BinOp):
        return any(_came_from_device(unit, side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        bound = owner.bindings.get(node.id, [])[:8] if owner else []
        return bool(bound) and all(
            b.kind == "assign" and b.value is not None and _came_from_device(unit, b.value, depth + 1) for b in bound
        )
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("cuda", "mlu") and unit.callee(node) is None:
            return True
        if node.func.attr == "to" and node.args and _on_device(unit, node.args[0]):
            return True
        if node.func.attr in ("cpu", "numpy"):
            return False
        node = node.func.value
        if isinstance(node, (ast.Name, ast.BinOp)):
            return _came_from_device(unit, node, depth + 1)
    return False
