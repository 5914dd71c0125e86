"""Data of a Parameter that changes its device under the same Python object."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn
import torch_mlu  # noqa: F401


def test_a_module_keeps_its_parameters_when_it_moves_so_an_optimizer_made_before_trains_it() -> None:
    model = nn.Linear(3, 1)
    weight = model.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model.to("mlu")
    assert model.weight is weight and weight.device.type == "mlu" and weight.is_leaf and weight.requires_grad
    before = weight.detach().clone()
    model(torch.ones(2, 3, device="mlu")).sum().backward()
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before - 0.5 * 2)


def test_a_module_goes_back_to_the_cpu_with_its_gradients() -> None:
    model = nn.Linear(3, 1).mlu()
    weight = model.weight
    model(torch.ones(2, 3, device="mlu")).sum().backward()
    model.cpu()
    assert model.weight is weight and weight.device.type == "cpu" and weight.grad.device.type == "cpu"
    assert weight.grad.tolist() == [[2.0, 2.0, 2.0]]


def test_data_of_another_layout_is_still_refused() -> None:
    parameter = nn.Parameter(torch.ones(2, 2, device="mlu"))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.eye(2).to_sparse()
