"""MLU301: process groups that name the NCCL backend."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import sieve
from mlu_migrate.decide import ASSIGNED, StringRule
from mlu_migrate.flow import Use
from mlu_migrate.model import Edit, Finding, Severity
from mlu_migrate.sinks import BACKEND
from mlu_migrate.unit import Unit


class NcclBackend(StringRule):
    """
    Process groups that name the NCCL backend.

    ## What it changes
    The text "nccl" where it is the backend of a process group: calls, comparisons, defaults, options,
    `"cpu:gloo,cuda:nccl"`.

    ## Before
        import torch.distributed as dist

        dist.init_process_group("nccl", rank=rank)

    ## After
        import torch.distributed as dist
        import torch_mlu  # noqa: F401

        dist.init_process_group("cncl", rank=rank)

    ## Left alone
    Messages, file names, and a backend read from a config file or passed in by the caller.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/cncl.py:120 (registers the backend `cncl`).
    """

    code = "MLU301"
    name = "nccl-backend"
    severity = Severity.INFO
    topics = ("distributed",)
    needs = (b"nccl", b"NCCL")
    kind = BACKEND

    @sieve.texts(lambda text: "nccl" in text.lower())
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Plain literals."""
        if isinstance(node.value, str) and self.kind.text.fullmatch(node.value):
            if not isinstance(unit.parent(node), ast.JoinedStr):
                yield from self.decide(node, node.value, unit)
        elif isinstance(node.value, str) and ASSIGNED.fullmatch(node.value) and "nccl" in node.value:
            yield from self.assigned(node, unit)
            if not isinstance(unit.parent(node), (ast.List, ast.Tuple, ast.JoinedStr)):
                yield from self.commands(node, unit)
        elif isinstance(node.value, str) and "nccl" in node.value and ("-" in node.value or "=nccl" in node.value):
            if not isinstance(unit.parent(node), ast.JoinedStr):
                yield from self.commands(node, unit)

    def visit_JoinedStr(self, node: ast.JoinedStr, unit: Unit) -> Iterator[Finding]:
        """`f"cpu:gloo,{device.type}:nccl"`."""
        last = node.values[-1]
        if isinstance(last, ast.Constant) and isinstance(last.value, str) and last.value == ":nccl":
            yield from self.decide(node, "nccl", unit)
        elif any(isinstance(v, ast.Constant) and "nccl" in str(v.value) and "-" in str(v.value) for v in node.values):
            yield from self.commands(node, unit)

    def doubtful(self, unit: Unit, use: Use) -> bool:
        """The project keeps a class of its own under "nccl": `@Registry.register("nccl")`, `make(backend="nccl")`."""
        if not unit.facts.registers_nccl:
            return False
        return not use.why.startswith("returned by") and "dist" not in use.why

    def spelled(self, node: ast.expr, text: str, unit: Unit) -> tuple[Edit, ...] | None:
        """`cuda:nccl` changes both words; upper case becomes lower, as torch writes it."""
        if "cuda:" in text:
            return unit.replace_in_string(node, "cuda:nccl", "mlu:cncl")
        return unit.replace_in_string(node, text, "cncl")
