"""MLU005: code that has an mlu branch already."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import kept, supports_mlu


class VendorBranch(Rule):
    """
    CUDA branches that stand beside an mlu branch.

    ## What it changes
    Nothing. Where a ladder of conditions, a table or a tuple already has an mlu member, its CUDA side belongs to the
    GPU and stays.

    ## Before
        import torch

        def sync(device):
            if device.type == "mlu":
                torch.mlu.synchronize()
            elif device.type == "cuda":
                torch.cuda.synchronize()

    ## Finding
    At the CUDA branch: it was left, an mlu branch stands beside it.

    ## Left alone
    Everything in such a branch. Other edits in a file that chooses between CUDA and MLU itself become unsafe: it may
    run as it is.

    ## Source
    Several vendors' branches in one file are common: 437 of 3,806 files with CUDA semantics in 78 public projects.
    """

    code = "MLU005"
    name = "vendor-branch"
    severity = Severity.INFO
    safety = Safety.MANUAL
    topics = ("set-up",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """One finding a kept branch, from its first CUDA word to its last."""
        if supports_mlu(unit):
            yield self.found(unit, (0, len(unit.source.line_bytes(1).rstrip())), "file", safety=Safety.MANUAL)
        groups: dict[int, list[ast.AST]] = {}
        for item in kept(unit):
            if item.why == "tied":
                yield self.found(unit, item.node, "tied", safety=Safety.MANUAL, severity=Severity.WARNING)
            if item.why == "sibling" and hasattr(item.node, "lineno"):
                text = unit.data[unit.start(item.node) : unit.end(item.node)]
                if b"cuda" in text.lower() or b"nccl" in text.lower():
                    groups.setdefault(item.group or id(item.node), []).append(item.node)
        for nodes in groups.values():
            span = (min(map(unit.start, nodes)), max(map(unit.end, nodes)))
            told = self.found(unit, span, "kept", safety=Safety.MANUAL)
            yield told.with_(before=told.before.partition("\n")[0].rstrip())
