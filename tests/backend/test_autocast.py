"""Autocast on mlu: torch's own lists, and what each policy does to dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
KEY = "AutocastPrivateUse1"


def _listed() -> list[str]:
    """Operators of the AT_FORALL lists in the header of the installed torch."""
    text = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text()
    names = []
    for block in re.findall(
        r"#define AT_FORALL_(?:LOWER_PRECISION_FP|FP32|FP32_SET_OPT_DTYPE|PROMOTE)\(_\)((?:.*\\\n)*.*)", text
    ):
        for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", block):
            names.append(f"aten::{name}" + (f".{overload}" if overload else ""))
    return names


def test_every_operator_of_torch_s_lists_has_a_kernel_under_autocast(extension: Any) -> None:
    names = _listed()
    assert len(names) > 110
    missing = [n for n in names if not torch._C._dispatch_has_kernel_for_dispatch_key(n, KEY)]
    assert missing == []
    for name in (
        "aten::norm.Scalar",
        "aten::norm.ScalarOpt_dim",
        "aten::binary_cross_entropy",
        "aten::cudnn_convolution",
    ):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, KEY), name


def _t(*shape: int, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    return torch.rand(*shape, device="mlu").to(dtype)


CASES: list[tuple[str, Callable[[], torch.Tensor], torch.dtype | None]] = [
    ("mm", lambda: _t(4, 4) @ _t(4, 4), None),
    ("linear", lambda: functional.linear(_t(4, 4), _t(4, 4)), None),
    ("conv2d", lambda: functional.conv2d(_t(1, 1, 4, 4), _t(1, 1, 3, 3)), None),
    (
        "attention",
        lambda: functional.scaled_dot_product_attention(_t(1, 2, 4, 8), _t(1, 2, 4, 8), _t(1, 2, 4, 8)),
        None,
    ),
    ("lstm cell", lambda: torch.nn.LSTMCell(4, 4).mlu()(_t(2, 4))[0], None),
    ("softmax of half", lambda: _t(4, dtype=HALF).softmax(0), FLOAT),
    ("sum of half", lambda: _t(4, dtype=HALF).sum(), FLOAT),
    ("sum with a dtype", lambda: _t(4, dtype=HALF).sum(dtype=HALF), HALF),
    ("exp of half", lambda: _t(4, dtype=HALF).exp(), FLOAT),
    ("layer_norm of half", lambda: functional.layer_norm(_t(4, 4, dtype=HALF), (4,)), FLOAT),
    ("norm of half", lambda: torch.norm(_t(4, dtype=HALF)), FLOAT),
    ("mse_loss of half", lambda: functional.mse_loss(_t(4, dtype=HALF), _t(4, dtype=HALF)), FLOAT),
    ("relu of half falls through", lambda: functional.relu(_t(4, dtype=HALF)), HALF),
    ("add of half and float promotes as always", lambda: _t(4, dtype=HALF) + _t(4), FLOAT),
    ("addcmul promotes to the widest", lambda: torch.addcmul(_t(4), _t(4, dtype=HALF), _t(4)), FLOAT),
    ("float64 is left alone", lambda: _t(4, 4, dtype=torch.float64) @ _t(4, 4, dtype=torch.float64), torch.float64),
    ("integers are left alone", lambda: torch.ones(4, dtype=torch.int64, device="mlu").sum(), torch.int64),
]


@pytest.mark.parametrize(("name", "call", "expected"), CASES, ids=[c[0] for c in CASES])
def test_results_have_the_dtype_of_the_policy(
    card: Any, name: str, call: Callable[[], torch.Tensor], expected: torch.dtype | None
) -> None:
    with torch.autocast("mlu"):
        assert call().dtype == (expected or HALF)


def test_bfloat16_is_used_where_asked_for(card: Any) -> None:
    with torch.autocast("mlu", dtype=BFLOAT):
        assert (_t(4, 4) @ _t(4, 4)).dtype == BFLOAT
        assert _t(4, dtype=BFLOAT).softmax(0).dtype == FLOAT
        with torch.autocast("mlu", enabled=False):
            assert (_t(4, 4) @ _t(4, 4)).dtype == FLOAT


def test_tensors_on_the_cpu_are_not_touched_by_autocast_of_mlu(card: Any) -> None:
    with torch.autocast("mlu"):
        assert (torch.rand(4, 4) @ torch.rand(4, 4)).dtype == FLOAT


def test_weights_are_cast_once_and_get_their_gradient_in_float32(card: Any) -> None:
    layer = torch.nn.Linear(4, 4).mlu()
    with torch.autocast("mlu"):
        out = layer(layer(_t(2, 4)))
    out.float().sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == FLOAT
    with torch.autocast("cpu", dtype=HALF):
        pass
    copy = torch.nn.Linear(4, 4)
    copy.load_state_dict({k: v.cpu() for k, v in layer.state_dict().items()})
    assert copy.weight.equal(layer.weight.cpu())


def test_binary_cross_entropy_is_refused_with_cuda_s_text(card: Any) -> None:
    with torch.autocast("mlu"):
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            functional.binary_cross_entropy(_t(4), _t(4))
        assert functional.binary_cross_entropy_with_logits(_t(4, dtype=HALF), _t(4, dtype=HALF)).dtype == FLOAT


def test_two_half_types_at_once_are_refused_by_a_promoting_operator(card: Any) -> None:
    with torch.autocast("mlu", dtype=HALF), pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
        torch.dot(_t(4, dtype=BFLOAT), _t(4, dtype=HALF))
