"""MLU405: operators with a stated limit on an MLU, where the call plainly meets it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlu_migrate import sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument, is_text


@dataclass(frozen=True, slots=True)
class Limit:
    """``keyword`` with a value for which ``meets`` holds is outside what the card's operator does."""

    keyword: str
    meets: Callable[[ast.expr], bool]
    limit: str
    line: int  # of torch_api.yaml, r2.4_develop
    position: int | None = None


def _true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _given(node: ast.expr) -> bool:
    return not (isinstance(node, ast.Constant) and node.value is None)


def _no_add(node: ast.expr) -> bool:
    return is_text(node) and node.value != "add"  # type: ignore[attr-defined]


def _no_sum(node: ast.expr) -> bool:
    return is_text(node) and node.value not in ("sum", "amin", "amax")  # type: ignore[attr-defined]


def _more_than_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1


_SPARSE = Limit("sparse", _true, "sparse gradients (sparse=True) are unsupported", 1657)
_DIVISOR = Limit("divisor_override", _given, "divisor_override is unsupported", 2704)
_F = "torch.nn.functional"
LIMITS: dict[str, tuple[Limit, ...]] = {
    "torch.nn.Embedding": (_SPARSE,),
    f"{_F}.embedding": (Limit("sparse", _true, "sparse gradients (sparse=True) are unsupported", 2775),),
    "torch.nn.EmbeddingBag": (
        Limit("sparse", _true, "sparse gradients (sparse=True) are unsupported", 1664),
        Limit("max_norm", _given, "max_norm is unsupported", 1664),
        Limit("include_last_offset", _true, "include_last_offset is unsupported", 1664),
    ),
    "torch.nn.AvgPool2d": (_DIVISOR,),
    "torch.nn.AvgPool3d": (_DIVISOR,),
    f"{_F}.avg_pool2d": (_DIVISOR,),
    f"{_F}.avg_pool3d": (Limit("divisor_override", _given, "divisor_override is unsupported", 2708),),
    f"{_F}.interpolate": (Limit("antialias", _true, "antialias=True is unsupported", 2840),),
    "torch.nn.MaxPool2d": (
        Limit("dilation", _more_than_one, "dilation other than 1 is unsupported", 2887, 3),
        Limit(
            "return_indices",
            _true,
            "indices are local to the pooling window, so max_unpool and code that reads them differ",
            1866,
            4,
        ),
    ),
    f"{_F}.max_pool2d": (
        Limit("dilation", _more_than_one, "dilation other than 1 is unsupported", 2887, 4),
        Limit(
            "return_indices",
            _true,
            "indices are local to the pooling window, so max_unpool and code that reads them differ",
            2887,
        ),
    ),
    f"{_F}.rrelu": (Limit("training", _true, "training=True is unsupported", 2962),),
    "torch.topk": (Limit("sorted", _false, "sorted=False is unsupported", 1426),),
    "torch.round": (Limit("decimals", _given, "decimals is unsupported", 1216),),
    "torch.scatter": (Limit("reduce", _no_add, 'only reduce="add" is supported', 1229),),
    "torch.scatter_reduce": (Limit("reduce", _no_sum, "only reduce sum, amin and amax are supported", 1236, 4),),
    "torch.linalg.svd": (Limit("driver", _given, "driver is unsupported", 9833),),
    "torch.svd": (Limit("compute_uv", _false, "compute_uv=False is unsupported", 9833, 2),),
    "torch.profiler.profile": (Limit("experimental_config", _given, "experimental_config is unsupported", 10265),),
}
METHODS: dict[str, tuple[Limit, ...]] = {
    "scatter_": (Limit("reduce", _no_add, 'only reduce="add" is supported', 4316),),
    "scatter_reduce_": (Limit("reduce", _no_sum, "only reduce sum, amin and amax are supported", 4330, 3),),
    "scatter_reduce": (Limit("reduce", _no_sum, "only reduce sum, amin and amax are supported", 4326, 3),),
    "topk": (Limit("sorted", _false, "sorted=False is unsupported", 1426),),
}
# names without argument: told as they are (list of official_unsupported and behaviours.md, section 17)
NAMES = {
    "torch.jit.script": ("torch.jit is officially unsupported; gpu_migration returns the object unscripted", 0),
    "torch.compile": ("torch.compile is officially unsupported with torch 2.4; measure against the plain model", 0),
    "torch.jit.trace": ("torch.jit is officially unsupported", 0),
    "torch.from_dlpack": ("dlpack is officially unsupported", 0),
    "torch.utils.dlpack.from_dlpack": ("dlpack is officially unsupported", 0),
    "torch.utils.dlpack.to_dlpack": ("dlpack is officially unsupported", 0),
    "torch.distributed.algorithms.ddp_comm_hooks.register_ddp_comm_hook": (
        "the ready-made DDP communication hooks are unsupported",
        0,
    ),
    "torch.nn.parallel.comm.broadcast": ("torch.cuda.comm has no counterpart", 0),
}

