"""MLU907: NVIDIA's command line tools called from Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import sieve
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_TOOL = re.compile(
    r"(?:^|[\s/'\"`(;&|])(nvidia-smi|nvcc|nvprof|nsys|ncu|cuobjdump|nvidia-cuda-mps-control)(?=$|[\s'\"`);&|])"
)
_RUNS = frozenset(
    "run call check_output check_call Popen popen system getoutput getstatusoutput which spawn execvp execv "
    "find_in_path find_executable".split()
)
_INSTEAD = {
    "nvidia-smi": "cnmon (its output has another format)",
    "nvcc": "cncc, for kernels written in BangC",
    "nvprof": "cnperf-cli record",
    "nsys": "cnperf-cli record --capture_range=cnProfilerApi",
    "ncu": "cnperf-cli record",
}
_INSTEAD_ZH = {
    **_INSTEAD,
    "nvidia-smi": "cnmon(其输出格式不同)",
    "nvcc": "cncc(用于 BangC 编写的内核)",
}


class NvidiaTool(Rule):
    """
    NVIDIA's command line tools started from Python.

    ## What it changes
    Nothing: the MLU tools print in another format, so what reads their output has to change too.

    ## Before
        import subprocess

        text = subprocess.check_output(["nvidia-smi", "--query-gpu=memory.used"])

    ## Finding
    At `"nvidia-smi"`: use cnmon.

    ## Left alone
    The words in messages, help texts and comments.

    ## Source
    torch_mlu r2.4_develop, test/common_utils.py:136 (cnmon), torch_mlu/utils/cpp_extension.py:86-128 (cncc),
    test/profiler/test_profiler_cnperf.py (cnperf-cli).
    """

    code = "MLU907"
    name = "nvidia-tool"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)
    needs = (b"nv", b"nsys", b"ncu", b"cuobjdump")

    @sieve.texts(lambda text: _TOOL.search(text) is not None)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Texts that are a command or the head of one."""
        match = _TOOL.search(str(node.value))
        if match is None or not _is_command(unit, node):
            return
        tool = match[1]
        if tool in _INSTEAD:
            yield self.found(unit, node, "called", tool=tool, instead=_INSTEAD[tool], instead_zh=_INSTEAD_ZH[tool])
        else:
            yield self.found(unit, node, "without", tool=tool)


def _is_command(unit: Unit, node: ast.AST) -> bool:
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.Call):
            func = outer.func
            leaf = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            if leaf in ("join", "format", "split", "str"):
                continue
            return leaf in _RUNS
        if isinstance(outer, ast.stmt):
            return False
    return False
