"""Every road on which torch could reach the CUDA it was built without: generators, threads, torch.distributed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlu_backend.parity import align, trace

ROADS = {
    "a generator of the class in C++": 'torch._C.Generator(device="cuda").device',
    "a generator by a name that another module took": "dataset.Generator(torch.device('cuda')).device",
    "a generator's own device": 'torch.Generator("cuda").device',
    "a cloned generator": 'torch.Generator("cuda:0").clone_state().device',
    "numbers from a generator": "torch.rand(2, generator=g, device=g.device).device",
    "numbers in place from a generator": 'torch.empty(2, device="cuda").normal_(generator=g).device',
    "the default generators": 'torch.rand(2, device="cuda", generator=torch.cuda.default_generators[0]).device',
    "a device as context": "in_context()",
    "a default device": "by_default()",
    "a fork of the generators": "forked(devices=[0])",
    "a fork that names the device": 'forked(devices=[torch.device("cuda")], device_type="cuda")',
    "states": 'restored(torch.device("cuda"))',
    "a recomputed layer that draws": "recomputed()",
    "a fused layer": "fused()",
    "a scripted layer of torch": "scripted_layer()",
    "a thread of a pool": 'pool.submit(lambda: torch.randn(2, device="cuda").device).result()',
    "a thread without the threading module": "bare_thread()",
    "a parameter made on meta": 'nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.device',
    "an initialiser": 'nn.init.trunc_normal_(torch.empty(2, 2, device="cuda"), generator=g).device',
    "a distribution": 'torch.distributions.Normal(torch.zeros(2, device="cuda"), 1.0).sample().device',
    "a vectorised function": "torch.func.vmap(noisy, randomness='different')(x).device",
    "a scripted function": "scripted(2).device",
    "the accelerator": "torch.accelerator.current_accelerator()",
    "the module of a device": 'torch.device(torch.get_device_module("cuda").__name__.split(".")[-1])',
    "a shuffling loader": "shuffled()",
    "a storage": "stored(torch.ones(2).untyped_storage().cuda())",
    "a storage moved by name": 'stored(torch.ones(2).untyped_storage().to(device="cuda:0"))',
    "a storage with a type": "stored(torch.ones(2).storage().cuda(0)._untyped_storage)",
    "a file whose storages are moved": "loaded(lambda storage, location: storage.cuda(0))",
    "a file of the device": 'loaded("cuda:0")',
    "a scripted program from a file": "program()",
}

SOURCE = (
    """\
import _thread, concurrent.futures, io, threading
import torch, torch.nn as nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, dataset

g = torch.Generator(device="cuda").manual_seed(1)
x = torch.randn(3, 2, device="cuda")
pool = concurrent.futures.ThreadPoolExecutor(1)

def noisy(t):
    return t + torch.rand(2, device="cuda")

def in_context():
    with torch.device("cuda"):
        return nn.Linear(2, 2)(torch.randn(1, 2)).device

def by_default():
    torch.set_default_device("cuda")
    try:
        return torch.randperm(4).device
    finally:
        torch.set_default_device(None)

def forked(**options):
    before = torch.cuda.get_rng_state()
    with torch.random.fork_rng(**options):
        found = torch.rand(2, device="cuda").device
    assert torch.equal(before, torch.cuda.get_rng_state())
    return found

def restored(device):
    state = torch.cuda.get_rng_state(device)
    a = torch.rand(2, device=device)
    torch.cuda.set_rng_state(state, device)
    assert torch.equal(a, torch.rand(2, device=device))
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    return a.device

def recomputed():
    y = torch.ones(4, device="cuda", requires_grad=True)
    for reentrant in (True, False):
        out = checkpoint(lambda t: nn.functional.dropout(t) * torch.rand(4, device="cuda"), y, use_reentrant=reentrant)
        out.sum().backward()
        assert torch.equal(y.grad, out.detach()), "recomputed with other random numbers"
        y.grad = None
    return out.device

def fused():
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True, device="cuda").eval()
    layer.linear1.forward = None  # the fused layer does not call it
    with torch.inference_mode():
        return layer(torch.randn(2, 3, 8, device="cuda")).device

def scripted_layer():
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval().cuda()
    return torch.jit.script(layer)(torch.randn(2, 3, 8, device="cuda")).device

def bare_thread():
    found, done = [], threading.Event()
    def work():
        try:
            found.append(torch.randn(2, device="cuda").device)
        finally:
            done.set()
    _thread.start_new_thread(work, ())
    done.wait(60)
    return found[0]

@torch.jit.script
def scripted(n: int):
    return torch.randn(n, device="cuda")

def shuffled():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for workers in (0, 1):
        for (batch,) in DataLoader(data, batch_size=4, shuffle=True, num_workers=workers, pin_memory=True):
            found = batch.cuda(non_blocking=True).device
    return found

def stored(storage):
    assert storage.is_cuda and not torch.ones(2).untyped_storage().is_cuda
    found = torch.tensor([], device="cuda").set_(storage)
    assert found.tolist() == [1.0, 1.0]
    return found.device

def loaded(where):
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    return stored(torch.load(file, map_location=where).untyped_storage())

def program():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), file)
    file.seek(0)
    return torch.jit.load(file, map_location="cuda")(x).device

