"""MLU401: calls of torch whose default device is CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import callargs, sieve
from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.sinks import DEVICE_CALLS
from mlu_migrate.unit import Unit, argument
from mlu_migrate.vendors import is_kept

_ASKED = {
    "torch.is_autocast_enabled": 0,
    "torch.set_autocast_enabled": 1,
}  # name -> arguments of the form that means CUDA
_SCALER = frozenset(("torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler", "torch.GradScaler"))
_SHARDED = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
_FORK = frozenset(("torch.random.fork_rng", "torch.fork_rng"))
_PARTIAL = frozenset(("functools.partial", "functools.partialmethod"))
_BARE = frozenset(("torch.amp.custom_fwd", "torch.amp.custom_bwd"))


class AutocastDefault(Rule):
    """
    Calls of torch that mean CUDA when no device is named.

    ## What it changes
    `torch.is_autocast_enabled()` and `torch.set_autocast_enabled(x)` become the functions of torch.mlu; GradScaler,
    ShardedGradScaler and `fork_rng` are given the device. Through `functools.partial` too.

    ## Before
        import torch

        scaler = torch.amp.GradScaler()
        if torch.is_autocast_enabled():
            dtype = torch.get_autocast_gpu_dtype()

    ## After
        import torch
        import torch_mlu  # noqa: F401

        scaler = torch.amp.GradScaler("mlu")
        if torch.mlu.is_autocast_enabled():
            dtype = torch.mlu.get_autocast_dtype()

    ## Left alone
    Calls that name a device, `fork_rng(devices=[])`, and `torch.cuda.amp.autocast(False)`, whose first argument is a
    switch and stays one under `torch.mlu.amp.autocast`.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/autocast_utils.py:17-30; torch_mlu/utils/gpu_migration/migration.py:288 and
    480-537; torch 2.4, torch/distributed/fsdp/sharded_grad_scaler.py.
    """

    code = "MLU401"
    name = "autocast-default"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("precision",)

    @sieve.attributes(("is_autocast_enabled", "set_autocast_enabled"))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`torch.is_autocast_enabled`, called without a device or passed on as a function."""
        if not isinstance(node.ctx, ast.Load):
            return
        name = unit.name(node)
        if name not in _ASKED or unit.name(node.value) != "torch" or is_kept(unit, node):
            return
        call = unit.parent(node)
        if isinstance(call, ast.Call) and call.func is node and not self._means_cuda(call, name):
            return
        start = unit.attr_span(node)[0]
        yield self.found(unit, node, "asked", Edit(start, start, b"mlu."), old=name, new=f"torch.mlu.{node.attr}")

    @sieve.calls(_PARTIAL, roots=("torch.",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Calls that lack their device."""
        name = unit.callee(node) or ""
        if is_kept(unit, node):
            return
        if name in _ASKED and isinstance(node.func, ast.Name) and self._means_cuda(node, name):
            yield from self._bare_name(node, name, unit)
        elif name in _SCALER:
            yield from self._scaler(node, name, unit)
        elif name == _SHARDED:
            yield from self._sharded(node, unit)
        elif name in _FORK:
            yield from self._fork(node, unit)
        elif name in _PARTIAL and node.args:
            yield from self._partial(node, unit)

    def visit_FunctionDef(self, node: ast.FunctionDef, unit: Unit) -> Iterator[Finding]:
        """`@torch.amp.custom_fwd` without its device."""
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = unit.name(call.func if call else decorator)
            if name in _BARE and not (call and (argument(call, "device_type") or callargs.has_stars(call))):
                if not is_kept(unit, node):
                    yield self._decorator(decorator, call, unit)

    def _decorator(self, decorator: ast.expr, call: ast.Call | None, unit: Unit) -> Finding:
        text = 'device_type="mlu"'
        if call is None:
            end = unit.end(decorator)
            return self.found(
                unit, decorator, "device", Edit(end, end, f"({text})".encode()), callee=unit.text(decorator)
            )
        edit = callargs.last(unit, call, text)
        return self.found(unit, call.func, "device", edit or (), callee=unit.text(call.func))

    def _means_cuda(self, call: ast.Call, name: str) -> bool:
        return len(call.args) == _ASKED[name] and not call.keywords and not callargs.has_stars(call)

    def _bare_name(self, node: ast.Call, name: str, unit: Unit) -> Iterator[Finding]:
        """`from torch import is_autocast_enabled`: the call is given the device, which torch takes since 2.4."""
        leaf = name.rpartition(".")[2]
        if unit.settings.torch_mlu != "2.4":
            yield self.found(unit, node, "by_hand", severity=Severity.WARNING, old=name, new=f"torch.mlu.{leaf}")
            return
        edit = callargs.first(unit, node, callargs.quoted(unit, node, "mlu"))
        yield self.found(unit, node, "device", edit, callee=unit.text(node.func))

    def _scaler(self, node: ast.Call, name: str, unit: Unit) -> Iterator[Finding]:
        if node.args or argument(node, "device") is not None:
            return
        if callargs.has_stars(node):
            yield self.found(unit, node.func, "hidden", severity=Severity.WARNING, callee=unit.text(node.func))
            return
        edit = callargs.first(unit, node, callargs.quoted(unit, node, "mlu"))
        yield self.found(unit, node.func, "device", edit, callee=unit.text(node.func))

    def _sharded(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        if argument(node, "device", 0) is not None:
            return
        if unit.settings.torch_mlu != "2.4":
            yield self.found(unit, node.func, "sharded", severity=Severity.WARNING, release=unit.settings.torch_mlu)
        elif callargs.has_stars(node):
            yield self.found(unit, node.func, "hidden", severity=Severity.WARNING, callee=unit.text(node.func))
        else:
            edit = callargs.first(unit, node, "device=" + callargs.quoted(unit, node, "mlu"))
            yield self.found(unit, node.func, "device", edit, callee=unit.text(node.func))

    def _fork(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        devices = argument(node, "devices", 0)
        if (
            argument(node, "device_type", 4) is not None
            or isinstance(devices, (ast.List, ast.Tuple))
            and not devices.elts
        ):
            return
        if callargs.has_stars(node):
            yield self.found(unit, node.func, "hidden", severity=Severity.WARNING, callee=unit.text(node.func))
            return
        edit = callargs.last(unit, node, "device_type=" + callargs.quoted(unit, node, "mlu"))
        yield self.found(unit, node.func, "device", edit or (), callee=unit.text(node.func))

    def _partial(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`functools.partial(torch.amp.GradScaler)`."""
        inner = unit.name(node.args[0])
        known = DEVICE_CALLS.get(inner or "")
        if inner is None or known is None:
            return
        position, word = known
        if argument(node, word, None if position is None else position + 1) is not None:
            return  # MLU203 decides about the device that is bound
        if callargs.has_stars(node) or inner not in _SCALER | _FORK | _BARE | {_SHARDED}:
            return
        edit = callargs.last(unit, node, f"{word}=" + callargs.quoted(unit, node, "mlu"))
        yield self.found(unit, node.args[0], "device", edit or (), callee=inner)
