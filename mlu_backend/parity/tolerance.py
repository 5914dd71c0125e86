"""
The one table of limits. A row is (profile, operator class, dtype) and gives the largest relative error of a candidate
whose inputs agree with the reference's, with the source of the number.

Operator classes are those of the MLU-OPS accuracy standard (Cambricon/mlu-ops, docs/MLU-OPS-Accuracy-Acceptance-
Standard.md): ``io`` moves data, ``arithmetic`` is add, multiply and the like, ``reduce`` depends on the order of a
sum, ``activation`` is approximated, ``convolution`` includes matrix products, ``composite`` is any mixture, such as a
whole module. Ours besides: ``state`` (parameters before the first step), ``parameters`` (after an optimizer step),
``gradient`` (of an activation or a parameter), ``loss`` (a step of the loss curve), ``random`` (draws of a generator).

A user's ``--tolerance`` file has the same rows in TOML and is looked at first:

    [[limit]]
    profile = "mlu590"           # profile, class and dtype: all, where they are left out
    class = "convolution"
    dtype = "float32"
    mean = 1e-3
    single = 1e-2
    source = "measured on our cards, 2025-03"
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mlu_backend.launch import PROFILES

ANY = "*"
CLASSES = (
    "io",
    "arithmetic",
    "reduce",
    "activation",
    "convolution",
    "composite",
    "state",
    "parameters",
    "gradient",
    "loss",
    "random",
)
AMPLIFICATION = 10.0
"""An output may carry this many times the error its inputs came with, on top of its limit. Ours, a judgement:
normalisation of nearly constant rows and softmax of large numbers amplify, and a call must not be blamed for that."""

SMALL_GRADIENT = 1e-3
"""Gradients are put in relation to at least this share of the step's largest. Ours: with TF32 a gradient that is zero
in theory (a bias before batch normalisation) came out at 1e-6 of the largest."""


TF32_ROUNDING = 2.0**-11 * math.sqrt(2 / 3)
"""Relative error (root mean square) of a sum of products whose two inputs were each rounded to 10 bits, at most: errors
are evenly spread within 2**-11 of the smallest mantissa, so 2**-11 / sqrt(3) for each of the two."""


def gradient_error(layers: int = 16) -> float:
    """Relative error of a gradient that went forward and back through this many TF32 products, errors independent."""
    return TF32_ROUNDING * math.sqrt(2 * layers)


def parameters_limit(steps: int = 10, rate: float = 0.1, flips: int = 2) -> tuple[float, float]:
    """
    Largest ``mean`` and ``single`` error of parameters after ``steps`` updates with Adam (they are recorded every ten),
    where one update is ``rate`` of a parameter's root mean square (lr 3e-3 on weights of 0.03, fan-in 370).

    A gradient with relative error e has the other sign with probability e / pi (two normal numbers with correlation
    cos e), and then the updates are 2 lr apart: 2 sqrt(e / pi) lr over the tensor, at worst in the same direction at
    each step. A single weight has been on the other side twice in ten steps (in a million weights some twenty have, and
    three times none), and the largest weight of an even initialisation is sqrt(3) times the root mean square.
    """
    error = gradient_error()
    return steps * rate * 2 * math.sqrt(error / math.pi), flips * 2 * rate / math.sqrt(3)


def gradient_limit(kinks: int = 4) -> tuple[float, float]:
    """
    Largest ``mean`` and ``single`` error of a gradient that went back through ``kinks`` functions whose derivative is a
    step (relu, max pooling, clamp). A share e / pi of the elements lies on the other side of the step, as in
    ``parameters_limit``, and each is wrong by its whole size: sqrt(e / pi) for one step, steps independent. A single
    element is up to four times the root mean square of its tensor.
    """
    mean = math.sqrt(kinks * gradient_error() / math.pi)
    return mean, 4 * mean


class ToleranceError(Exception):
    """A tolerance file that cannot be used; the text names file and row."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest ``mean`` and ``single`` error (see ``metrics``) that passes."""

    profile: str
    kind: str
    dtype: str
    mean: float
    single: float
    source: str

    def admits(self, mean: float, single: float, inputs_mean: float = 0.0, inputs_single: float = 0.0) -> bool:
        """Whether an error is within the limit, given the error of the inputs."""
        return mean <= self.mean + AMPLIFICATION * inputs_mean and single <= self.single + AMPLIFICATION * max(
            inputs_single, inputs_mean
        )


