"""MLU102: CUDA names of torch that an MLU does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import apimap, sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rename import target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, is_text
from mlu_migrate.vendors import is_kept


class NoCounterpart(Rule):
    """
    CUDA names of torch without a counterpart in torch_mlu.

    ## What it changes
    Nothing. The name is left as written and told, with the nearest alternative where the table has one.

    ## Before
        import torch

        torch.cuda.comm.broadcast(x, [0, 1])

    ## Finding
    At `torch.cuda.comm.broadcast`: no counterpart; the call fails on an MLU.

    ## Left alone
    Everything: a rename would invent a name.

    ## Source
    mlu_migrate/tables/torch.toml, rows with status "missing".
    """

    code = "MLU102"
    name = "no-counterpart"
    severity = Severity.ERROR
    safety = Safety.MANUAL
    topics = ("names",)

    @sieve.attributes(("__cuda_array_interface__",), roots=("torch.",))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Whole chains only."""
        parent = unit.parent(node)
        name = unit.name(node)
        if node.attr == "__cuda_array_interface__" and isinstance(node.ctx, ast.Load):
            row = apimap.lookup("torch.Tensor.__cuda_array_interface__")
            if row is not None and not is_kept(unit, node):
                yield self.found(unit, node, "missing", cuda=row.name, note=row.note, source=row.source)
            return
        if name is None or not name.startswith("torch.") or (isinstance(parent, ast.Attribute) and unit.name(parent)):
            return
        if name.startswith("torch._C.") and _asked_for_in_the_same_test(unit, node):
            return  # MLU105 tells of the hook at the `hasattr`
        yield from self.tell(unit, node, name)

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """Names imported one by one."""
        if node.level or not (node.module or "").startswith("torch"):
            return
        for alias in node.names:
            if alias.name != "*":
                yield from self.tell(unit, alias, f"{node.module}.{alias.name}")

    @sieve.calls(("torch.library.impl", "torch.library.Library"), words=("impl",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Dispatch keys given as text: `torch.library.impl("my::op", "CUDA")`, `library.impl("op", f, "CUDA")`."""
        for given in (*node.args, *(k.value for k in node.keywords)):
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                row = apimap.patterns().get(f'torch.library dispatch key "{given.value}"')
                if row is not None and not is_kept(unit, given):
                    yield self.found(unit, given, "dispatch_key", cuda=given.value, mlu=row.mlu, source=row.source)

    def tell(self, unit: Unit, node: ast.AST, name: str) -> Iterator[Finding]:
        """One finding for a name that has to stay."""
        found = target(name, unit.settings.torch_mlu)
        if found is None:
            yield from self._beside(unit, node, name)
            return
        if found.mlu is not None:
            return
        row = found.row
        if row is None:
            told: set[str] = unit.memo.setdefault("no_counterpart.unknown", set())  # type: ignore[assignment]
            if any(name.startswith(f"{t}.") for t in told) and not unit.text(node).startswith("torch."):
                return  # a member of an imported class that was told at its import
            told.add(name)
            kind = "private_unknown" if name.startswith("torch._C") else "unknown"
            yield self.found(unit, node, kind, severity=Severity.WARNING, cuda=name)
        elif row.status == "missing":
            severity = Severity.WARNING if name.startswith(("torch._C", "torch.backends")) else Severity.ERROR
            yield self._missing(unit, node, found.known, row, severity)
        elif not row.exists_in(unit.settings.torch_mlu) and row.mlu:
            release = unit.settings.torch_mlu
            yield self.found(
                unit, node, "other_release", cuda=found.known, mlu=row.mlu, release=release, source=row.source
            )
        elif name.startswith("torch._C"):
            yield self.found(
                unit, node, "private", severity=Severity.WARNING, cuda=found.known, mlu=row.mlu, source=row.source
            )
        elif row.mlu == found.known:
            yield self.found(
                unit, node, "same_name", severity=Severity.INFO, cuda=row.mlu, note=row.note or "-", source=row.source
            )
        else:
            yield self.found(
                unit,
                node,
                "differs",
                severity=Severity.WARNING,
                cuda=found.known,
                mlu=row.mlu,
                note=row.note or "-",
                source=row.source,
            )

    def _missing(self, unit: Unit, node: ast.AST, name: str, row: apimap.Row, severity: Severity) -> Finding:
        kind = "missing" if row.note else "missing_bare"
        return self.found(unit, node, kind, severity=severity, cuda=name, note=row.note, source=row.source)

    def _beside(self, unit: Unit, node: ast.AST, name: str) -> Iterator[Finding]:
        """Rows about names outside torch.cuda that no other rule decides: each is told once a file."""
        row = apimap.lookup(name)
        if row is None or row.status == "same" or name.startswith(_TOLD) or name in _TOLD_WHERE_USED | _OF_ROCM:
            return
        if name.startswith("torch.backends.cudnn.") and not isinstance(node, ast.alias):
            return  # MLU402 follows the switches
        told: set[str] = unit.memo.setdefault("no_counterpart.told", set())  # type: ignore[assignment]
        if name in told or is_kept(unit, node):
            return
        told.add(name)
        if row.status == "missing":
            severity = Severity.ERROR if name.startswith("torch.distributed") else Severity.WARNING
            yield self._missing(unit, node, name, row, severity)
        elif row.mlu == name:
            yield self.found(
                unit, node, "same_name", severity=Severity.INFO, cuda=name, note=row.note, source=row.source
            )
        elif row.status == "renamed":
            yield self.found(
                unit, node, "elsewhere", severity=Severity.WARNING, cuda=name, mlu=row.mlu, source=row.source
            )
        else:
            note = row.note or "-"
            yield self.found(
                unit, node, "differs", severity=Severity.INFO, cuda=name, mlu=row.mlu, note=note, source=row.source
            )


# Names whose rows other rules tell of, with more than the name to go by.
_TOLD = (
    "torch.version.",
    "torch.jit.",
    "torch.Tensor.",
    "torch.UntypedStorage.",
    "torch.TypedStorage.",
    "torch.nn.Module.",
    "torch.profiler.profile",
)
# None and False in every torch that torch_mlu runs on: code that asks for AMD's toolkit gets the right answer.
_OF_ROCM = frozenset(("torch.utils.cpp_extension.ROCM_HOME", "torch.utils.cpp_extension.IS_HIP_EXTENSION"))
_TOLD_WHERE_USED = frozenset(
    "torch.compile torch.distributed.ReduceOp.AVG torch.nn.DataParallel torch.nn.parallel.data_parallel "
    "torch.nn.parallel.DistributedDataParallel torch.utils.cpp_extension.CUDAExtension "
    "torch.utils.cpp_extension.load torch.utils.cpp_extension.load_inline torch.utils.cpp_extension.CUDA_HOME "
    "torch.utils.cpp_extension.BuildExtension torch.backends.cudnn torch.backends.cudnn.allow_tf32 "
    "torch.backends.cudnn.version torch.from_dlpack torch.utils.dlpack.from_dlpack torch.utils.dlpack.to_dlpack "
    "torch.nn.utils.rnn.PackedSequence.cuda torch.nn.utils.rnn.PackedSequence.is_cuda".split()
)


def _asked_for_in_the_same_test(unit: Unit, node: ast.Attribute) -> bool:
    """`hasattr(_C, "_cuda_x") and callable(_C._cuda_x)`."""
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.BoolOp):
            asked = [c for c in ast.walk(outer) if isinstance(c, ast.Call) and unit.callee(c) == "hasattr"]
            return any(len(c.args) > 1 and is_text(c.args[1], node.attr) for c in asked)
        if isinstance(outer, ast.stmt):
            return False
    return False
