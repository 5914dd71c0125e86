"""MLU207: devices given as integers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import loading, receivers, sieve
from mlu_migrate.callargs import quoted
from mlu_migrate.flow import Proof
from mlu_migrate.model import Confidence, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.scopes import Binding
from mlu_migrate.sinks import DEVICE
from mlu_migrate.unit import Unit, argument
from mlu_migrate.vendors import is_kept

_NAMED = re.compile(r"(^|_)(rank|gpu|gpu_?id|gpu_?idx|gpu_?index|ordinal|device_?id|device_?idx|device_?index|card)$")
_COUNTS = frozenset(
    "int len torch.cuda.current_device torch.distributed.get_rank torch.distributed.get_node_local_rank "
    "torch.cuda.device_count torch.distributed.get_world_size torch.mlu.current_device".split()
)
# Calls that surely give an ordinal. `torch.cuda.current_device()` is not told: its own rename is.
_ORDINALS = frozenset(("int", "torch.distributed.get_rank", "torch.distributed.get_node_local_rank"))


class IntegerDevice(Rule):
    """
    Devices given as bare integers.

    ## What it changes
    An integer literal in `.to(1)`, `torch.device(1)`, `device=` and `map_location=` becomes "mlu:1". A variable that is
    surely an integer is offered with `--unsafe`; one that only looks like it is told. In a program of a project that
    names CUDA nowhere the first one is a warning: nothing is rewritten there, so `import torch_mlu` has to be written
    by hand.

    ## Before
        import torch

        x = torch.ones(2).to(1)

    ## After
        import torch
        import torch_mlu  # noqa: F401

        x = torch.ones(2).to("mlu:1")

    ## Left alone
    `.cuda(0)` (becomes `.mlu(0)`), `device_ids=[0]`, ordinals given to `torch.cuda` functions, and every variable: a
    bare integer means the MLU where torch_mlu registered the accelerator of the process.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:60 (registers the backend that a bare ordinal means); PyTorch,
    https://pytorch.org/docs/stable/tensor_attributes.html#torch.device (legacy ordinals).
    """

    code = "MLU207"
    name = "integer-device"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("devices",)

    @sieve.calls(loading.LOADERS, roots=("torch.", "transformers."), words=("to",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Literals are rewritten one by one."""
        given = _device_argument(unit, node)
        if given is None or is_kept(unit, node):
            return
        if isinstance(given, ast.Constant) and type(given.value) is int and given.value >= 0:
            text = quoted(unit, given, f"mlu:{given.value}")
            sure = _is_cuda_file(unit) or (unit.callee(node) or "").startswith("transformers.")
            safety = Safety.SAFE if sure else Safety.UNSAFE  # `inputs.to(0)` and nothing else of CUDA in the file
            yield self.found(unit, given, "literal", unit.replace(given, text), safety=safety, number=str(given.value))
        elif isinstance(given, (ast.Name, ast.Attribute)):
            yield from self._variable(node, given, unit)
        elif isinstance(given, ast.Call) and unit.name(given.func) in _ORDINALS:
            yield from self._told(given, unit)

    def _variable(self, node: ast.Call, given: ast.Name | ast.Attribute, unit: Unit) -> Iterator[Finding]:
        text = unit.text(given)
        leaf = given.attr if isinstance(given, ast.Attribute) else given.id
        known = _is_integer(unit, given, 0)
        if not known and not _NAMED.search(leaf):
            return
        if not known and unit.flow.of(given, DEVICE).proof is Proof.OTHER:
            return
        if known and not any(isinstance(a, ast.JoinedStr) for a in unit.ancestors(given)):
            edit = unit.replace(given, f'f"mlu:{{{text}}}"')
            alone = self._is_first(unit, given)
            severity = Severity.WARNING if alone else Severity.INFO
            message = "alone" if alone else "known"
            yield self.found(unit, given, message, edit, safety=Safety.UNSAFE, severity=severity, variable=text)
            return
        yield from self._told(given, unit)

    def _told(self, given: ast.expr, unit: Unit) -> Iterator[Finding]:
        text = unit.text(given)
        seen: set[str] = unit.memo.setdefault("MLU207.told", set())  # type: ignore[assignment]
        if text not in seen:
            seen.add(text)
            if self._is_first(unit, given):
                yield self.found(unit, given, "alone", severity=Severity.WARNING, variable=text)
            else:
                yield self.found(unit, given, "variable", confidence=Confidence.LOW, variable=text)

    def _is_first(self, unit: Unit, given: ast.expr) -> bool:
        """Whether this is the first ordinal of a program that will run without torch_mlu; true once a file."""
        if "MLU207.alone" in unit.memo or not _is_alone(unit, given):
            return False
        unit.memo["MLU207.alone"] = True
        return True


