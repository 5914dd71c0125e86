"""MLU407: integers beyond 32 bits in torch calls of a program that uses the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_LIMIT = 2**31 - 1
_INT64 = ("torch.int64", "torch.long")


class WideInteger(Rule):
    """
    Integers beyond 32 bits given to torch.

    ## What it changes
    Nothing. Tensors keep int64, but some kernels compute in int32 after one warning, so values beyond 2147483647 may
    wrap.

    ## Before
        import torch

        best = torch.full((8,), torch.iinfo(torch.int64).max, device="cuda")

    ## Finding
    At the value: it may overflow in a kernel that computes in int32.

    ## Left alone
    Seeds, shapes that fit, and files that never use the device.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/csrc/aten/utils/cnnl_util.cpp:128-141.
    """

    code = "MLU407"
    name = "wide-integer"
    severity = Severity.INFO
    safety = Safety.MANUAL
    topics = ("precision", "advice")
    needs = (b"cuda", b"mlu")

    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Values written out in calls of torch functions and in-place fills; seeds are no tensor values."""
        name = unit.callee(node)
        leaf = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        filled = name is None and leaf in (
            "fill_",
            "masked_fill",
            "masked_fill_",
            "full_like",
            "new_full",
            "clamp",
            "clamp_",
        )
        if not filled and (
            name is None or not name.startswith("torch.") or "seed" in leaf or name.startswith("torch.iinfo")
        ):
            return
        if unit.memo.get("wide_integer.told"):
            return
        for given in (*node.args, *(k.value for k in node.keywords)):
            wide = next(
                (inner for inner in ast.walk(given) if isinstance(inner, ast.expr) and _is_wide(unit, inner)), None
            )
            if wide is not None:
                unit.memo["wide_integer.told"] = True
                yield self.found(unit, wide, "wide", text=unit.text(wide))
                return


def _is_wide(unit: Unit, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value > _LIMIT
    if isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
        base, power = node.left.value, node.right.value
        if type(base) is int and type(power) is int and isinstance(node.op, (ast.Pow, ast.LShift)):
            return (base == 2 and power >= 31) if isinstance(node.op, ast.Pow) else base >= 1 and power >= 31
    if isinstance(node, ast.Attribute) and node.attr in ("max", "min") and isinstance(node.value, ast.Call):
        call = node.value
        return unit.callee(call) == "torch.iinfo" and bool(call.args) and unit.name(call.args[0]) in _INT64
    return False
