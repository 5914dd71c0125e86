"""MLU008: frameworks that know the MLU themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

# what each says of itself; checked in the sources of the named release
_KNOWS = {
    "accelerate": "accelerate (is_mlu_available, DistributedType.MULTI_MLU)",
    "deepspeed": "DeepSpeed (accelerator/mlu_accelerator.py)",
}


class DeviceAgnostic(Rule):
    """
    Programs built on a framework that chooses the MLU by itself.

    ## What it changes
    Nothing. Accelerate and DeepSpeed recognise torch_mlu; code that leaves devices to them needs no edit, only the
    import of torch_mlu where
    it names a device itself.

    ## Before
        from accelerate import Accelerator

        if __name__ == "__main__":
            accelerator = Accelerator()

    ## Finding
    At the import: accelerate chooses the MLU when torch_mlu is installed.

    ## Left alone
    Everything; only files that are run as programs are told.

    ## Source
    accelerate 1.0, src/accelerate/utils/imports.py (is_mlu_available); DeepSpeed 0.14, accelerator/mlu_accelerator.py.
    """

    code = "MLU008"
    name = "device-agnostic"
    severity = Severity.INFO
    safety = Safety.MANUAL
    topics = ("set-up",)
    needs = (b"accelerate", b"deepspeed")

    def visit_Import(self, node: ast.Import, unit: Unit) -> Iterator[Finding]:
        """`import deepspeed`."""
        for alias in node.names:
            yield from self._tell(unit, alias, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """`from accelerate import Accelerator`."""
        if node.module and not node.level:
            yield from self._tell(unit, node, node.module)

    def _tell(self, unit: Unit, node: ast.AST, module: str) -> Iterator[Finding]:
        root = module.partition(".")[0]
        if (
            b"__main__" not in unit.data
            or root not in _KNOWS
            or root in unit.facts.exports
            or unit.memo.get(f"agnostic.{root}")
        ):
            return
        unit.memo[f"agnostic.{root}"] = True
        yield self.found(unit, node, "knows", framework=_KNOWS[root])