assert isinstance(g, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
nn.Linear(2, 2).cuda()(x)
for name, road in """
    + repr(ROADS)
    + """.items():
    try:
        answer = eval(road)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"{name}={answer}", flush=True)
"""
)


@pytest.fixture(scope="module")
def arrived(recorded: Callable[..., trace.Trace]) -> dict[str, str]:
    """Where each road ended."""
    output = recorded(SOURCE, route="emulated-cuda").meta["output"]
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


@pytest.mark.parametrize("road", ROADS)
def test_a_road_to_cuda_ends_on_the_emulated_device(arrived: dict[str, str], road: str) -> None:
    assert arrived[road] in ("cuda:0", "cuda")


UNSEEDED = """\
import torch{more}
print("draw", torch.rand(3, device="{device}").tolist())
torch.nn.Linear(2, 2).to("{device}")(torch.rand(1, 2, device="{device}"))
"""


def test_a_program_that_seeds_nothing_draws_the_same_on_the_device(recorded: Callable[..., trace.Trace]) -> None:
    migrated = UNSEEDED.format(more=", torch_mlu", device="mlu")
    guarded = "import importlib.util\nassert importlib.util.find_spec('torch_mlu')\n" + migrated
    draws = {
        recorded(source, route=route, seed=seed).meta["output"].strip()
        for source, route, seed in (
            (UNSEEDED.format(more="", device="cuda"), "emulated-cuda", 3),
            (migrated, "none", 3),
            (guarded, "none", 3),
        )
    }
    assert len(draws) == 1 and draws != {recorded(migrated, seed=4).meta["output"].strip()}


def test_a_backward_pass_asked_of_autograd_itself_is_recorded_once(recorded: Callable[..., trace.Trace]) -> None:
    source = (
        "import torch\nnet = torch.nn.Linear(2, 1).cuda()\n"
        "torch.autograd.backward(net(torch.ones(3, 2, device='cuda')).sum())\n"
        "torch.autograd.backward([net(torch.ones(3, 2, device='cuda')).sum()])\n"
    )
    (process,) = recorded(source, route="emulated-cuda").processes
    assert sum(event["k"] == "loss" for event in process.events) == 2


RANKS = """\
import os, shutil, tempfile, torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

rank = int(os.environ["RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
backend = {backend}
dist.init_process_group(backend, device_id=device)
words = [dist.get_backend(), dist.is_nccl_available()]
x = torch.full((4,), rank + 1.0, device=device)

work = dist.all_reduce(x, async_op=True)
work.wait()
sent = torch.full((2,), 10.0 + rank, device=device)
got = torch.empty(2, device=device)
for request in dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
):
    request.wait()
assert got.tolist() == [11.0 - rank] * 2
group = dist.new_group([0, 1], None, "nccl")
late = torch.ones(3, device=device)
dist.all_reduce(late, group=group, async_op=True)  # nobody waits
dist.barrier()

mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("data",))
words.append(mesh.device_type)
whole = torch.arange(4.0, device=device)
state = {{"w": distribute_tensor(whole, mesh, [Shard(0)])}}
folder = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(folder, src=0, device=device)
dcp.save(state, checkpoint_id=folder[0])
loaded = {{"w": distribute_tensor(torch.zeros(4, device=device), mesh, [Shard(0)])}}
dcp.load(loaded, checkpoint_id=folder[0])
assert torch.equal(loaded["w"].full_tensor(), whole)
dist.barrier()
if rank == 0:
    shutil.rmtree(folder[0])
print("said", *words, flush=True)
dist.destroy_process_group()
"""
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")


@pytest.mark.parametrize(
    ("backend", "named"),
    [
        ("dist.Backend.NCCL", "nccl"),
        ("'cpu:gloo,cuda:nccl'", "nccl"),
    ],
)
def test_process_groups_meshes_and_checkpoints_work_with_nccl_and_cuda(
    recorded: Callable[..., trace.Trace], backend: str, named: str
) -> None:
    read = recorded(RANKS.format(backend=backend), TORCHRUN, route="emulated-cuda")
    said = [line for line in read.meta["output"].splitlines() if line.endswith("True cuda")]
    assert len(said) == 2 and all(named in line for line in said), read.meta["output"]


def test_what_an_asynchronous_collective_gives_is_recorded_when_it_is_done(
    recorded: Callable[..., trace.Trace],
) -> None:
    read = recorded(RANKS.format(backend="dist.Backend.NCCL"), TORCHRUN, route="emulated-cuda")
    for run in align.runs(read).values():
        points = [p for p in run.points if p.kind == "collective"]
        reductions = [p for p in points if p.facts["collective"] == "all_reduce"]
        maxima = [(p.inputs["0"].stats.max, p.outputs["0"].stats.max) for p in reductions]  # type: ignore[union-attr]
        assert maxima == [(run.rank + 1.0, 3.0), (1.0, 2.0)], "waited for, and left to the end"
        (received,) = [p for p in points if p.facts["collective"] == "irecv"]
        assert received.outputs["0"].stats is not None and received.outputs["0"].stats.max == 11.0 - run.rank


def test_pickled_objects_are_not_compared(recorded: Callable[..., trace.Trace]) -> None:
    read = recorded(RANKS.format(backend="dist.Backend.NCCL"), TORCHRUN, route="emulated-cuda")
    for process in read.processes:
        assert not [e for e in process.events if e["k"] == "collective" and e["name"] == "broadcast"]
