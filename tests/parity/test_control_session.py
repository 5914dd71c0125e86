"""The rounding control in whole comparisons: a program that amplifies rounding passes, and its faults do not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mlu_backend.parity import session
from mlu_backend.parity.findings import Category, Status, Verdict
from parity.test_session import plan

pytestmark = pytest.mark.slow  # minutes in all: for the nightly run

CHAOS = """\
import os
import torch
import torch.nn as nn


class Chaos(nn.Module):
    def forward(self, x):
        for _ in range(9):
            x = 3.9 * x * (1 - x)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.chaos = Chaos()
        self.head = nn.Linear(6 * 36, 4)

    def forward(self, x):
        x = torch.sigmoid(self.conv(x))
        return self.head(self.chaos(x).flatten(1))


def main():
    torch.manual_seed(1)
    net = Net().to("cuda")
    data = [(torch.randn(16, 1, 8, 8), torch.randint(0, 4, (16,))) for _ in range(4)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for x, y in data:
        loss = nn.functional.cross_entropy(net(x.to("cuda")), y.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


main()
"""
MIGRATED = CHAOS.replace("import torch\n", "import torch\nimport torch_mlu\n", 1).replace('"cuda"', '"mlu"')


def run(folder: Path, migrated: str = MIGRATED, original: str = CHAOS, **changes: object) -> Verdict:
    made = plan(folder, original, migrated, profile="mlu590", look_closer=False, repeat=False)
    return session.run(dataclasses.replace(made, **changes))  # type: ignore[arg-type]


def names(found: Verdict) -> list[str]:
    return [r["name"] for r in found.runs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``amplified`` was run."""
    return tmp_path_factory.mktemp("chaos")


@pytest.fixture(scope="module")
def amplified(folder: Path) -> Verdict:
    """The right migration of CHAOS, on a profile that rounds."""
    return run(folder)


def test_a_program_that_amplifies_rounding_passes_on_a_profile_that_rounds(amplified: Verdict) -> None:
    assert amplified.status is Status.MATCH, amplified.first
    assert amplified.control is not None and amplified.control.admitted > 5
    assert amplified.control.products == 4 * 5 and amplified.control.bits == 11, "forwards and backwards, four steps"
    assert names(amplified)[:2] == ["reference", "candidate"] and amplified.control.runs == len(names(amplified)) - 2


def test_it_would_not_by_the_table_alone(amplified: Verdict) -> None:
    assert max(row["over"] for row in amplified.worst) > 5.0


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("self.conv(x))", "self.conv(x) * 1.01)", "Net.chaos"),
        pytest.param("3.9 * x", "3.85 * x", "Net.chaos", marks=pytest.mark.slow),
        ("    data =", "    net.conv.weight.data[2, 0, 1, 1] += 1e-3\n    data =", "Net.conv"),
        pytest.param("flatten(1)", "flatten(1).flip(0)", "Net", marks=pytest.mark.slow),
    ],
    ids=["a scale between modules", "a constant", "one changed weight", "a wrong order behind the chaos"],
)
def test_a_fault_in_such_a_program_is_told_on_the_profile_too(tmp_path: Path, old: str, new: str, place: str) -> None:
    assert MIGRATED.count(old) == 1
    found = run(tmp_path, MIGRATED.replace(old, new))
    assert found.status is Status.MISMATCH and found.first is not None
    assert (found.first.path, found.first.step) == (place, 0), found.first


@pytest.mark.slow
def test_a_fault_smaller_than_the_amplified_rounding_is_left_to_the_exact_profile(tmp_path: Path) -> None:
    wrong = MIGRATED.replace("flatten(1)", "flatten(1) * 0.99")
    assert run(tmp_path / "card", wrong).status is Status.MATCH
    found = run(tmp_path / "exact", wrong, profile="exact")
    assert found.status is Status.MISMATCH and found.first is not None and found.first.path == "Net"


@pytest.mark.slow
def test_a_match_by_the_table_needs_no_control(tmp_path: Path) -> None:
    calm = CHAOS.replace("range(9)", "range(0)").replace("lr=0.1, momentum=0.9", "lr=1e-4")
    migrated = MIGRATED.replace("range(9)", "range(0)").replace("lr=0.1, momentum=0.9", "lr=1e-4")
    found = run(tmp_path, migrated, calm)
    assert found.status is Status.MATCH and found.control is None, found.first


def test_what_is_no_number_is_told_without_a_control(tmp_path: Path) -> None:
    wrong = MIGRATED.replace("x.to(", "x.double().to(").replace("net = Net()", "net = Net().double()")
    found = run(tmp_path, wrong)
    assert found.first is not None and found.first.category is Category.STRUCTURE
    assert found.control is None and names(found) == ["reference", "candidate"]


def test_a_control_that_fails_leaves_the_table_to_judge_and_says_so(tmp_path: Path) -> None:
    guard = "assert '\"number\"' not in os.environ['MLU_PARITY_RECORD'], 'not twice'\n\n\nmain()\n"
    found = run(tmp_path, original=CHAOS.replace("\nmain()\n", guard))
    assert found.status is Status.MISMATCH and found.control is None
    (note,) = [n for n in found.notes if "rounding control" in n]
    assert "AssertionError: not twice" in note and "could not be measured" in note


def test_a_trace_can_have_no_control(folder: Path, amplified: Verdict, tmp_path: Path) -> None:
    assert amplified.status is Status.MATCH
    found = run(tmp_path, reference=str(folder / "work" / "reference.trace"))
    assert found.status is Status.MISMATCH and found.control is None and names(found) == ["candidate"]
