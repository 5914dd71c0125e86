"""Functional collectives, called by the program, by DTensor and by backward formulas, in two processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from mlu_backend.parity import align, trace

TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")

SOURCE = """\
import os, torch, torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

kind = "{device}"
if kind == "mlu":
    import torch_mlu
rank = int(os.environ["RANK"])
device = torch.device(kind, rank) if kind != "cpu" else torch.device("cpu")
if kind != "cpu":
    getattr(torch, kind).set_device(device)
dist.init_process_group("{backend}")
group = dist.group.WORLD
x = torch.full((2,), rank + 1.0, device=device)

summed = funcol.all_reduce(x, "sum", group)
print("sum", (summed + 0).tolist(), flush=True)
funcol.all_gather_tensor(x, 0, group).tolist()
funcol.reduce_scatter_tensor(torch.arange(4.0, device=device) * (rank + 1), "max", 0, group).tolist()
funcol.all_to_all_single(torch.full((2,), 10.0 * rank, device=device), None, None, group).tolist()
funcol.broadcast(x, 1, group).tolist()
first, second = funcol.all_reduce_coalesced([x, x * 2], "sum", group)
(first + second).tolist()
funcol.all_reduce(x, "sum", group)  # nobody waits

weight = torch.full((2,), 5.0, device=device, requires_grad=True)
funcol.all_reduce(weight * 1.0, "sum", group).sum().backward()
assert weight.grad.tolist() == [2.0, 2.0]

compiled = torch.compile(lambda t: funcol.all_reduce(t * 2, "sum", group) + 1, backend="aot_eager", fullgraph=True)
assert compiled(x).tolist() == [7.0, 7.0]

mesh = init_device_mesh(kind, (2,))
part = DTensor.from_local(x * 7.0, mesh, [Partial()])
assert part.redistribute(mesh, [Replicate()]).to_local().tolist() == [21.0, 21.0]
sharded = distribute_tensor(torch.arange(4.0, device=device), mesh, [Shard(0)])
assert sharded.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]
dist.destroy_process_group()
"""


def collectives(recorded: Callable[..., trace.Trace], device: str, backend: str, route: str) -> list[list[align.Point]]:
    """Those of each rank, in order."""
    read = recorded(SOURCE.format(device=device, backend=backend), TORCHRUN, route=route)
    assert read.meta["output"].count("sum [3.0, 3.0]") == 2, read.meta["output"]
    runs = align.runs(read)
    assert not [e for process in read.processes for e in process.of("trouble")]
    return [[p for p in runs[rank, 0].points if p.kind == "collective"] for rank in range(2)]


@pytest.mark.parametrize(
    ("device", "backend", "route"),
    [("cpu", "gloo", "none"), ("mlu", "cncl", "none"), ("cuda", "nccl", "emulated-cuda")],
)
def test_a_functional_collective_is_recorded_with_what_goes_in_and_what_comes_out(
    recorded: Callable[..., trace.Trace], device: str, backend: str, route: str
) -> None:
    for rank, points in enumerate(collectives(recorded, device, backend, route)):
        found = [
            (
                p.facts["collective"],
                p.facts["reduction"],
                p.facts["group size"],
                next(iter(p.inputs.values())).stats.max,  # type: ignore[union-attr]
                next(iter(p.outputs.values())).stats.max,  # type: ignore[union-attr]
            )
            for p in points
        ]
        expected = [
            ("all_reduce", "SUM", 2, rank + 1.0, 3.0),
            ("all_gather_into_tensor", None, 2, rank + 1.0, 2.0),
            ("reduce_scatter_tensor", "MAX", 2, 3.0 * (rank + 1), 2.0 + 4.0 * rank),
            ("all_to_all_single", None, 2, 10.0 * rank, 10.0),
            ("broadcast", None, 2, rank + 1.0, 2.0),
            ("all_reduce_coalesced", "SUM", 2, rank + 1.0, 3.0),
            ("all_reduce", "SUM", 2, 5.0, 10.0),
            ("all_reduce", "SUM", 2, 1.0, 2.0),  # of the gradients
            ("all_reduce", "SUM", 2, 7.0 * (rank + 1), 21.0),  # DTensor's
            ("all_gather_into_tensor", None, 2, 1.0 + 2.0 * rank, 3.0),
        ]
        assert [row for row in found if row[0] != "scatter"] == expected


def test_the_two_sides_of_a_migration_have_the_same_collectives(recorded: Callable[..., trace.Trace]) -> None:
    sides = [
        collectives(recorded, "cuda", "nccl", "emulated-cuda"),
        collectives(recorded, "mlu", "cncl", "none"),
    ]
    for ours, theirs in zip(*sides, strict=True):
        assert [p.key for p in ours] == [p.key for p in theirs]
        for a, b in itertools.zip_longest(ours, theirs):
            assert [v.stats for v in a.outputs.values()] == [v.stats for v in b.outputs.values()]
