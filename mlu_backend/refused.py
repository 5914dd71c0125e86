"""
What the card refuses or cannot do natively, and where the emulator says so.

An emulator that accepts everything proves nothing. Refusals of the device itself are raised in C++, where they cost
nothing on the way through; this module holds their list with sources, and reads what they depend on: the operators the
card has kernels for (``tables/operators.json``, from the registrations of torch_mlu r2.4) and the environment.
Absent names of ``torch.mlu`` are absent in ``mlu_backend.mlu``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("tables") / "operators.json"
FALLBACK = "ENABLE_FALLBACK_TO_CPU"


@dataclass(frozen=True)
class Refusal:
    """One thing refused: when, with what error, raised where here, known from where."""

    when: str
    error: str
    raised_in: str
    source: str


REFUSALS = (
    Refusal(
        "an operator without a kernel, ENABLE_FALLBACK_TO_CPU=0, OFF or off",
        "NotImplementedError: The operator 'aten::X' is not currently implemented for the MLU device.",
        "csrc/missing.cpp",
        "torch_mlu/csrc/aten/MLUFallback.cpp:78-93",
    ),
    Refusal(
        "tensors of two cards, or of a card and the CPU, in one operator",
        "RuntimeError: Expected all tensors to be on the same device",
        "csrc/fallback.cpp, csrc/on_card.cpp",
        "test/mlu/test_device.py:415-428",
    ),
    Refusal(
        "more memory than the card has",
        "torch.OutOfMemoryError: MLU out of memory. Tried to allocate",
        "csrc/card_segments.cpp",
        "torch_mlu/csrc/framework/core/caching_allocator.cpp:925-948, 2873",
    ),
    Refusal(
        "use of a card in a forked child of a process that used one",
        "RuntimeError: Cannot re-initialize MLU in forked subprocess.",
        "csrc/device.cpp",
        "torch_mlu/mlu/__init__.py:135",
    ),
    Refusal(
        "no card", "RuntimeError: No MLU devices are available", "csrc/device.cpp", "csrc/framework/core/device.cpp:63"
    ),
    Refusal(
        "a negative ordinal",
        "RuntimeError: device id must be positive!",
        "csrc/device.cpp",
        "torch_mlu/csrc/framework/core/device_utils.h:51",
    ),
    Refusal(
        "binary_cross_entropy under autocast",
        "RuntimeError: ... are unsafe to autocast.",
        "csrc/autocast.cpp",
        "torch_mlu/csrc/aten/autocast_mode.cpp:92-107, 187",
    ),
    Refusal(
        "seeding or reading random state inside a graph capture",
        "RuntimeError: Cannot call MLUGeneratorImpl::",
        "csrc/generator.cpp",
        "torch_mlu/csrc/framework/generator/generator_impl.cpp:240-335",
    ),
    Refusal(
        "a random state of another length than 8 or 16 bytes",
        "RuntimeError: RNG state is wrong size",
        "csrc/generator.cpp",
        "torch_mlu/csrc/framework/generator/generator_impl.cpp:306-357",
    ),
    Refusal(
        "a stream of positive priority",
        "RuntimeError: Expected mlu stream priority to be less than or equal to 0, got N",
        "csrc/device.cpp",
        "torch_mlu/csrc/framework/core/MLUStream.cpp:285",
    ),
    Refusal(
        "int64 values beyond int32 where the card casts, ENABLE_MLU_OVERFLOW_CHECK=1, profiles mlu370 and mlu590",
        "RuntimeError: Overflow occurred! there is a tensor that does cast from int64 value to int32.",
        "csrc/profile.cpp",
        "torch_mlu/csrc/aten/utils/cnnl_util.cpp:129-141",
    ),
)

# Operators torch 2.13 has and torch 2.4, which the table speaks of, had not, or ran in other pieces: about these the
# table says nothing, so nothing is said of them.
UNKNOWN_TO_TABLE = frozenset(
    """
    _fused_rms_norm _fused_rms_norm_backward _safe_softmax _scaled_dot_product_fused_attention_overrideable
    _local_scalar_dense _foreach_max _foreach_powsum _linalg_check_errors _assert_async _functional_assert_async
    _fused_sgd _fused_adagrad native_group_norm native_group_norm_backward equal is_set_to set resize
    """.split()
)


@cache
def _table() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))["operators"]


def family(operator: str) -> str:
    """``add`` for ``aten::add_.Tensor``: what the variants of an operator have in common."""
    name = operator.partition("::")[2].partition(".")[0]
    return name[:-1] if len(name) > 1 and name.endswith("_") else name


def families_with_kernels() -> list[str]:
    """
    Families of operators of which the card has at least one kernel, and those the table cannot speak of.

    By family, not by overload: which overload carries the kernel differs between torch 2.4 and this one.
    """
    return sorted({family(name) for name in _table()} | UNKNOWN_TO_TABLE)


def families_casting_int64() -> list[str]:
    """Families with a kernel that computes int64 as int32."""
    return sorted({family(name) for name, row in _table().items() if "int64->int32" in row.get("casts", ())})


def fallback_allowed() -> bool:
    """``ENABLE_FALLBACK_TO_CPU``, on unless 0, OFF or off (torch_mlu r2.4, csrc/aten/MLUFallback.cpp:93)."""
    return os.environ.get(FALLBACK, "1") not in ("0", "OFF", "off")


def apply(extension: Any) -> None:
    """Tell the C++ part."""
    extension.set_card_operators(families_with_kernels())
    extension.set_fallback_allowed(fallback_allowed())
