"""MLU906: tests of CUDA's error texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_TEXT = re.compile(
    r"CUDA out of memory|CUDA error|cuDNN error|CUBLAS_STATUS|device-side assert|CUDNN_STATUS|NCCL error|"
    r"cuda runtime error",
    re.IGNORECASE,
)
_WORDS = frozenset(("CUDA", "cuDNN", "CUDNN", "cuBLAS", "CUBLAS", "NCCL"))


def _is_error_text(unit: Unit, node: ast.expr) -> bool:
    """`str(error)`, `error.args[0]`, `repr(error)` of what an `except` caught."""
    inner = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return any(isinstance(a, ast.ExceptHandler) and a.name in inner for a in unit.ancestors(node))


class MemoryMessage(Rule):
    """
    Comparisons with the text of a CUDA error.

    ## What it changes
    Nothing. The MLU text is "MLU out of memory. Tried to allocate ..."; library errors start "CNRT error: ", "CNNL
    error: ". A branch
    that looks for CUDA's words never runs.

    ## Before
        import torch

        try:
            step()
        except RuntimeError as error:
            if "CUDA out of memory" not in str(error):
                raise

    ## Finding
    At the text: look for "out of memory", or catch `torch.OutOfMemoryError`.

    ## Left alone
    `"out of memory" in str(error)`, which fits both, and texts that are only printed.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/csrc/framework/core/caching_allocator.cpp:925-948,
    torch_mlu/csrc/aten/utils/exceptions.h:46-115.
    """

    code = "MLU906"
    name = "memory-message"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (b"CUDA", b"cuda", b"cuDNN", b"CUDNN", b"CUBLAS", b"NCCL", b"nccl", b"assert")

    @sieve.texts(lambda text: text in _WORDS or len(text) > 9 and _TEXT.search(text) is not None)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Texts that are compared, searched or matched."""
        assert isinstance(node.value, str)
        parent = unit.parent(node)
        if node.value in _WORDS and isinstance(parent, ast.Compare) and node is parent.left:
            if isinstance(parent.ops[0], (ast.In, ast.NotIn)) and _is_error_text(unit, parent.comparators[0]):
                yield self.found(unit, node, "compared", text=node.value)
            return
        if not _TEXT.search(node.value):
            return
        while isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            parent = unit.parent(parent)
        compared = isinstance(parent, ast.Compare)
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
            compared = parent.func.attr in (
                "startswith",
                "find",
                "search",
                "match",
                "count",
                "assertIn",
                "assertRaisesRegex",
                "index",
            )
        if isinstance(parent, ast.keyword):
            compared = parent.arg == "match"
        if isinstance(parent, (ast.GeneratorExp, ast.comprehension)):
            compared = True
        if compared:
            yield self.found(unit, node, "compared", text=node.value)
