"""MLU302: names and calls of torch.distributed that belong to NCCL."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import callargs, objects, sieve
from mlu_migrate.model import Confidence, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument, is_text
from mlu_migrate.vendors import is_kept

_INIT = frozenset(("torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group"))
_GROUPS = _INIT | {"torch.distributed.new_group", "torch.distributed.split_group", "torch.distributed.new_subgroups"}
_MAP = "torch.distributed.Backend.default_device_backend_map"
_GROUP = frozenset(("torch.distributed.ProcessGroupNCCL", "torch.distributed.distributed_c10d.ProcessGroupNCCL"))
# What ProcessGroupNCCL and its Options have and ProcessGroupCNCL lacks: rows "ProcessGroupNCCL..." of the table
_LACKING = frozenset(
    "config global_ranks_in_group group_name split_color split_from _add_ephemeral_timeout _end_time_estimate "
    "_group_end _group_start _is_initialized _set_default_timeout _start_time_estimate abort comm_split_count "
    "deregister_mem_pool get_build_nccl_version get_runtime_nccl_version perform_nocolor_split "
    "register_mem_pool".split()
)


class ProcessGroup(Rule):
    """
    Process groups: what belongs to NCCL beside the backend's name.

    ## What it changes
    The device in `Backend.default_device_backend_map["cuda"]`. The rest is told: `init_process_group` without a
    backend, options that do not reach CNCL, members of ProcessGroupNCCL that ProcessGroupCNCL lacks.

    ## Before
        import torch
        import torch.distributed as dist

        name = dist.Backend.default_device_backend_map["cuda"]

    ## After
        import torch
        import torch_mlu  # noqa: F401
        import torch.distributed as dist

        name = dist.Backend.default_device_backend_map["mlu"]

    ## Left alone
    `Backend.NCCL`, `is_nccl_available` and `ProcessGroupNCCL`, which MLU101 renames; the text "nccl" (MLU301); groups
    whose backend is given by the caller.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/cncl.py:120-133 and torch_mlu/csrc/python/ProcessGroupCNCL.cpp:131-182.
    """

    code = "MLU302"
    name = "process-group"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("distributed",)

    @sieve.calls(_GROUPS)
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Groups made without a backend, or with options."""
        name = unit.callee(node)
        if is_kept(unit, node):
            return
        if name in _INIT and not callargs.has_stars(node) and _no_backend(node):
            yield self.found(unit, node.func, "no_backend")
        options = argument(node, "pg_options")
        if options is not None and not (isinstance(options, ast.Constant) and options.value is None):
            yield self.found(unit, options, "options", severity=Severity.WARNING)

    def visit_Subscript(self, node: ast.Subscript, unit: Unit) -> Iterator[Finding]:
        """`Backend.default_device_backend_map["cuda"]`."""
        if is_text(node.slice, "cuda") and unit.name(node.value) == _MAP and not is_kept(unit, node):
            edits = unit.replace_in_string(node.slice, "cuda", "mlu")
            if edits:
                yield self.found(unit, node.slice, "map", edits)

    def visit_Compare(self, node: ast.Compare, unit: Unit) -> Iterator[Finding]:
        """`torch.cuda.nccl.version() >= (2, 10)`: CNCL counts differently."""
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.Call) and unit.callee(side) in (
                "torch.cuda.nccl.version",
                "torch.mlu.cncl.version",
            ):
                if not is_kept(unit, node):
                    yield self.found(unit, node, "version", severity=Severity.WARNING)

    @sieve.attributes(_LACKING)
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`options.config.min_ctas` of an NCCL options object."""
        if is_kept(unit, node):
            return
        name = unit.name(node)
        direct = name is not None and name.rpartition(".")[0] in {g + s for g in _GROUP for s in ("", ".Options")}
        made = objects.makers(unit, node.value) if not direct else frozenset()
        if direct or made & {g + s for g in _GROUP for s in ("", ".Options")}:
            confidence = Confidence.HIGH if direct else Confidence.MEDIUM
            yield self.found(unit, node, "member", severity=Severity.ERROR, confidence=confidence, member=node.attr)


def _no_backend(node: ast.Call) -> bool:
    given = argument(node, "backend", 0)
    return given is None or isinstance(given, ast.Constant) and given.value is None
