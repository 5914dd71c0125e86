"""MLU009: programs that find their device through torch.accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_MODULE = "torch.accelerator"


def uses(unit: Unit) -> list[ast.Attribute]:
    """The places of a file that name something in torch.accelerator, in source order."""
    if b"accelerator" not in unit.data:
        return []
    found = [n for n in unit.index.nodes[ast.Attribute] if (unit.name(n) or "").startswith(f"{_MODULE}.")]
    return sorted(found, key=unit.start)


class AcceleratorApi(Rule):
    """
    Programs that find their device through torch.accelerator.

    ## What it changes
    Nothing: such code names no vendor. It needs a torch_mlu for torch 2.6 or newer, where the module came, and the
    program has to import torch_mlu, because without it torch.accelerator knows no MLU and the CPU is used without a
    word.

    ## Before
        import torch

        device = torch.accelerator.current_accelerator()

    ## Finding
    At the first use in the file: what it needs to run on an MLU.

    ## Left alone
    Objects of other libraries called accelerator.

    ## Source
    PyTorch 2.6 release notes, torch.accelerator; torch_mlu r2.4_develop, README.md:112-116 (torch 2.1, 2.3 and 2.4).
    """

    code = "MLU009"
    name = "accelerator-api"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("set-up",)
    needs = (b"accelerator",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """Once a file, at the first use."""
        for node in uses(unit)[:1]:
            yield self.found(unit, node, "newer", release=unit.settings.torch_mlu)
