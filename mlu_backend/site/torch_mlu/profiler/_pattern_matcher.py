"""Habits worth a remark in a profile, in the words of this device."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.benchmark as benchmark
from torch.profiler import _pattern_matcher as theirs
from torch.profiler._pattern_matcher import Pattern, input_dtypes, input_shapes

from torch_mlu import _MLUC

_report = _MLUC._replaced.setdefault("pattern.report_all_anti_patterns", theirs.report_all_anti_patterns)
_ExtraCopy = _MLUC._replaced.setdefault("pattern.extra_copy", theirs.ExtraCUDACopyPattern)
_Unaligned = _MLUC._replaced.setdefault("pattern.unaligned", theirs.MatMulDimInFP16Pattern)


def _seconds(statement: str, **names: Any) -> float:
    return benchmark.Timer(stmt=statement, globals={"torch": torch, **names}).timeit(10).mean


class ExtraMLUCopyPattern(Pattern):
    """A tensor filled on the CPU and moved to the card at once."""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Extra MLU Copy Pattern"
        self.description = "Filled a CPU tensor and immediately moved it to MLU. Please initialize it on MLU."
        self.url = ""
        self.init_ops = {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"}

    @property
    def skip(self) -> bool:
        return not self.prof.with_stack or not self.prof.record_shapes

    def match(self, event: Any) -> bool:
        return _ExtraCopy.match(self, event)

    def benchmark(self, events: Any) -> dict[Any, float]:
        factors = {}
        for shapes in {input_shapes(event) for event in events}:
            there = _seconds('torch.zeros(size).to("mlu")', size=shapes[0])
            here = _seconds('torch.zeros(size, device="mlu")', size=shapes[0])
            factors[shapes] = here / there
        return factors


class FP32MatMulPattern(Pattern):
    """float32 matrix products without TF32."""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "FP32 MatMul Pattern"
        self.description = (
            "You are currently using MLU that supports TF32. "
            "Please enable TF32 by setting 'torch.backends.mlu.matmul.allow_tf32 = True'"
        )
        self.url = ""

    @property
    def skip(self) -> bool:
        return torch.mlu.get_device_properties(torch.mlu.current_device()).major < 5 or not self.prof.record_shapes

    def match(self, event: Any) -> bool:
        return event.name == "aten::mm" and not _MLUC._get_cnmatmul_allow_tf32()

    def report(self, event: Any) -> str:
        return self.description

    def benchmark(self, events: Any) -> dict[Any, float]:
        before = torch.backends.mlu.matmul.allow_tf32
        factors = {}
        try:
            for shapes in {input_shapes(event) for event in events}:
                left, right = (torch.randn(shape, device="mlu") for shape in shapes[:2])
                torch.backends.mlu.matmul.allow_tf32 = False
                exact = _seconds("torch.mm(left, right)", left=left, right=right)
                torch.backends.mlu.matmul.allow_tf32 = True
                factors[shapes] = _seconds("torch.mm(left, right)", left=left, right=right) / exact
        finally:
            torch.backends.mlu.matmul.allow_tf32 = before
        return factors


class MatMulDimInFP16Pattern(Pattern):
    """Half-precision matrix products whose sizes are no multiples of 8."""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Matrix Multiplication Dimension Not Aligned Pattern"
        self.description = "Detected matmul with dimension not aligned. Please use matmul with aligned dimension."
        self.url = ""

    @property
    def skip(self) -> bool:
        return not self.prof.with_stack or not self.prof.record_shapes

    def match(self, event: Any) -> bool:
        return bool(input_dtypes(event)) and _Unaligned.match(self, event)

    def benchmark(self, events: Any) -> dict[Any, float]:
        factors = {}
        for shapes in {input_shapes(event) for event in events}:
            as_is = [torch.randn(shape, device="mlu", dtype=torch.float16) for shape in shapes[:2]]
            rounded = [
                torch.randn([-(-size // 8) * 8 for size in shape], device="mlu", dtype=torch.float16)
                for shape in shapes[:2]
            ]
            slow = _seconds("torch.matmul(left, right)", left=as_is[0], right=as_is[1])
            factors[shapes] = _seconds("torch.matmul(left, right)", left=rounded[0], right=rounded[1]) / slow
        return factors


def report_all_anti_patterns(
    prof: Any, should_benchmark: bool = False, print_enable: bool = True, json_report_dir: str | None = None
) -> None:
    """Print, or write as ``torchtidy_report.json``, what a profile shows, with the patterns above for CUDA's."""
    before = theirs.ExtraCUDACopyPattern
    theirs.ExtraCUDACopyPattern = ExtraMLUCopyPattern
    try:
        _report(prof, should_benchmark, print_enable, json_report_dir)
    finally:
        theirs.ExtraCUDACopyPattern = before


for _pattern in (ExtraMLUCopyPattern, FP32MatMulPattern, MatMulDimInFP16Pattern, report_all_anti_patterns):
    setattr(theirs, _pattern.__name__, _pattern)
