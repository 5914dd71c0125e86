"""MLU406: functions that run on the host because the card has no kernel for them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from mlu_migrate import apimap, sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_DEVICE = (b".cuda", b"cuda", b".mlu", b'"mlu', b"'mlu")


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(row["name"] for row in apimap.read("host_operators"))


class HostOperator(Rule):
    """
    Functions of torch that an MLU has no kernel for.

    ## What it changes
    Nothing. Such a function runs on the CPU with a copy there and back, or raises where the fallback is switched off.
    Each is told
    once a file.

    ## Before
        import torch

        x = torch.rand(8, device="cuda")
        y = torch.lgamma(x)

    ## Finding
    At `torch.lgamma`: it runs on the host.

    ## Left alone
    Files that never use the device, and methods of unknown objects.

    ## Source
    mlu_migrate/tables/host_operators.toml; torch_mlu r2.4_develop, torch_mlu/csrc/aten/MLUFallback.cpp:45-55 and 78-93.
    """

    code = "MLU406"
    name = "host-operator"
    severity = Severity.INFO
    safety = Safety.MANUAL
    topics = ("precision", "advice")
    needs = _DEVICE

    @sieve.calls(roots=("torch.",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Calls by canonical name."""
        name = unit.callee(node) or ""
        if name not in _names():
            return
        told: set[str] = unit.memo.setdefault("host_operator.told", set())  # type: ignore[assignment]
        if name not in told:
            told.add(name)
            yield self.found(unit, node.func, "host", api=name)