_MEASURED = "noise of the emulated device was measured below 3e-7 in the mean"
_STANDARD = "MLU-OPS accuracy standard, fixed threshold of the class"
_HALF = "rounding of the dtype: one unit in the last place of float16 is 2**-11"
_BRAIN = "rounding of the dtype: one unit in the last place of bfloat16 is 2**-8"
_TF32 = (
    "TF32 keeps 10 bits of the inputs, by the switches in torch_mlu/csrc/aten/utils/common.h: TF32_ROUNDING is 4e-4, "
    "calculated; admitted 2.5 times in the mean, and ten times that in a single element (our judgement)"
)
_CURVE = "vendors' training guides ask for a first-step loss within 1 %; the mean is DIFF1 of the MLU-OPS standard"
_SIGN = "calculated, see parameters_limit: Adam's update is lr * sign(gradient) where gradients round across zero"
_KINK = "calculated, see gradient_limit: the derivative of relu is a step, and inputs round across it"
_COPY = "a copy has no error"

TABLE: tuple[Limit, ...] = (
    Limit("exact", "state", ANY, 0.0, 0.0, _COPY),
    Limit("exact", "io", ANY, 0.0, 0.0, _COPY),
    Limit("exact", "loss", ANY, 2e-6, 2e-5, _MEASURED),
    Limit("exact", ANY, "float16", 2.5e-4, 2e-3, _HALF),
    Limit("exact", ANY, "bfloat16", 2e-3, 1.6e-2, _BRAIN),
    Limit("exact", ANY, "float64", 2e-15, 2e-14, "the same kernels run on both sides; a double carries 2**-52"),
    Limit("exact", ANY, ANY, 2e-6, 2e-5, _MEASURED),
    Limit("hardware", "state", ANY, 0.0, 0.0, _COPY),
    Limit("hardware", "io", ANY, 0.0, 0.0, _STANDARD),
    Limit(
        "hardware",
        "arithmetic",
        "float32",
        2e-6,
        2e-5,
        "MLU-OPS asks for 0; here the emulator's measured noise is admitted",
    ),
    Limit("hardware", "convolution", "float32", 1e-3, 1e-2, _TF32),
    Limit("hardware", "loss", ANY, 3e-3, 1e-2, _CURVE),
    Limit(
        "hardware",
        ANY,
        "float64",
        3e-3,
        1e-2,
        "64-bit types compute in half their width: torch_mlu/csrc/aten/utils/types.cpp:43-69",
    ),
    Limit("hardware", ANY, "bfloat16", 4e-3, 3.2e-2, _BRAIN),
    Limit("hardware", ANY, ANY, 3e-3, 1e-2, _STANDARD),
)


WITHOUT_CONTROL: tuple[Limit, ...] = (
    Limit("hardware", "parameters", ANY, *parameters_limit(), _SIGN),
    Limit("hardware", "gradient", ANY, *gradient_limit(), _KINK),
)
"""
Rows for comparisons of two traces, where no rounding control can be run (``control``). How far rounding moves gradients
and parameters depends on the program, and these are calculated for one that is assumed: sixteen layers, four kinks, an
update of a tenth of a weight. Where a control can be run it measures the program at hand, and these are not used.
"""


def find(profile: str, kind: str, dtype: str, extra: Iterable[Limit] = (), *, controlled: bool = False) -> Limit:
    """
    The row for a profile (any but ``exact`` is looked up by its name, then as ``hardware``), operator class and dtype.
    The user's rows come first; among the rest the first that fits, since the table is ordered from the special to the
    general. ``controlled``: a rounding control can be run, so the rows of ``WITHOUT_CONTROL`` are not needed.
    """
    names = ("exact",) if profile == "exact" else (profile, "hardware")
    for row in (*extra, *(() if controlled else WITHOUT_CONTROL), *TABLE):
        if row.profile in (*names, ANY) and row.kind in (kind, ANY) and row.dtype in (dtype, ANY):
            return row
    raise LookupError(f"no limit for {profile}, {kind}, {dtype}")


def load(path: Path) -> tuple[Limit, ...]:
    """The rows of a tolerance file. Raises ToleranceError."""
    try:
        import tomllib
    except ModuleNotFoundError:
        import tomli as tomllib
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToleranceError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ToleranceError(f"{path}: not TOML: {error}") from error
    rows = data.get("limit", [])
    if not isinstance(rows, list) or not rows or set(data) != {"limit"}:
        raise ToleranceError(f"{path}: a tolerance file holds [[limit]] tables and nothing else")
    return tuple(_row(row, f"{path}: limit {number}") for number, row in enumerate(rows, 1))


