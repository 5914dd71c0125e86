"""
The three profiles of the emulated card: how its arithmetic differs from the CPU's, rule by rule, with sources.

``exact`` computes as the CPU does and is for finding faults of a migration. ``mlu370`` and ``mlu590`` are for
forecasting how far numbers drift on a card. ``MLU_EMULATOR_PROFILE`` chooses (``cards.profile``). Sources name files
of torch_mlu r2.4_develop. ``NOT_MODELLED`` lists what the sources leave open.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

OVERFLOW_CHECK = "ENABLE_MLU_OVERFLOW_CHECK"
TF32_OVERRIDES = ("TORCH_ALLOW_TF32_CNMATMUL_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")


@dataclass(frozen=True)
class Rule:
    """One difference to the CPU's arithmetic."""

    name: str
    what: str
    source: str


NARROW_FLOAT64 = Rule(
    "narrow-float64",
    "float64 and complex128 are stored with float32's precision and computed as float32 and complex64; dtype and "
    "element size stay 64-bit; warned of once a process",
    "torch_mlu/csrc/aten/utils/types.cpp:43-69, tensor_util.cpp:189-192, 428",
)
TF32_CONVOLUTION = Rule(
    "tf32-convolution",
    "float32 inputs of convolutions are rounded to 10 bits of mantissa while torch.backends.cnnl.allow_tf32 is on, "
    "which is its default",
    "torch_mlu/csrc/utils/common.h:106",
)
TF32_MATMUL = Rule(
    "tf32-matmul",
    "float32 inputs of matrix products are rounded the same way while torch.backends.mlu.matmul.allow_tf32 is on "
    "(float32_matmul_precision other than highest, or an override variable); off by default",
    "torch_mlu/csrc/utils/common.cpp:71-81",
)
NO_BFLOAT16 = Rule(
    "no-bfloat16",
    "operators refuse bfloat16 tensors; making, viewing and copying them works",
    "torch_mlu/mlu/__init__.py:535 (is_bf16_supported: major version 5 and up)",
)
INT64_CASTS = Rule(
    "int64-casts",
    "operators whose kernels cast int64 to int32 wrap values that do not fit, after one warning; with "
    "ENABLE_MLU_OVERFLOW_CHECK=1 or ON they raise",
    "torch_mlu/csrc/aten/utils/cnnl_util.cpp:110-141; the operators: casts in tables/operators.json",
)

KERNEL_LIMITS = Rule(
    "kernel-limits",
    "operators refuse arguments their kernels do not take (refused.KERNEL_LIMITS lists them)",
    "torch_mlu/csrc/aten/operators/cnnl/pooling.cpp:671, 1022 and the files refused.KERNEL_LIMITS names",
)

RULES: dict[str, tuple[Rule, ...]] = {
    "exact": (),
    "mlu370": (NARROW_FLOAT64, TF32_CONVOLUTION, TF32_MATMUL, NO_BFLOAT16, INT64_CASTS, KERNEL_LIMITS),
    "mlu590": (NARROW_FLOAT64, TF32_CONVOLUTION, TF32_MATMUL, INT64_CASTS, KERNEL_LIMITS),
}

NOT_MODELLED = (
    "the way CNNL rounds to TF32 (to nearest, ties to even, is assumed) and whether an MLU370 rounds at all",
    "the order in which kernels add up, the precision of their accumulators, and their approximations of exp, tanh, "
    "rsqrt and the like",
    "float16 and bfloat16 accumulation: computed as the CPU computes it",
    "subnormal numbers, and NaN and infinity the official list excuses (fully masked attention, 1-d NLLLoss)",
    "the error a card without bfloat16 gives: type RuntimeError and the start 'CNNL error: ' are from the sources, the "
    "rest of the text is ours",
    "torch.backends.mlu.custom.allow_tf32: which kernels it reaches is not in the sources",
    "limits of kernels other than those of refused.KERNEL_LIMITS (refused.LIMITS_NOT_MODELLED); --support prints them",
)


def _on(name: str) -> bool:
    return os.environ.get(name, "") in ("1", "ON", "on")


def _forced() -> bool:
    for name in TF32_OVERRIDES:
        if name in os.environ:
            return os.environ[name].lower() in ("y", "yes", "1", "t", "true")
    return False


def apply(extension: Any, name: str, int64_casts: list[str]) -> None:
    """
    Put the rules of profile ``name`` in force in the C++ part.

    ``int64_casts`` are the operators whose kernels cast. Raises ValueError for a profile that does not exist.
    """
    if name not in RULES:
        raise ValueError(f"there is no profile {name!r}; the profiles are {', '.join(RULES)}")
    rules = RULES[name]
    extension.set_int64_casts(int64_casts)
    extension.force_tf32_matmul(_forced())
    extension.set_limits(KERNEL_LIMITS in rules)
    extension.set_profile(
        NARROW_FLOAT64 in rules,
        TF32_CONVOLUTION in rules,
        NO_BFLOAT16 not in rules,
        INT64_CASTS in rules,
        _on(OVERFLOW_CHECK),
    )
