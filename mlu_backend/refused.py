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

_CNNL = "torch_mlu/csrc/aten/operators/cnnl/"
# Refused on the profiles mlu370 and mlu590; `exact` computes what the CPU does. All are RuntimeErrors of
# csrc/refusals.cpp.
KERNEL_LIMITS = tuple(
    Refusal(when, f"RuntimeError: {text}", "csrc/refusals.cpp", _CNNL + source)
    for when, text, source in (
        (
            "avg_pool2d and avg_pool3d with divisor_override",
            "divisor_override is not supported",
            "pooling.cpp:671, 744, 830, 918",
        ),
        (
            "max_pool2d with a window of 65535 elements or more",
            "max_pool2d: The kernel size should be smaller than 65535",
            "pooling.cpp:1022, 1127",
        ),
        (
            "max_pool3d with a window of 1535 elements or more",
            "max_pool3d: The kernel size should be smaller than 1535",
            "pooling.cpp",
        ),
        (
            "scatter with reduce='multiply', scatter_reduce with 'prod' or 'mean'",
            "MLU scatter reduce of",
            "scatter.cpp",
        ),
        ("grid_sample in bicubic mode", "interpolation_mode only support bilinear or nearest.", "grid_sampler.cpp"),
        (
            "grid_sample, bilinear, padded with the border",
            "bilinear only support zeros or reflection padding.",
            "grid_sampler.cpp",
        ),
        ("grid_sample, nearest, not padded with zeros", "nearest only support zeros padding.", "grid_sampler.cpp"),
        (
            "grid_sample of volumes, not bilinear and zeros",
            "grid sampler 3d only support bilinear mode and zeros padding.",
            "grid_sampler.cpp:64",
        ),
        (
            "singular values without vectors (svdvals, matrix norms 2, -2 and nuc, cond)",
            "torch_mlu svd not support compute_uv's value is false.",
            "svd.cpp",
        ),
        ("svd with a driver", "torch_mlu svd not support driver has value", "svd.cpp"),
        (
            "svd of a matrix with 150 rows or columns or more",
            "The height or width of cnnl svd's input tensor should be less than 150",
            "svd.cpp",
        ),
        (
            "the gradient of reflection padding with a negative width",
            "negative padding values are not supported now",
            "reflection_pad_backward.cpp",
        ),
        (
            "unique along a dimension in float16",
            "MLU unique does not support dim and half combinations.",
            "unique.cpp:128",
        ),
    )
)

# Official limits (api_support_lists/torch_api.yaml) that the emulator does not have, and why.
LIMITS_NOT_MODELLED = (
    "max_pool: indices local to the window, int16 for float16: the kernels' layout is not in the sources; dilation 1 "
    "only: no check in the sources, so what a card does is not known",
    "round(decimals=), topk(sorted=False), rrelu in training, correction other than 0 or 1 of var and std, norms with "
    "inf and -inf, stft with pad_mode replicate or onesided=False: listed as unsupported, no check in the sources",
    "Embedding and EmbeddingBag with sparse gradients, EmbeddingBag with max_norm, per_sample_weights, mean or max in "
    "the gradient: sparse ones have no check in the sources; of EmbeddingBag the list says what, not in which words",
    "no gradient of fft.ifft, irfft and rfft and of linalg.qr: how a card refuses is not in the sources",
    "sparse.mm and sparse.addmm in other dtypes than float32; fft with out=: no check in the sources",
    "interpolate with antialias=True: has no kernel, so it warns and runs on the CPU, as on a card",
    "scaled_dot_product_attention: NaN for a fully masked row, head size over 256, no gradient of the mask: these are "
    "of the fused kernels, and which call reaches one is decided by code that is not taken over",
    "1-d NLLLoss with an ignored target gives NaN on a card: of which reductions is not said (the mean is here too)",
    "linalg.inv of a singular matrix is not noticed by a card: what comes out instead is not said",
    "hardtanh with min_val above max_val; _foreach_lerp, fused Adam, rrelu and RNN dropout inside a captured graph: "
    "listed as unsupported, how a card refuses is not said",
    "no generator on mlu for DataLoader, samplers and random_split: they fail in torch itself",
)

# What torch 2.13 makes of operators that the card runs whole (aten::ctc_loss, linalg_det and linalg_slogdet).
PIECES_OF_KERNELS = frozenset("_ctc_loss _ctc_loss_backward _linalg_det _linalg_slogdet".split())

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
    Families of operators of which the card has at least one kernel, their pieces, and those the table cannot speak of.

    By family, not by overload: which overload carries the kernel differs between torch 2.4 and this one.
    """
    return sorted({family(name) for name in _table()} | PIECES_OF_KERNELS | UNKNOWN_TO_TABLE)


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
