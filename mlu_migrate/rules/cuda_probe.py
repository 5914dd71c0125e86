"""MLU911: questions for CUDA that another library answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

_QUESTION = re.compile(
    r"(is|has|have|use|using|with)_(torch_)?(cuda|gpu)(_is)?_(available|installed|present|enabled)"
    r"|(IS|HAS)_(CUDA|GPU)(_AVAILABLE)?|(cuda|gpu)_(is_)?available|require(s)?_(torch_)?(cuda|gpu|multi_gpu)",
)
# Libraries that have the same question for the MLU, with its name.
_TWINS = {
    "transformers": "is_torch_mlu_available",
    "accelerate": "is_mlu_available",
}


class CudaProbe(Rule):
    """
    Questions for CUDA that another library answers.

    ## What it changes
    Nothing. The answer is the library's: on an MLU it is no, and the program goes on with the CPU without a word.

    ## Before
        from transformers.utils import is_torch_cuda_available

        device = "cuda" if is_torch_cuda_available() else "cpu"

    ## Finding
    At `is_torch_cuda_available`: on an MLU it answers no.

    ## Left alone
    Functions of the project itself (their bodies are migrated), files that ask for the MLU as well, and
    `torch.cuda.is_available` (MLU101).

    ## Source
    Hugging Face, transformers.utils.is_torch_mlu_available and accelerate.utils.is_mlu_available (both ask
    `torch.mlu.is_available`).
    """

    code = "MLU911"
    name = "cuda-probe"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (b"cuda", b"gpu", b"CUDA", b"GPU")

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """The import tells where the question comes from; each name is told once."""
        if node.level or not node.module or b"mlu_available" in unit.data:
            return
        asked = [alias for alias in node.names if _QUESTION.fullmatch(alias.name)]
        root = node.module.partition(".")[0]
        if not asked or root == "torch" or _is_own(unit, node.module):  # the last looks through the whole project
            return
        for alias in asked:
            if not is_kept(unit, alias):
                twin = _TWINS.get(root)
                kind = "twin" if twin else "asked"
                yield self.found(unit, alias, kind, function=alias.name, library=root, twin=twin or "")


def _is_own(unit: Unit, module: str) -> bool:
    """Whether a module belongs to the project: its functions are migrated with it."""
    near = unit.module.rpartition(".")[0]
    known = set(unit.facts.modules.values())
    names = (module, f"{near}.{module}" if near else module)
    return any(n in known or any(m.endswith("." + n) for m in known) for n in names) or module.partition(".")[0] in {
        m.partition(".")[0] for m in known if "." in m
    }