_WORDS = {
    "profile": (*PROFILES, "hardware", ANY),
    "class": (*CLASSES, ANY),
}
_NUMBERS = ("mean", "single")


def _row(row: Any, where: str) -> Limit:
    """
    One table of a file. A key that is misspelt must not go unseen: the row would then hold for everything the key was
    to narrow.
    """
    if not isinstance(row, dict):
        raise ToleranceError(f"{where}: limits are written [[limit]]")
    known = (*_WORDS, "dtype", *_NUMBERS, "source")
    for key in row:
        if key not in known:
            raise ToleranceError(f"{where}: has no key {key}; the keys are {', '.join(known)}")
    for key in (*_NUMBERS, "source"):
        if key not in row:
            raise ToleranceError(f"{where}: needs mean, single and source (why it is admitted); {key} is missing")
    for key, words in _WORDS.items():
        if row.get(key, ANY) not in words:
            raise ToleranceError(f"{where}: {key} must be one of {', '.join(words)}, not {row[key]}")
    dtype = row.get("dtype", ANY)
    if dtype != ANY and str(getattr(torch, str(dtype), None)) != f"torch.{dtype}":
        raise ToleranceError(f"{where}: dtype must be a name such as float32, float16 or bfloat16, not {dtype}")
    for key in _NUMBERS:
        number = row[key]
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < math.inf:
            raise ToleranceError(f"{where}: {key} must be a number from 0 up, not {number}")
    profile, kind = (str(row.get(key, ANY)) for key in _WORDS)
    return Limit(profile, kind, str(dtype), float(row["mean"]), float(row["single"]), str(row["source"]))


_CLASS_OF_OPERATOR = {
    "convolution": (
        "conv",
        "mm",
        "matmul",
        "bmm",
        "linear",
        "attention",
        "einsum",
        "addmv",
        "lstm",
        "gru",
        "rnn",
        "dot",
    ),
    "io": (
        "copy",
        "cat",
        "stack",
        "clone",
        "index_select",
        "gather",
        "embedding",
        "select",
        "slice",
        "expand",
        "repeat",
        "fill",
        "zero",
        "ones",
        "where",
        "split",
        "flip",
        "roll",
        "pad",
        "index.",
        "masked_fill",
        "arange",
    ),
    "reduce": (
        "sum",
        "mean",
        "norm",
        "var",
        "std",
        "prod",
        "logsumexp",
        "softmax",
        "nll",
        "loss",
        "pool",
        "cumsum",
        "scatter_add",
        "index_add",
        "index_put",
        "embedding_dense_backward",
        "embedding_bag",
    ),
    "arithmetic": (
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "relu",
        "abs",
        "clamp",
        "max",
        "min",
        "threshold",
        "sign",
        "lerp",
        "addc",
    ),
}
_CLASS_OF_MODULE = {
    "convolution": ("Linear", "Conv", "Bilinear", "Attention", "LSTM", "GRU", "RNN"),
    "random": ("Dropout", "RReLU", "AlphaDropout", "FeatureAlphaDropout"),
    "reduce": ("Norm", "Pool", "Loss", "Softmax", "EmbeddingBag"),
    "activation": ("GELU", "SiLU", "Sigmoid", "Tanh", "ELU", "Mish", "Softplus"),
    "io": ("Flatten", "Unflatten", "Identity", "Embedding", "ZeroPad", "PixelShuffle"),
    "arithmetic": ("ReLU", "ReLU6", "LeakyReLU", "Hardtanh"),
}


def class_of_operator(name: str) -> str:
    """
    The operator class of an ATen name such as ``aten::addmm``; of a backward operator, ``composite`` unless it is
    named.
    """
    short = name.split("::")[-1].lower()
    for kind in ("convolution", "reduce", "io", "arithmetic"):
        if any(part in short for part in _CLASS_OF_OPERATOR[kind]):
            return kind
    return "activation"


def class_of_module(type_name: str) -> str:
    """The operator class of a module type of torch; ``composite`` for all others."""
    if not type_name.startswith("torch.nn."):
        return "composite"
    short = type_name.rsplit(".", 1)[-1]
    for kind in ("random", "convolution", "reduce", "activation", "io"):
        if any(part in short for part in _CLASS_OF_MODULE[kind]):
            return kind
    return "arithmetic" if short in _CLASS_OF_MODULE["arithmetic"] else "composite"