def _is_alone(unit: Unit, given: ast.expr) -> bool:
    """Whether the file is run as a program, and no file of the project has a reason to import torch_mlu."""
    facts = unit.facts
    if _is_cuda_file(unit) or facts.provides_import or facts.speaks_of_cuda:
        return False
    if b"__main__" in unit.data:
        return True
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return len(facts.modules) == 1 and not any(isinstance(outer, functions) for outer in unit.ancestors(given))


_CUDA = re.compile(rb"cuda|CUDA|nccl|mlu")


def _is_cuda_file(unit: Unit) -> bool:
    """Whether a bare ordinal surely means a card: the file speaks of CUDA, or gives one to something of torch."""
    known = unit.memo.get("MLU207.sure")
    if known is None:
        known = _CUDA.search(unit.data) is not None or any(_is_literal(unit, c) for c in unit.index.nodes[ast.Call])
        unit.memo["MLU207.sure"] = known
    return bool(known)


def _is_literal(unit: Unit, call: ast.Call) -> bool:
    given = _device_argument(unit, call)
    return (
        isinstance(given, ast.Constant)
        and type(given.value) is int
        and given.value >= 0
        and (unit.callee(call) == "torch.device" or _from_torch(unit, call))
    )


def _from_torch(unit: Unit, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is a torch call, or comes from one through methods, operators and variables."""
    current = node
    while isinstance(current, (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp)):
        if isinstance(current, (ast.Call, ast.Attribute)):
            name = unit.name(current.func if isinstance(current, ast.Call) else current)
            if name is not None and name.startswith("torch."):
                return True
        if isinstance(current, ast.BinOp):
            current = current.left
        else:
            current = current.func if isinstance(current, ast.Call) else current.value
    if isinstance(current, ast.Name) and depth < 4:
        owner = unit.index.owner(unit.scope(current), current.id)
        bindings = owner.bindings.get(current.id, []) if owner else []
        return any(
            b.value is not None and b.value is not node and _from_torch(unit, b.value, depth + 1) for b in bindings
        )
    return False


def _device_argument(unit: Unit, node: ast.Call) -> ast.expr | None:
    """The argument of a call that takes a device and would take a bare ordinal."""
    name = unit.callee(node)
    if name == "torch.device":
        return argument(node, "device", 0) if len(node.args) < 2 else None
    if name in loading.LOADERS:
        return loading.given(unit, node)
    if (name or "").startswith("torch.") and not (name or "").startswith(("torch.cuda.", "torch.mlu.", "torch.utils.")):
        return argument(node, "device")
    if (name or "").startswith("transformers.") and (name or "").endswith("pipeline"):
        return argument(node, "device")
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr == "to" and unit.uses_torch:
        if receivers.of(unit, func).kind in ("value", "library") and unit.name(func) is None:
            return argument(node, "device", 0)
    return None


def _is_integer(unit: Unit, node: ast.expr, depth: int) -> bool:
    """Whether every value that reaches a name is an integer."""
    if depth > 5:
        return False
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Call):
        return unit.name(node.func) in _COUNTS
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)):
        return _is_integer(unit, node.left, depth + 1) and _is_integer(unit, node.right, depth + 1)
    if isinstance(node, ast.IfExp):
        return _is_integer(unit, node.body, depth + 1) and _is_integer(unit, node.orelse, depth + 1)
    if isinstance(node, ast.Name):
        owner = unit.index.owner(unit.scope(node), node.id)
        bindings = owner.bindings.get(node.id, []) if owner else []
        return bool(bindings) and all(_binds_integer(unit, b, depth) for b in bindings)
    if isinstance(node, ast.Attribute):
        stores = [a for a in unit.index.attributes.get(node.attr, ()) if isinstance(a.ctx, ast.Store)]
        return bool(stores) and all(_stores_integer(unit, s, depth) for s in stores)
    return False


def _binds_integer(unit: Unit, binding: Binding, depth: int) -> bool:
    if binding.kind in ("param", "declare"):
        annotation = getattr(binding.node, "annotation", None)
        return isinstance(annotation, ast.Name) and annotation.id == "int"
    if binding.kind == "loop" and isinstance(binding.value, ast.Call):
        return unit.name(binding.value.func) == "range"
    return binding.kind == "assign" and binding.value is not None and _is_integer(unit, binding.value, depth + 1)


def _stores_integer(unit: Unit, store: ast.Attribute, depth: int) -> bool:
    parent = unit.parent(store)
    if isinstance(parent, ast.AnnAssign):
        return isinstance(parent.annotation, ast.Name) and parent.annotation.id == "int"
    return isinstance(parent, ast.Assign) and parent.targets == [store] and _is_integer(unit, parent.value, depth + 1)
