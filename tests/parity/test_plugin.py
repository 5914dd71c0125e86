"""The pytest plugin, used as a project would use it: in a pytest run of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parity.conftest import environment

TESTS = """\
import pytest, torch


def test_module(mlu_parity):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0), torch.nn.GELU())
    result = mlu_parity(model, torch.randn(2, 4))
    assert "gradient of 0.weight" in result.compared


def test_function(mlu_parity):
    mlu_parity(torch.nn.functional.softmax, torch.randn(3, 5), dim=1)


def test_differs(mlu_parity):
    mlu_parity(lambda x: x + 1 if x.device.type == "mlu" else x, torch.ones(3))


@pytest.mark.mlu_parity(seed=3)
def test_marked(parity_device):
    return torch.rand(3).to(parity_device) * 2


@pytest.mark.mlu_parity
def test_marked_differs(parity_device):
    return torch.full((2,), 1.0 if parity_device == "cpu" else 1.001, device=parity_device)


@pytest.mark.mlu_parity
def test_returns_nothing(parity_device):
    pass


@pytest.mark.mlu_parity
def test_stays_on_the_cpu(parity_device):
    return torch.ones(2)


@pytest.mark.mlu_parity(sed=3)
def test_option_misspelt(parity_device):
    return torch.ones(2, device=parity_device)


@pytest.mark.mlu_parity(profile="mlu59")
def test_profile_misspelt(parity_device):
    return torch.ones(2, device=parity_device)


def test_kind_misspelt(mlu_parity):
    mlu_parity(torch.nn.Linear(2, 2), torch.ones(1, 2), kind="convolutoin")


def test_no_tensor(mlu_parity):
    mlu_parity(lambda: 3)


@pytest.mark.mlu_parity
def test_takes_no_device():
    return torch.ones(2)


def test_plain(parity_device):
    assert parity_device == "cpu"
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "--strict-markers", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["test_module", "test_function", "test_marked", "test_plain"])
def test_what_agrees_passes(output: str, name: str) -> None:
    assert f"{name} PASSED" in output, output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("test_differs", "output: 1.0e+00 mean, 1.0e+00 single; the limit is 2e-06 mean"),
        ("test_marked_differs", "result: 1.0e-03 mean"),
        ("test_returns_nothing", "not judged: no tensor was returned"),
        ("test_no_tensor", "not judged: no tensor was returned"),
        ("test_option_misspelt", "the marker mlu_parity takes kind, profile, seed, not sed"),
        ("test_profile_misspelt", "profile must be one of exact, mlu370, mlu590, not 'mlu59'"),
        ("test_kind_misspelt", "kind must be one of io, arithmetic"),
        ("test_stays_on_the_cpu", "not judged: none of the returned tensors lives on mlu"),
        ("test_takes_no_device", "takes the fixture parity_device"),
    ],
)
def test_what_differs_or_proves_nothing_fails_with_the_reason(output: str, name: str, words: str) -> None:
    assert f"{name} FAILED" in output
    assert words in output
