"""
The rounding control: a run of the reference in which the inputs of matrix products and convolutions are rounded as the
profile rounds them, but on a moved grid: ``round(x * s) / s`` with a scale ``s`` between 1 and 2, another in each run.

Such a run differs from the reference by rounding of the profile's size alone, so what comes out of it is how far
rounding moves this very program (``control`` measures it). A moved grid, not noise: rounding gives one value one error,
in the forward pass, the backward pass and the next step, and errors that agree add up faster than independent ones. The
emulator's own rounding has no part in it, so a fault of that is not repeated here.

The number of bits is TF32's for float32 where the profile rounds to it (``profiles.RULES``) and the program's own
switches allow it, float32's for float64 where the profile narrows it, else the dtype's own.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mlu_backend import profiles
from mlu_backend.parity.options import Control
from mlu_backend.parity.surroundings import no_dispatch_modes

BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}
"""Significant bits: rounding to nearest makes a relative error of at most ``2**-bits``, the unit round-off."""

TF32_BITS = 11

_INPUTS = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "dot": (0, 1),
    "vdot": (0, 1),
    "linear": (0, 1),
    "addmm": (1, 2),
    "addmm_": (1, 2),
    "_addmm_activation": (1, 2),
    "addmv": (1, 2),
    "baddbmm": (1, 2),
    "addbmm": (1, 2),
}


def inputs_of(operator: str) -> tuple[int, ...]:
    """The places of the arguments that are multiplied, of an ATen name without overload; empty for other operators."""
    if "scaled_dot_product" in operator:
        return (0, 1, 2, 3) if "backward" in operator else (0, 1, 2)
    if "convolution" in operator or "_conv" in operator:
        return (0, 1, 2) if "backward" in operator else (0, 1)
    return _INPUTS.get(operator, ())


def bits_of(profile: str, dtype: torch.dtype, convolution: bool) -> int:
    """Significant bits of what the profile multiplies for this dtype; 0 where it is left alone."""
    rules = profiles.RULES[profile]
    if dtype is torch.float64 and profiles.NARROW_FLOAT64 in rules:
        return BITS[torch.float32]
    if dtype is torch.float32 and (profiles.TF32_CONVOLUTION if convolution else profiles.TF32_MATMUL) in rules:
        return TF32_BITS if _switched_on(convolution) else BITS[dtype]
    return BITS.get(dtype, 0)


def rounded(value: torch.Tensor, bits: int, scale: float) -> torch.Tensor:
    """``value`` rounded to ``bits`` significant bits on the grid moved by ``scale``; zeros, inf and nan stay."""
    with torch._C.DisableTorchFunction(), no_dispatch_modes(), torch.no_grad():
        mantissa, exponent = torch.frexp(value.to("cpu", torch.float64) * scale)
        moved = torch.ldexp(torch.round(mantissa * 2.0**bits), exponent - bits) / scale
        return moved.to(value.dtype).to(value.device)


def _switched_on(convolution: bool) -> bool:
    """Whether the program lets float32 be rounded to TF32; its switches are torch's own, under their GPU names."""
    with contextlib.suppress(RuntimeError):  # a program that mixes torch's old and new switches: as if nothing was set
        if convolution:
            return bool(torch.backends.cudnn.allow_tf32)
        return profiles._forced() or torch.get_float32_matmul_precision() != "highest"
    return convolution


class RoundingMode(TorchDispatchMode):
    """Rounds the inputs of products while active, and counts the products."""

    def __init__(self, control: Control) -> None:
        super().__init__()
        self.profile = control.profile
        self.scale = random.Random(control.number).uniform(1.0, 2.0)
        self.products = 0
        self.fewest_bits = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """As in ``operators.OperatorMode``: no wrapping that imports dynamo with the first operator."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.name().split("::")[-1].split(".")[0]
        places = inputs_of(name)
        if not places:
            return func(*args, **kwargs)
        if any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented  # a tensor made of others: what it computes with comes here again
        return func(*self._rounded(args, places, "conv" in name), **kwargs)

    def _rounded(self, args: tuple[Any, ...], places: tuple[int, ...], convolution: bool) -> list[Any]:
        found = list(args)
        changed = False
        for place in places:
            value = args[place] if place < len(args) else None
            if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
                continue
            bits = bits_of(self.profile, value.dtype, convolution)
            if bits:
                found[place], changed = rounded(value, bits, self.scale), True
                self.fewest_bits = min(self.fewest_bits or bits, bits)
        self.products += changed
        return found


def install(control: Control) -> RoundingMode:
    """Round the inputs of products in this process from now on. Call once."""
    mode = RoundingMode(control)
    mode.__enter__()
    torch.ctc_loss = _without_modes(torch.ctc_loss)
    return mode


def _without_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    For a function of torch that has no products and computes otherwise where a mode is active: ``ctc_loss`` then
    divides losses on the device by lengths on the CPU.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with no_dispatch_modes():
            return function(*args, **kwargs)

    return call
