"""MLU903: decisions by CUDA compute capability or card name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_CAPABILITY = ("torch.cuda.get_device_capability", "torch.mlu.get_device_capability")
_NAMES = ("torch.cuda.get_device_name", "torch.mlu.get_device_name")
_PROPERTIES = ("torch.cuda.get_device_properties", "torch.mlu.get_device_properties")
_CARD = re.compile(
    r"\b(A100|H100|H200|V100|T4|A10|L4|L40|RTX|GTX|TITAN|TESLA|QUADRO|B200|GH200|P100|K80)\b", re.IGNORECASE
)
_ASKS = re.compile(rb"get_device_|mem_get_info|sm_\d\d|compute_\d\d")
_ARCH = re.compile(r"^(sm|compute)_\d{2,3}[a-z]?$")
# fields of torch's properties that _MLUDeviceProperties lacks (behaviours.md, section 7)
_ABSENT = frozenset(
    "warp_size regs_per_multiprocessor gcnArchName uuid L2_cache_size is_integrated is_multi_gpu_board "
    "max_threads_per_multi_processor "
    "max_threads_per_block shared_memory_per_block shared_memory_per_block_optin shared_memory_per_multiprocessor "
    "clock_rate "
    "memory_clock_rate memory_bus_width pci_bus_id pci_device_id pci_domain_id".split()
)


_MEMORY = ("torch.cuda.mem_get_info", "torch.mlu.mem_get_info")


def _is_size(node: ast.expr) -> bool:
    """A number of bytes or gigabytes that is written out: 16e9, 24 * 1024**3, 40 << 30, 8."""
    parts = list(ast.walk(node))
    numbers = [p.value for p in parts if isinstance(p, ast.Constant)]
    plain = all(isinstance(p, (ast.Constant, ast.BinOp, ast.operator)) for p in parts)
    return plain and bool(numbers) and any(isinstance(n, (int, float)) and n >= 4 for n in numbers)


def _asks(unit: Unit) -> bool:
    """Whether the file calls one of the functions at all, or names an architecture; worked out once."""
    known = unit.memo.get("capability.asks")
    if known is None:
        known = _ASKS.search(unit.data) is not None and (
            b"sm_" in unit.data
            or b"compute_" in unit.data
            or any(
                unit.callee(c) in (*_CAPABILITY, *_NAMES, *_PROPERTIES, *_MEMORY) for c in unit.index.nodes[ast.Call]
            )
        )
        unit.memo["capability.asks"] = known
    return bool(known)


class CapabilityGate(Rule):
    """
    Tests of the compute capability, of the card's name, and reads of properties an MLU lacks.

    ## What it changes
    Nothing; the call itself is renamed by MLU101. MLU major numbers are 3, 5 and 6, so a comparison made for CUDA
    decides wrongly.

    ## Before
        import torch

        fast = torch.cuda.get_device_capability()[0] >= 8

    ## Finding
    At the comparison: the capability number has no CUDA meaning on an MLU.

    ## Left alone
    Code that only prints the capability or the name.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/csrc/utils/common.cpp:39-48 (major numbers),
    torch_mlu/csrc/python/Module.cpp:985-999 (properties).
    """

    code = "MLU903"
    name = "capability-gate"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (b"get_device_", b"mem_get_info", b"sm_", b"compute_")

    def visit_Compare(self, node: ast.Compare, unit: Unit) -> Iterator[Finding]:
        """Comparisons whose side comes from get_device_capability, or a card's name in get_device_name."""
        if not _asks(unit):
            return
        sides = [node.left, *node.comparators]
        numbers = any(
            isinstance(n, ast.Constant) and isinstance(n.value, (int, float)) for s in sides for n in ast.walk(s)
        )
        if numbers and any(self._comes_from(s, unit, _CAPABILITY, 0) or self._is_major(s, unit) for s in sides):
            yield self.found(unit, node, "capability")
            return
        texts = [
            n.value for s in sides for n in ast.walk(s) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        if any(_CARD.search(t) for t in texts) and any(self._comes_from(s, unit, _NAMES, 0) for s in sides):
            yield self.found(unit, node, "card_name")
        elif any(_ARCH.match(t) for t in texts):
            yield self.found(unit, node, "arch")
        elif any(_is_size(s) for s in sides) and any(self._is_memory(s, unit) for s in sides):
            yield self.found(unit, node, "memory", severity=Severity.INFO)

    def _is_major(self, node: ast.expr, unit: Unit) -> bool:
        """`get_device_properties(0).major`."""
        fields = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in ("major", "minor")]
        return any(self._comes_from(f.value, unit, _PROPERTIES, 0) for f in fields)

    def _is_memory(self, node: ast.expr, unit: Unit) -> bool:
        if self._comes_from(node, unit, _MEMORY, 0):
            return True
        fields = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "total_memory"]
        return any(self._comes_from(f.value, unit, _PROPERTIES, 0) for f in fields)

    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`get_device_properties(0).warp_size`."""
        if node.attr in _ABSENT and _asks(unit) and self._comes_from(node.value, unit, _PROPERTIES, 0):
            yield self.found(unit, node, "property", severity=Severity.ERROR, field=node.attr)
        elif (
            node.attr == "multi_processor_count" and _asks(unit) and self._comes_from(node.value, unit, _PROPERTIES, 0)
        ):
            yield self.found(unit, node, "cores", severity=Severity.INFO)

    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`get_device_properties()` needs its argument on an MLU."""
        if unit.callee(node) in _PROPERTIES and not node.args and not node.keywords:
            yield self.found(unit, node, "argument", severity=Severity.ERROR)

    def _comes_from(self, node: ast.AST, unit: Unit, names: tuple[str, ...], depth: int) -> bool:
        if depth > 3 or isinstance(node, (ast.Constant, ast.Lambda, ast.ListComp)):
            return False
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and unit.callee(inner) in names:
                return True
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                owner = unit.index.owner(unit.scope(inner), inner.id)
                bindings = owner.bindings.get(inner.id, []) if owner else []
                for binding in bindings:
                    value = binding.value if binding.kind in ("assign", "loop") else None
                    if value is None and isinstance(binding.node, ast.Assign):
                        value = binding.node.value
                    if value is not None and self._comes_from(value, unit, names, depth + 1):
                        return True
        return False
