"""Mixed precision."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_mlu  # noqa: F401


def test_autocast_computes_in_float16_unless_told_otherwise() -> None:
    a = torch.randn(4, 4, device="mlu")
    with torch.autocast("mlu"):
        assert (a @ a).dtype is torch.float16
        assert torch.nn.functional.softmax(a @ a, -1).dtype is torch.float32
        assert torch.mlu.is_autocast_enabled() and not torch.is_autocast_enabled()
    with torch.autocast("mlu", dtype=torch.bfloat16):
        assert (a @ a).dtype is torch.bfloat16 and torch.mlu.get_autocast_dtype() is torch.bfloat16
    assert not torch.mlu.is_autocast_enabled()
    assert torch.mlu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_the_switches_of_torch_mlu_are_those_of_torch() -> None:
    torch.mlu.set_autocast_dtype(torch.bfloat16)
    torch.mlu.set_autocast_enabled(True)
    try:
        assert torch.is_autocast_enabled("mlu") and torch.get_autocast_dtype("mlu") is torch.bfloat16
    finally:
        torch.mlu.set_autocast_enabled(False)
        torch.mlu.set_autocast_dtype(torch.float16)


def test_the_old_spellings_warn_and_forward() -> None:
    a = torch.randn(4, 4, device="mlu")
    with pytest.warns(FutureWarning, match=r"torch.amp.autocast\('mlu', args...\)"):
        old = torch.mlu.amp.autocast()
    with old:
        assert (a @ a).dtype is torch.float16
    with pytest.warns(FutureWarning, match=r"torch.amp.GradScaler\('mlu', args...\)"):
        scaler = torch.mlu.amp.GradScaler(init_scale=4.0)
    assert isinstance(scaler, torch.amp.GradScaler) and scaler.get_scale() == 4.0
    with pytest.warns(FutureWarning, match="custom_fwd"):
        torch.mlu.amp.custom_fwd(lambda ctx, x: x)
    with pytest.warns(FutureWarning, match="custom_bwd"):
        torch.mlu.amp.custom_bwd(lambda ctx, x: x)


def test_cast_inputs_leaves_float64_and_the_cpu_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        class Double(torch.autograd.Function):
            seen: list[torch.dtype] = []

            @staticmethod
            @torch.mlu.amp.custom_fwd(cast_inputs=torch.float16)
            def forward(ctx, *given):
                Double.seen = [x.dtype for x in given]
                return given[0] * 2

            @staticmethod
            @torch.mlu.amp.custom_bwd
            def backward(ctx, grad):
                return grad * 2, None, None

    x = torch.ones(2, device="mlu", requires_grad=True)
    with torch.autocast("mlu"):
        out = Double.apply(x, torch.ones(2, device="mlu", dtype=torch.float64), torch.ones(2))
    out.sum().backward()
    assert Double.seen == [torch.float16, torch.float64, torch.float32]
    assert x.grad.tolist() == [2.0, 2.0]


def test_binary_cross_entropy_is_refused_under_autocast() -> None:
    p, t = torch.full((2,), 0.5, device="mlu"), torch.ones(2, device="mlu")
    with torch.autocast("mlu"), pytest.raises(RuntimeError, match="are unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(p, t)


def test_a_scaler_skips_a_step_that_overflowed() -> None:
    model = torch.nn.Linear(2, 1).mlu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("mlu", init_scale=16.0)
    before = model.weight.detach().clone()
    scaler.scale(model(torch.full((1, 2), float("inf"), device="mlu")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, before) and scaler.get_scale() == 8.0
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(1, 2, device="mlu")).sum()).backward()
    scaler.step(optimizer)
    assert torch.allclose(model.weight, before - 0.1)


def test_the_default_device_of_the_generic_scaler_stays_cuda() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.amp.GradScaler()._device == "cuda"
