"""DataParallel on two emulated GPUs computes what one GPU computes, and is recorded in one order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlu_backend.parity import align, trace

SOURCE = """\
import copy, torch, torch.nn as nn
from torch.nn.parallel import comm, data_parallel

def say(name, value):
    print(f"{name}={value}", flush=True)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()
alone, several = copy.deepcopy(net), nn.DataParallel(net)
say("devices", several.device_ids)
sides = []
for model in (alone, several):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(5, 8).cuda(), torch.randint(0, 4, (5,)).cuda()  # three and two
        out = model(x)
        optimizer.zero_grad()
        nn.functional.cross_entropy(out, y).backward()
        optimizer.step()
    sides.append([p.detach() for p in model.parameters()])
say("gathered on", out.device)
say("trained alike", all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*sides)))
say("from the host", several(torch.randn(5, 8)).device)
with torch.no_grad():
    say("without gradients", torch.allclose(several(x), net(x), atol=1e-6))

class Where(nn.Module):
    def forward(self, x, scale=1):
        assert x.device.type == "cuda" and torch.cuda.current_device() == x.device.index
        return x * 0 + x.device.index * scale
say("replicas", nn.DataParallel(Where())(torch.zeros(4, device="cuda"), scale=10).tolist())
say("as a function", data_parallel(Where(), torch.zeros(4, device="cuda"), [0, 1]).tolist())
say("to the host", nn.DataParallel(Where(), output_device=1)(torch.zeros(2, device="cuda")).device)

norm = nn.BatchNorm1d(8, momentum=1.0).cuda()
x = torch.randn(6, 8).cuda()
nn.DataParallel(norm)(x)
say("buffers of the first replica stay", torch.allclose(norm.running_mean, x[:3].mean(0), atol=1e-6))

class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("mine")
try:
    nn.DataParallel(Fails())(torch.zeros(4, device="cuda"))
except ValueError as error:
    say("an error", "Caught ValueError in replica 0" in str(error))

x = torch.arange(4.0, device="cuda")
say("broadcast", [(t.device.index, t.tolist()) for t in comm.broadcast(x, [0, 1])])
outs = [torch.zeros(4, device=f"cuda:{i}") for i in range(2)]
say("broadcast into", [t.tolist() for t in comm.broadcast(x, out=outs)])
parts = comm.scatter(x, [0, 1], [1, 3])
say("scatter", [(t.device.index, t.tolist()) for t in parts])
outs = [torch.zeros(n, device=f"cuda:{i}") for i, n in enumerate((3, 1))]
say("scatter into", [t.tolist() for t in comm.scatter(x, out=outs)])
say("gather", comm.gather(parts, destination="cuda:1").device)
say("gather on the host", comm.gather(parts, destination="cpu").tolist())
say("gather into", comm.gather(parts, out=torch.zeros(4)).tolist())
say("sum", comm.reduce_add(comm.broadcast(x, [0, 1])).tolist())
"""

EXPECTED = {
    "devices": "[0, 1]",
    "gathered on": "cuda:0",
    "trained alike": "True",
    "from the host": "cuda:0",
    "without gradients": "True",
    "replicas": "[0.0, 0.0, 10.0, 10.0]",
    "as a function": "[0.0, 0.0, 1.0, 1.0]",
    "to the host": "cuda:1",
    "buffers of the first replica stay": "True",
    "an error": "True",
    "broadcast": "[(0, [0.0, 1.0, 2.0, 3.0]), (1, [0.0, 1.0, 2.0, 3.0])]",
    "broadcast into": "[[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]",
    "scatter": "[(0, [0.0]), (1, [1.0, 2.0, 3.0])]",
    "scatter into": "[[0.0, 1.0, 2.0], [3.0]]",
    "gather": "cuda:1",
    "gather on the host": "[0.0, 1.0, 2.0, 3.0]",
    "gather into": "[0.0, 1.0, 2.0, 3.0]",
    "sum": "[0.0, 2.0, 4.0, 6.0]",
}


@pytest.fixture(scope="module")
def read(recorded: Callable[..., trace.Trace]) -> trace.Trace:
    """The recorded program."""
    return recorded(SOURCE, route="emulated-cuda")


@pytest.mark.parametrize("what", EXPECTED)
def test_data_parallel_does_what_it_does_on_gpus(read: trace.Trace, what: str) -> None:
    said = dict(line.split("=", 1) for line in read.meta["output"].splitlines() if "=" in line)
    assert said[what] == EXPECTED[what]


def test_replicas_are_recorded_under_the_name_of_their_model_one_after_the_other(read: trace.Trace) -> None:
    (run,) = align.runs(read).values()
    assert not list(run.process.of("trouble"))
    (first, second, *_) = [p for p in run.points if p.kind == "call" and p.path == "DataParallel.module.0"]
    assert [p.inputs["0"].kind.shape for p in (first, second)] == [(3, 8), (2, 8)]
    assert (first.nth, second.nth) == (0, 1)
    assert not [p.path for p in run.points if p.path.startswith("Sequential#")]
