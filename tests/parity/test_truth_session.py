"""The third run, in float64, in whole comparisons: a sum in another order is acquitted, a wrong one is not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mlu_backend.parity import session
from mlu_backend.parity.findings import Status, Verdict
from parity.test_session import plan

ORIGINAL = """\
import torch
import torch.nn as nn


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(64))

    def forward(self, x):
        half = torch.bfloat16 if x.dtype == torch.float32 else x.dtype
        columns = (x * self.scale).to(half).unbind(1)
        total = columns[0]
        for column in columns[1:]:
            total = total + column
        return total.to(x.dtype)


torch.manual_seed(0)
net = Total().to("cuda")
net(torch.rand(32, 64).to("cuda")).sum().backward()
"""
MIGRATED = ORIGINAL.replace("import torch\n", "import torch\nimport torch_mlu\n", 1).replace('"cuda"', '"mlu"')
BACKWARDS = MIGRATED.replace(".unbind(1)", ".flip(1).unbind(1)")


def run(folder: Path, migrated: str, **changes: object) -> Verdict:
    made = plan(folder, ORIGINAL, migrated, repeat=False)
    return session.run(dataclasses.replace(made, **{"profile": "mlu590", **changes}))  # type: ignore[arg-type]


def test_a_sum_in_another_order_is_as_near_to_float64_and_matches(tmp_path: Path) -> None:
    found = run(tmp_path, BACKWARDS)
    assert found.first is not None and found.first.path == "Total" and found.first.outputs is not None
    assert found.first.outputs.mean > found.first.limit.mean  # type: ignore[union-attr]
    assert found.status is Status.MATCH
    assert "as near to the float64 result as the reference" in " ".join(found.notes)
    assert [r["name"] for r in found.runs][-2:] == ["closer reference", "closer candidate"]


@pytest.mark.slow
def test_the_same_sum_with_a_fault_is_further_from_it(tmp_path: Path) -> None:
    found = run(tmp_path, BACKWARDS.replace("total = columns[0]", "total = columns[0] * 3"))
    assert found.status is Status.MISMATCH and found.first is not None and found.first.path == "Total"
    assert not [note for note in found.notes if "float64" in note]


@pytest.mark.slow
def test_on_the_exact_profile_nobody_is_acquitted(tmp_path: Path) -> None:
    assert run(tmp_path, BACKWARDS, profile="exact").status is Status.MISMATCH
