"""One entry of PyTorch's module database on ``cpu`` and on ``mlu``, compared: output, and gradients of all inputs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from opdb import MLU, Outcome, _moved, _same
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves

# Modules whose result random numbers decide in training.
RANDOM = frozenset(
    """Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout RReLU FractionalMaxPool2d
    FractionalMaxPool3d""".split()
)


def entries(dtypes: Sequence[str] | None) -> list[tuple[str, str]]:
    """(name, dtype) of every module and dtype."""
    found = []
    for info in module_db:
        for dtype in sorted(info.dtypes, key=str):
            name = str(dtype).removeprefix("torch.")
            if dtypes is None or name in dtypes:
                found.append((info.name, name))
    return found


def _step(module: Any, inputs: Any) -> tuple[Any, list[Any]]:
    out = module(*inputs.args, **inputs.kwargs)
    tensors = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [t for t in tree_leaves((inputs.args, inputs.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves += [p for p in module.parameters() if p.requires_grad]
    if not tensors or not leaves:
        return out, []
    seeds = [torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()].reshape(t.shape).to(t) for t in tensors]
    return out, list(torch.autograd.grad(tensors, leaves, seeds, allow_unused=True))


class _Inputs:
    def __init__(self, given: Any, device: str) -> None:
        self.args, self.kwargs = _moved((given.args, given.kwargs), device)


def check(name: str, dtype: torch.dtype) -> Outcome:
    """Run the module's sample inputs in training and in evaluation on both devices."""
    info = next(entry for entry in module_db if entry.name == name)
    compared = 0
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in (True, False):
            torch.manual_seed(0)
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
            for sample in inputs:
                if sample.forward_input is None:
                    continue
                try:
                    torch.manual_seed(1)
                    built = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
                    here = built.to(dtype).train(training)
                    if isinstance(here, torch.nn.modules.lazy.LazyModuleMixin):
                        # The first call makes the parameters, from the random numbers of the device it runs on.
                        here(*_Inputs(sample.forward_input, "cpu").args)
                    there = copy.deepcopy(here).to(MLU)
                    expected = _step(here, _Inputs(sample.forward_input, "cpu"))
                except Exception:
                    continue
                try:
                    got = _step(there, _Inputs(sample.forward_input, MLU))
                    random = info.module_cls.__name__ in RANDOM and training
                    _same(expected, got, not random, rtol, atol)
                except Exception as error:
                    return Outcome("fail", f"{type(error).__name__}: {error}")
                compared += 1
    return Outcome("pass", str(compared)) if compared else Outcome("none", "no sample runs on cpu")
