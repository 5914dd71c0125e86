"""Fused optimizers against torch's own, and the operators they call."""

from __future__ import annotations

import pytest
import torch
import torch_mlu  # noqa: F401
from torch_mlu.optimizers import FusedAdam, FusedLAMB, FusedLAMBAMP, FusedSGD


def trained(make, steps: int = 4, device: str = "mlu") -> list[torch.Tensor]:
    """Parameters after some steps on fixed data."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).to(device)
    data = torch.randn(8, 4).to(device)
    optimizer = make(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("fused", "plain"),
    [
        (lambda p: FusedAdam(p, lr=0.01, weight_decay=0.1), lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
        (
            lambda p: FusedAdam(p, lr=0.01, weight_decay=0.1, adam_w_mode=False),
            lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
        ),
        (lambda p: FusedSGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            lambda p: FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        ),
    ],
)
def test_a_fused_step_is_that_of_torch(fused, plain) -> None:
    for ours, theirs in zip(trained(fused), trained(plain, device="cpu"), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def lamb(parameters: list[torch.Tensor], grads: list[torch.Tensor], steps: int) -> list[torch.Tensor]:
    """LAMB as its paper writes it, for constant gradients, decoupled decay 0.01, clipping at 1."""
    values = [p.double() for p in parameters]
    means, squares = [torch.zeros_like(v) for v in values], [torch.zeros_like(v) for v in values]
    norm = torch.stack([g.double().norm() for g in grads]).norm()
    clip = max(norm.item(), 1.0)
    for step in range(1, steps + 1):
        for k, g in enumerate(grads):
            slope = g.double() / clip
            means[k] = 0.9 * means[k] + 0.1 * slope
            squares[k] = 0.999 * squares[k] + 0.001 * slope**2
            update = (means[k] / (1 - 0.9**step)) / ((squares[k] / (1 - 0.999**step)).sqrt() + 1e-6) + 0.01 * values[k]
            values[k] = values[k] - 0.01 * values[k].norm() / update.norm() * update
    return values


@pytest.mark.parametrize("kind", [FusedLAMB, FusedLAMBAMP])
def test_lamb_follows_its_definition(kind) -> None:
    torch.manual_seed(2)
    start = [torch.randn(3, 4), torch.randn(5)]
    grads = [torch.randn(3, 4), torch.randn(5)]
    parameters = [torch.nn.Parameter(p.mlu()) for p in start]
    optimizer = kind(parameters, lr=0.01)
    for _ in range(3):
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad.mlu()
        optimizer.step()
    for ours, expected in zip(parameters, lamb(start, grads, 3), strict=True):
        assert torch.allclose(ours.detach().cpu().double(), expected, atol=1e-5)


def test_lamb_keeps_float32_masters_of_half_parameters_and_skips_overflows() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device="mlu", dtype=torch.float16))
    optimizer = FusedLAMBAMP([parameter], lr=1e-3)
    scaler = torch.amp.GradScaler("mlu", init_scale=8.0)
    scaler.scale(torch.ones(1, device="mlu"))
    parameter.grad = torch.full((4,), float("inf"), device="mlu", dtype=torch.float16)
    optimizer.step(grad_scaler=scaler)
    assert parameter.tolist() == [1.0] * 4 and optimizer.param_groups[0]["step"].item() == 0
    parameter.grad = torch.full((4,), 8.0, device="mlu", dtype=torch.float16)
    optimizer.step(grad_scaler=scaler)
    assert optimizer.param_groups[0]["step"].item() == 1
    assert parameter.dtype is torch.float16 and (parameter < 1).all()
    assert optimizer.param_groups_fp32[0]["params"][0].dtype is torch.float32
    state = optimizer.state_dict()
    again = FusedLAMBAMP([parameter], lr=1e-3)
    again.load_state_dict(state)
    assert again.state[parameter]["exp_avg"].dtype is torch.float32


@pytest.mark.parametrize("kind", [FusedAdam, FusedLAMB, FusedLAMBAMP])
def test_amsgrad_is_not_there(kind) -> None:
    with pytest.raises(RuntimeError, match="does not support the AMSGrad variant"):
        kind([torch.nn.Parameter(torch.ones(1, device="mlu"))], amsgrad=True)


def test_wrong_settings_are_refused() -> None:
    parameter = torch.nn.Parameter(torch.ones(1, device="mlu"))
    with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
        FusedSGD([parameter], lr=0.1, nesterov=True)
    with pytest.raises(RuntimeError, match="without these arguments"):
        FusedAdam([parameter]).step(scale=2.0)


def test_the_two_norm_of_a_list() -> None:
    tensors = [torch.full((3,), 2.0, device="mlu"), torch.full((4,), 1.0, device="mlu")]
    flag = torch.zeros(1, device="mlu")
    total, each = torch.ops.torch_mlu.fused_l2_norm(flag, tensors, True)
    assert total.item() == pytest.approx(4.0) and each.tolist() == pytest.approx([12**0.5, 2.0])


def test_unscaling_tells_an_overflow() -> None:
    found = torch.zeros(1, device="mlu")
    grads = [torch.tensor([2.0, 4.0], device="mlu"), torch.tensor([float("inf")], device="mlu")]
    torch.ops.torch_mlu.amp_unscale(grads, found, torch.tensor([0.5], device="mlu"))
    assert found.item() == 1.0 and grads[0].tolist() == [1.0, 2.0]


def test_rows_are_split_and_put_together_again() -> None:
    data = torch.arange(8.0, device="mlu").view(4, 2)
    numbers = torch.tensor([1, 0, 1, 0], device="mlu")
    parts = torch.ops.torch_mlu.dynamic_partition(data, numbers, 2)
    assert [part.tolist() for part in parts] == [[[2.0, 3.0], [6.0, 7.0]], [[0.0, 1.0], [4.0, 5.0]]]
    places = [torch.tensor([1, 3], device="mlu"), torch.tensor([0, 2], device="mlu")]
    assert torch.equal(torch.ops.torch_mlu.dynamic_stitch(places, parts), data)


def test_gradients_of_determinants_and_repetition() -> None:
    a = torch.randn(3, 3, dtype=torch.float64).mlu().requires_grad_()
    det = torch.linalg.det(a)
    (expected,) = torch.autograd.grad(det, a)
    ours = torch.ops.torch_mlu.linalg_det_backward(
        torch.ones((), device="mlu", dtype=torch.float64), a.detach(), det.detach()
    )
    assert torch.allclose(ours, expected)
    x = torch.randn(2, 3, device="mlu", requires_grad=True)
    grad = torch.randn(4, 2, 9, device="mlu")
    (expected,) = torch.autograd.grad(x.repeat(4, 1, 3), x, grad)
    assert torch.allclose(torch.ops.torch_mlu.repeat_backward(x.detach(), grad, [4, 1, 3]), expected, atol=1e-6)


def test_pooling_is_undone_by_unpooling() -> None:
    x = torch.randn(1, 1, 4, 4, device="mlu")
    pooled, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    back = torch.nn.functional.max_unpool2d(pooled, indices, 2)
    assert torch.equal(torch.nn.functional.max_pool2d(back.clamp(min=-9), 2).relu(), pooled.relu())
    direct = torch.ops.torch_mlu.max_unpool2d(pooled, indices, [2, 2], [2, 2], [0, 0], [4, 4])
    assert torch.equal(direct, back)
    grad = torch.randn_like(back)
    ours = torch.ops.torch_mlu.max_unpool2d_backward(grad, pooled, indices, [2, 2], [2, 2], [0, 0], [4, 4])
    assert torch.equal(ours.flatten(), grad.flatten()[indices.flatten()])


@pytest.mark.parametrize("device", ["cpu", "mlu"])
def test_an_optimizer_that_knows_nothing_of_graphs_steps(device: str) -> None:
    weight = torch.nn.Parameter(torch.ones(3, 2, device=device))
    optimizer = torch.optim.Adafactor([weight], lr=0.1)
    weight.square().sum().backward()
    optimizer.step()
    assert (weight < 1).all()
