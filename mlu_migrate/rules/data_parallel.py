"""MLU905: DataParallel."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_NAMES = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel",
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.DataParallel.DataParallel",
)


class DataParallelUse(Rule):
    """
    Models wrapped in DataParallel.

    ## What it changes
    Nothing. DataParallel is officially unsupported on an MLU; several cards are used with DistributedDataParallel,
    one process a card.

    ## Before
        import torch

        model = torch.nn.DataParallel(model)

    ## Finding
    At the call: use DistributedDataParallel, started with torchrun, one process a card.

    ## Left alone
    `isinstance(model, DataParallel)` and the name in annotations.

    ## Source
    torch_mlu r2.4_develop, tools/autogen_torch_api/api_support_lists/torch_api.yaml:1639.
    """

    code = "MLU905"
    name = "data-parallel"
    severity = Severity.ERROR
    safety = Safety.MANUAL
    topics = ("advice", "distributed")
    needs = (b"arallel",)

    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Calls only: a type check works as before."""
        name = unit.callee(node)
        if name in _NAMES:
            yield self.found(unit, node.func, "used", name=name)
