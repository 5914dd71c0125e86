"""Collectives that do not run when they are called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlu_backend.parity import align, trace

TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")

SOURCE = """\
import os, torch, torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager
{device_import}
rank = int(os.environ["RANK"])
device = torch.device({device!r})
dist.init_process_group({backend!r})
a, b, c, d = (torch.full((2,), (rank + 1.0) * n, device=device) for n in (1, 10, 100, 1000))
with _coalescing_manager():
    dist.all_reduce(a)
    dist.all_reduce(b)
print("now", a.tolist(), b.tolist(), flush=True)
with _coalescing_manager(async_ops=True) as manager:
    dist.all_reduce(c)
    dist.all_reduce(d)
manager.wait()
print("then", c.tolist(), d.tolist(), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("mlu", "cncl")])
def test_coalesced_collectives_are_recorded_when_they_have_run(
    recorded: Callable[..., trace.Trace], device: str, backend: str
) -> None:
    source = SOURCE.format(
        device=device, backend=backend, device_import="import torch_mlu" if device == "mlu" else "import sys"
    )
    read = recorded(source, TORCHRUN)
    assert read.meta["output"].count("now [3.0, 3.0] [30.0, 30.0]") == 2, read.meta["output"]
    assert read.meta["output"].count("then [300.0, 300.0] [3000.0, 3000.0]") == 2, read.meta["output"]
    for rank, run in enumerate(align.runs(read).values()):
        found = [
            (p.inputs["0"].stats.max, p.outputs["0"].stats.max)  # type: ignore[union-attr]
            for p in run.points
            if p.kind == "collective"
        ]
        assert found == [((rank + 1.0) * n, 3.0 * n) for n in (1, 10, 100, 1000)]
