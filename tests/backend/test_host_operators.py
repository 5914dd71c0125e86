"""
mlu_migrate/tables/host_operators.toml, worked out again from the reference and the dispatcher of the installed
torch.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mlu_migrate import apimap

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "mlu_ops.json"


@pytest.mark.skipif(not REFERENCE.is_file(), reason="the reference folder lies beside the checkout")
def test_every_row_has_no_kernel_on_the_card_and_is_not_composed_of_others() -> None:
    reference = json.loads(REFERENCE.read_text("utf-8"))
    kernels = {o["op"].removeprefix("aten::").partition(".")[0] for o in reference["ops"] if "f" in o["in"]}
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    overloads: dict[str, list[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        overloads.setdefault(full.partition(".")[0], []).append(full)
    rows = apimap.read("host_operators")
    assert len(rows) > 50
    for row in rows:
        operator = row["operator"]
        assert operator.removeprefix("aten::") not in kernels, row
        assert row["name"] in reference["official_unsupported"], row
        assert any(has(full, "CPU") for full in overloads[operator]), row
        for full in overloads[operator]:
            assert not has(full, "CompositeImplicitAutograd"), row
            assert not has(full, "CompositeExplicitAutograd"), row