# A file that says none of these keeps its tensors on the host.
_DEVICE = re.compile(rb"cuda|mlu|device|\.to\(|accelerat")


_WORDS = frozenset((*METHODS, *(name.rpartition(".")[2] for name in NAMES if name.startswith("Tensor."))))


class OperatorLimit(Rule):
    """
    Calls that meet a stated limit of the MLU's operators.

    ## What it changes
    Nothing. Only calls are told whose argument is written out and plainly outside what the operator does on the card.

    ## Before
        import torch

        table = torch.nn.EmbeddingBag(1000, 16, mode="sum", sparse=True)
        table.cuda()

    ## Finding
    At the call: sparse gradients are unsupported.

    ## Left alone
    Calls whose arguments are variables, and files that never use the device.

    ## Source
    torch_mlu r2.4_develop, tools/autogen_torch_api/api_support_lists/torch_api.yaml, one line a limit.
    """

    code = "MLU405"
    name = "operator-limit"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("precision", "advice")

    @sieve.calls((*LIMITS, *NAMES), words=_WORDS)
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Known callees, and a few methods by name."""
        name = unit.callee(node)
        limits = LIMITS.get(name or "", ())
        if not limits and isinstance(node.func, ast.Attribute) and (name is None or not name.startswith("torch.")):
            limits = METHODS.get(node.func.attr, ())
            name = f"Tensor.{node.func.attr}"
        for limit in limits:
            value = argument(node, limit.keyword, limit.position)
            if value is not None and limit.meets(value):
                yield self.found(unit, value, "limit", api=name or "", limit=limit.limit, line=str(limit.line))
        told = NAMES.get(name or "")
        if told is not None and _DEVICE.search(unit.data) and not _on_host(unit, node):
            yield from self._told(node.func, name or "", unit)

    def _told(self, node: ast.AST, name: str, unit: Unit) -> Iterator[Finding]:
        seen: set[str] = unit.memo.setdefault("limit.seen", set())  # type: ignore[assignment]
        if name in NAMES and name not in seen:
            seen.add(name)
            yield self.found(unit, node, "unsupported", api=name, limit=NAMES[name][0])

    def visit_FunctionDef(self, node: ast.FunctionDef, unit: Unit) -> Iterator[Finding]:
        """`@torch.jit.script` above a function."""
        for decorator in node.decorator_list:
            name = unit.name(decorator) or ""
            if name in NAMES and not isinstance(decorator, ast.Call) and _DEVICE.search(unit.data):
                yield from self._told(decorator, name, unit)


def _on_host(unit: Unit, node: ast.Call) -> bool:
    """`to_dlpack(x.cpu())`, or of a variable that was last given such a value."""
    given = node.args[0] if node.args else None
    if isinstance(given, ast.Name):
        owner = unit.index.owner(unit.scope(given), given.id)
        before = [b for b in (owner.bindings.get(given.id, []) if owner else []) if _line(b.node) < given.lineno]
        given = max(before, key=lambda b: _line(b.node)).value if before else None
    return (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Attribute)
        and (given.func.attr == "cpu" or given.func.attr == "to" and bool(given.args) and is_text(given.args[0], "cpu"))
    )


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
