"""
One entry of PyTorch's operator database, run on ``cpu`` and on ``mlu`` and compared.

Used by ``sweep.py``, which runs entries in child processes: a crash of the interpreter is a result like any other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

CPU, MLU = "cpu", "mlu"
SAMPLES = 12  # of an operator's sample inputs; the first are the plain ones


@dataclass(frozen=True)
class Outcome:
    """What became of one check: ``pass``, ``fail`` or ``none`` (nothing to compare), and why."""

    status: str
    detail: str = ""


def names() -> list[str]:
    """Every operator of the database as ``name`` or ``name.variant``, in its order."""
    return [full_name(op) for op in op_db]


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def by_name() -> dict[str, Any]:
    return {full_name(op): op for op in op_db}


# Results that random numbers decide: only shape, dtype and device are compared. The card has its own generator.
RANDOM = frozenset(
    """bernoulli cauchy exponential geometric log_normal multinomial normal normal.in_place normal.number_mean
    normal_in_place uniform randn randn_like rand_like randint randint_like
    nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
    nn.functional.feature_alpha_dropout.with_train nn.functional.rrelu nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d pca_lowrank svd_lowrank torch.ops.aten._safe_softmax.default_random""".split()
)
# Memory that was never written: only shape, dtype and device are compared.
UNWRITTEN = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split()
)


def _moved(value: Any, device: str) -> Any:
    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            moved = leaf.detach().to(device) if leaf.device.type != device else leaf.detach().clone()
            if leaf.is_neg() and not moved.is_neg():
                moved = moved.neg()._neg_view()
            return moved.requires_grad_(leaf.requires_grad) if leaf.requires_grad else moved
        if isinstance(leaf, torch.device):
            return torch.device(device)
        if isinstance(leaf, str) and leaf == CPU:
            return device
        return leaf

    return tree_map(one, value)


def _same(expected: Any, got: Any, values: bool, rtol: float | None, atol: float | None) -> None:
    left, right = tree_leaves(expected), tree_leaves(got)
    assert len(left) == len(right), f"{len(left)} results on cpu, {len(right)} on mlu"
    for a, b in zip(left, right, strict=True):
        if not isinstance(a, torch.Tensor):
            assert type(a) is type(b), f"{type(a)} on cpu, {type(b)} on mlu"
            if values:
                torch.testing.assert_close(b, a, rtol=rtol, atol=atol, equal_nan=True)
            continue
        assert isinstance(b, torch.Tensor), f"a tensor on cpu, {type(b)} on mlu"
        assert b.device.type == MLU, f"a result is on {b.device}"
        assert a.shape == b.shape, f"shape {tuple(a.shape)} on cpu, {tuple(b.shape)} on mlu"
        assert a.dtype == b.dtype, f"dtype {a.dtype} on cpu, {b.dtype} on mlu"
        assert a.layout == b.layout, f"layout {a.layout} on cpu, {b.layout} on mlu"
        if values:
            torch.testing.assert_close(b.cpu(), a, rtol=rtol, atol=atol, equal_nan=True)


def _gradients(op: Callable[..., Any], sample: Any, leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    result = op(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not leaves:
        return []
    # A gradient that is different for every element shows wrong places, too; made on the CPU so that both agree.
    seeds = []
    for out in outputs:
        ramp = torch.linspace(0.5, 1.5, max(out.numel(), 1), dtype=torch.float32)[: out.numel()]
        seeds.append(ramp.reshape(out.shape).to(out.dtype).to(out.device))
    return list(torch.autograd.grad(outputs, leaves, seeds, allow_unused=True))


def _samples(op: Any, dtype: torch.dtype, grad: bool) -> Iterator[Any]:
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs(CPU, dtype, requires_grad=grad)):
        if number >= SAMPLES:
            return
        yield sample


def _drops(op: Any, sample: Any) -> bool:
    """Whether the sample asks for dropout inside attention, so that random numbers decide."""
    if op.name == "nn.functional.scaled_dot_product_attention":
        return sample.kwargs.get("dropout_p", 0) > 0
    if op.name == "nn.functional.multi_head_attention_forward":
        return len(sample.args) > 9 and sample.args[9] > 0 and sample.kwargs.get("training", True)
    return False


# Arguments that are CPU tensors by contract, on every device.
ARGUMENTS_STAY = frozenset(["tensor_split"])


class _Sample:
    def __init__(self, op: Any, sample: Any, device: str) -> None:
        self.input = _moved(sample.input, device)
        rest = CPU if op.name in ARGUMENTS_STAY else device
        self.args, self.kwargs = _moved((sample.args, sample.kwargs), rest)
        self.output_process_fn_grad = sample.output_process_fn_grad


def check(op: Any, dtype: torch.dtype, backward: bool) -> Outcome:
    """
    Run the samples of ``op`` on both devices.

    An operator that fails on the CPU says nothing about the device: such samples are left out, and ``none`` is the
    outcome when no sample is left.
    """
    if dtype not in op.supported_dtypes(CPU) or (backward and not op.supports_autograd):
        return Outcome("none", "not supported on cpu")
    if backward and dtype not in op.supported_backward_dtypes(CPU):
        return Outcome("none", "no backward on cpu")
    compared = 0
    values = not (op.name in UNWRITTEN or full_name(op) in RANDOM or op.name in RANDOM)
    rtol, atol = (1e-4, 1e-5) if dtype in (torch.float32, torch.complex64) else (None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in _samples(op, dtype, backward):
            here, there = _Sample(op, sample, CPU), _Sample(op, sample, MLU)
            leaves = [_leaves(here), _leaves(there)]
            try:
                torch.manual_seed(1)
                if backward:
                    expected: Any = _gradients(op, here, leaves[0])
                else:
                    expected = op(here.input, *here.args, **here.kwargs)
            except Exception:
                continue
            torch.manual_seed(1)
            try:
                if backward:
                    got: Any = _gradients(op, there, leaves[1])
                else:
                    got = op(there.input, *there.args, **there.kwargs)
                _same(expected, got, values and not _drops(op, sample), rtol, atol)
            except Exception as error:
                return Outcome("fail", f"{type(error).__name__}: {error}")
            compared += 1
    return Outcome("pass", str(compared)) if compared else Outcome("none", "no sample runs on cpu")


def _leaves(sample: _Sample) -> list[torch.Tensor]:
    found = tree_leaves((sample.input, sample.args, sample.kwargs))
    return [t for t in found if isinstance(t, torch.Tensor) and t.requires_grad]
