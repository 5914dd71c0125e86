"""
How far two tensors, or two records of tensors, are apart. Pure functions; all results are relative and without unit.

``mean`` is the root mean square error over the root mean square of the reference (DIFF2 of the MLU-OPS accuracy
standard), ``single`` the largest error of one element over the largest element of the reference. Both are 0 for equal
tensors and near 1 for unrelated ones; where the reference is all zero they are 1 unless the other is zero too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mlu_backend.parity.statistics import Stats


@dataclass(frozen=True, slots=True)
class Error:
    """``estimated``: worked out from statistics and 16 samples rather than from all elements."""

    mean: float = 0.0
    single: float = 0.0
    estimated: bool = False

    def __str__(self) -> str:
        return f"{self.mean:.1e} mean, {self.single:.1e} single"


NONE = Error()
UNRELATED = Error(1.0, 1.0)


def _ratio(error: float, scale: float) -> float:
    if error == 0.0:
        return 0.0
    if not math.isfinite(error) or scale == 0.0:
        return 1.0
    return error / scale


def of_tensors(reference: torch.Tensor, candidate: torch.Tensor) -> Error:
    """The error of ``candidate``, over the elements that are finite in both. Shapes must be equal."""
    if reference.shape != candidate.shape:
        raise ValueError(f"shapes differ: {tuple(reference.shape)} and {tuple(candidate.shape)}")
    a, b = _doubles(reference), _doubles(candidate)
    both = torch.isfinite(a) & torch.isfinite(b)
    a, b = a[both], b[both]
    if a.numel() == 0:
        return NONE
    apart = (a - b).abs()
    mean = _ratio(float((apart * apart).mean().sqrt()), float((a * a).mean().sqrt()))
    return Error(mean, _ratio(float(apart.max()), float(a.abs().max())))


def _doubles(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.to(torch.float64).reshape(-1)


def diff1(reference: torch.Tensor, candidate: torch.Tensor) -> float:
    """Mean relative error: sum of errors over sum of the reference (DIFF1 of the MLU-OPS accuracy standard)."""
    a, b = _doubles(reference), _doubles(candidate)
    return _ratio(float((a - b).abs().sum()), float(a.abs().sum()))


def diff3(reference: torch.Tensor, candidate: torch.Tensor, threshold: float = 1e-6) -> tuple[float, float]:
    """
    Largest error of one element: relative where the reference is above ``threshold``, absolute elsewhere (DIFF3 of the
    MLU-OPS accuracy standard, whose threshold is 1e-6 for float32 and 1e-4 for float16).
    """
    a, b = _doubles(reference), _doubles(candidate)
    apart, large = (a - b).abs(), a.abs() > threshold
    relative = float((apart[large] / a.abs()[large]).max()) if bool(large.any()) else 0.0
    absolute = float(apart[~large].max()) if bool((~large).any()) else 0.0
    return relative, absolute


def cosine(reference: torch.Tensor, candidate: torch.Tensor) -> float:
    """Cosine of the angle between the tensors, 1.0 when both are zero."""
    a, b = _doubles(reference), _doubles(candidate)
    lengths = float(a.norm()) * float(b.norm())
    if lengths == 0.0:
        return 1.0 if float(a.norm()) == float(b.norm()) else 0.0
    return float(torch.dot(a, b)) / lengths


def of_stats(reference: Stats, candidate: Stats, count: int, floor: float = 0.0, leave_out: int = 0) -> Error:
    """
    The error as far as records show it; ``count`` is the number of elements. ``floor`` is the smallest scale errors are
    put in relation to: a tensor that is nothing but rounding has no relative error worth the name. ``leave_out``: that
    many of the sampled elements, those furthest apart, do not count, unless the sample is the whole tensor.
    """
    if reference.checksum == candidate.checksum and reference.nonfinite == candidate.nonfinite:
        return NONE
    largest = max(abs(reference.min), abs(reference.max), floor)
    rms = max(reference.norm / math.sqrt(count) if count else 0.0, floor)
    pairs = [
        (a, b)
        for a, b in zip(reference.sample, candidate.sample, strict=False)
        if math.isfinite(a) and math.isfinite(b)
    ]
    exact = 0 < count <= len(reference.sample)
    if leave_out and not exact:
        pairs = sorted(pairs, key=lambda pair: abs(pair[0] - pair[1]))[:-leave_out]
    squares = math.fsum((a - b) ** 2 for a, b in pairs)
    norms = _ratio(abs(reference.norm - candidate.norm), rms * math.sqrt(count) if count else 0.0)
    means = [norms, _ratio(abs(reference.mean - candidate.mean), rms)]
    if pairs:
        means.append(_ratio(math.sqrt(squares / len(pairs)), rms))
    singles = [_ratio(abs(a - b), largest) for a, b in pairs]
    singles += [
        _ratio(abs(reference.min - candidate.min), largest),
        _ratio(abs(reference.max - candidate.max), largest),
    ]
    return Error(max(means), max(singles), not exact)


def relative(reference: float, candidate: float) -> float:
    """Relative difference of two numbers; 0 for equal ones, also when both are the same infinity or both are NaN."""
    if reference == candidate or (math.isnan(reference) and math.isnan(candidate)):
        return 0.0
    if not (math.isfinite(reference) and math.isfinite(candidate)):
        return math.inf
    return _ratio(abs(reference - candidate), abs(reference))
