"""The table of limits. Numbers are pinned: a change has to be made here too, with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mlu_backend.parity import tolerance

PINNED = [
    ("exact", "state", "*", 0.0, 0.0),
    ("exact", "io", "*", 0.0, 0.0),
    ("exact", "loss", "*", 2e-6, 2e-5),
    ("exact", "*", "float16", 2.5e-4, 2e-3),
    ("exact", "*", "bfloat16", 2e-3, 1.6e-2),
    ("exact", "*", "float64", 2e-15, 2e-14),
    ("exact", "*", "*", 2e-6, 2e-5),
    ("hardware", "state", "*", 0.0, 0.0),
    ("hardware", "io", "*", 0.0, 0.0),
    ("hardware", "arithmetic", "float32", 2e-6, 2e-5),
    ("hardware", "convolution", "float32", 1e-3, 1e-2),
    ("hardware", "loss", "*", 3e-3, 1e-2),
    ("hardware", "*", "float64", 3e-3, 1e-2),
    ("hardware", "*", "bfloat16", 4e-3, 3.2e-2),
    ("hardware", "*", "*", 3e-3, 1e-2),
]
PINNED_WITHOUT_CONTROL = [
    ("hardware", "parameters", "*", 0.053586, 0.230940),
    ("hardware", "gradient", "*", 0.053586, 0.214346),
]


@pytest.mark.parametrize(
    ("table", "pinned"), [(tolerance.TABLE, PINNED), (tolerance.WITHOUT_CONTROL, PINNED_WITHOUT_CONTROL)]
)
def test_every_row_is_as_pinned(
    table: tuple[tolerance.Limit, ...], pinned: list[tuple[str, str, str, float, float]]
) -> None:
    rows = [(r.profile, r.kind, r.dtype, r.mean, r.single) for r in table]
    assert [row[:3] for row in rows] == [row[:3] for row in pinned]
    assert [row[3:] for row in rows] == [pytest.approx(row[3:], rel=1e-4) for row in pinned]


@pytest.mark.parametrize("kind", ["gradient", "parameters"])
def test_what_depends_on_the_program_is_calculated_only_where_it_cannot_be_measured(kind: str) -> None:
    assert tolerance.find("mlu590", kind, "float32") in tolerance.WITHOUT_CONTROL
    assert tolerance.find("mlu590", kind, "float32", controlled=True) == tolerance.TABLE[-1]
    assert tolerance.find("exact", kind, "float32").profile == "exact"


def test_the_calculation_for_parameters_holds_for_what_it_describes() -> None:
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1 << 16, generator=random, dtype=torch.float64) for _ in range(2)]
    rounded = [torch.ldexp(torch.round(torch.ldexp(m, torch.tensor(11))), e - 11) for m, e in map(torch.frexp, inputs)]
    exact, got = inputs[0] * inputs[1], rounded[0] * rounded[1]
    error = float((got - exact).norm() / exact.norm())
    assert error < tolerance.TF32_ROUNDING, "the bound is for mantissas at their smallest"
    gradient = torch.randn(1 << 20, generator=random, dtype=torch.float64)
    noise = torch.randn(1 << 20, generator=random, dtype=torch.float64) * tolerance.gradient_error()
    apart = (gradient.sign() - (gradient + noise).sign()).square().mean().sqrt()
    mean, _ = tolerance.parameters_limit(steps=1, rate=1.0)
    assert float(apart) == pytest.approx(mean, rel=0.1)


def test_every_row_has_a_source_and_a_known_class() -> None:
    for row in (*tolerance.TABLE, *tolerance.WITHOUT_CONTROL):
        assert len(row.source) > 10
        assert row.kind in (*tolerance.CLASSES, tolerance.ANY)


@pytest.mark.parametrize("profile", ["exact", "mlu370", "mlu590"])
@pytest.mark.parametrize("kind", tolerance.CLASSES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "bool"])
def test_every_profile_class_and_dtype_has_a_limit(profile: str, kind: str, dtype: str) -> None:
    assert tolerance.find(profile, kind, dtype).source


def test_a_limit_admits_a_share_of_what_came_in() -> None:
    limit = tolerance.find("exact", "composite", "float32")
    assert limit.admits(1e-6, 1e-5) and not limit.admits(1e-5, 1e-5)
    assert limit.admits(1e-5, 1e-5, inputs_mean=1e-6, inputs_single=1e-6)


def test_users_rows_come_first(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(
        '[[limit]]\nprofile="mlu590"\nclass="convolution"\ndtype="float32"\nmean=5e-3\nsingle=5e-2\nsource="ours"\n'
    )
    rows = tolerance.load(path)
    assert tolerance.find("mlu590", "convolution", "float32", rows).mean == 5e-3
    assert tolerance.find("mlu370", "convolution", "float32", rows).mean == 1e-3


ROW = "mean=1\nsingle=1\nsource='x'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds [[limit]] tables"),
        ("[[limits]]\n" + ROW, "holds [[limit]] tables"),
        ("[limit]\n" + ROW, "holds [[limit]] tables"),
        ("limit = [3]\n", "are written [[limit]]"),
        ("[[limit]]\nmean=1\nsingle=1\n", "source is missing"),
        ("[[limit]]\nclas='convolution'\n" + ROW, "has no key clas; the keys are profile, class, dtype"),
        ("[[limit]]\nclass='nothing'\n" + ROW, "class must be one of io, arithmetic"),
        ("[[limit]]\nprofile='mlu59'\n" + ROW, "profile must be one of exact, mlu370"),
        ("[[limit]]\ndtype='fp16'\n" + ROW, "dtype must be a name such as float32"),
        ("not toml =", "not TOML"),
        ("[[limit]]\nmean=-1\nsingle=1\nsource='x'\n", "mean must be a number from 0 up, not -1"),
        ("[[limit]]\nmean=1\nsingle=nan\nsource='x'\n", "single must be a number from 0 up, not nan"),
        ("[[limit]]\nmean='1e-3'\nsingle=1\nsource='x'\n", "mean must be a number from 0 up"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(tolerance.ToleranceError, match=r"limits\.toml") as caught:
        tolerance.load(path)
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(tolerance.ToleranceError, match=r"gone\.toml"):
        tolerance.load(tmp_path / "gone.toml")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "convolution"),
        ("aten::convolution_backward", "convolution"),
        ("aten::add.Tensor", "arithmetic"),
        ("aten::cat", "io"),
        ("aten::index.Tensor", "io"),
        ("aten::sum.dim_IntList", "reduce"),
        ("aten::_softmax", "reduce"),
        ("aten::gelu", "activation"),
        ("aten::max_pool2d_with_indices", "reduce"),
    ],
)
def test_operators_have_the_class_of_what_they_do(name: str, kind: str) -> None:
    assert tolerance.class_of_operator(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.nn.modules.linear.Linear", "convolution"),
        ("torch.nn.modules.conv.Conv2d", "convolution"),
        ("torch.nn.modules.dropout.Dropout", "random"),
        ("torch.nn.modules.activation.ReLU", "arithmetic"),
        ("torch.nn.modules.sparse.Embedding", "io"),
        ("torch.nn.modules.sparse.EmbeddingBag", "reduce"),
        ("torch.nn.modules.normalization.LayerNorm", "reduce"),
        ("train.LinearBlock", "composite"),
        ("torch.nn.modules.container.Sequential", "composite"),
    ],
)
def test_modules_of_torch_have_a_class_and_others_are_composite(name: str, kind: str) -> None:
    assert tolerance.class_of_module(name) == kind
