"""One entry of PyTorch's optimizer database: ten steps on ``cpu`` and ``mlu`` with every set of options, compared."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence

import torch
from opdb import MLU, Outcome
from torch.testing._internal.common_optimizers import optim_db

STEPS = 10


def entries(dtypes: Sequence[str] | None) -> list[tuple[str, str]]:
    """(name, dtype) of every optimizer; float32 unless other dtypes are named."""
    wanted = ["float32", "float64"] if dtypes is None else list(dtypes)
    return [(info.optim_cls.__name__, dtype) for info in optim_db for dtype in wanted]


def _train(
    optimizer: type[torch.optim.Optimizer], options: dict[str, object], device: str, dtype: torch.dtype
) -> list[torch.Tensor]:
    torch.manual_seed(0)
    first, second = torch.randn(8, 4, dtype=dtype), torch.randn(4, dtype=dtype)
    if optimizer is torch.optim.Muon:
        second = torch.randn(4, 3, dtype=dtype)
    parameters = [torch.nn.Parameter(t.to(device)) for t in (first, second)]
    target = torch.randn(8, 4, dtype=dtype).to(device)
    made = optimizer(parameters, **options)

    def closure() -> torch.Tensor:
        made.zero_grad()
        a, b = parameters
        loss = ((a * (b if b.dim() == 1 else b.sum(1)) - target) ** 2).sum()
        loss.backward()
        if optimizer is torch.optim.SparseAdam:
            for parameter in parameters:
                parameter.grad = parameter.grad.to_sparse()
        return loss

    for _ in range(STEPS):
        made.step(closure)
    return [p.detach() for p in parameters]


def check(name: str, dtype: torch.dtype) -> Outcome:
    """Every set of options of the database, and the ones the device itself has (foreach, fused)."""
    info = next(entry for entry in optim_db if entry.optim_cls.__name__ == name)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = info.optim_inputs_func(device="cpu", dtype=dtype)
        for given in found:
            for extra in ({}, {"foreach": True}, {"fused": True}):
                if not set(extra) <= set(info.supported_impls):
                    continue
                options = {**copy.deepcopy(given.kwargs), **extra}
                try:
                    expected = _train(info.optim_cls, options, "cpu", dtype)
                except Exception:
                    continue
                try:
                    got = _train(info.optim_cls, copy.deepcopy(options), MLU, dtype)
                    for a, b in zip(expected, got, strict=True):
                        assert b.device.type == MLU, f"a parameter is on {b.device}"
                        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)
                except Exception as error:
                    return Outcome("fail", f"{given.desc} {extra}: {type(error).__name__}: {error}")
                compared += 1
    return Outcome("pass", str(compared)) if compared else Outcome("fail", "no options run on cpu")
