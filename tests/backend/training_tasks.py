"""Training over several ranks, compared with the same in one process: what test_distributed_training.py asks for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

STEPS = 3


class Net(nn.Module):
    """Two blocks with a normalisation, and a head that a run may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.second = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())
        self.out = nn.Linear(16, 4)
        self.spare = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, spare: bool = True) -> torch.Tensor:
        hidden = self.second(self.first(x))
        return self.out(hidden) + self.spare(hidden) if spare else self.out(hidden)


def net() -> Net:
    torch.manual_seed(3)
    return Net()


def batches(size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    return [
        (torch.randn(4 * size, 8, generator=generator), torch.randn(4 * size, 4, generator=generator))
        for _ in range(STEPS)
    ]


def share(tensor: torch.Tensor, rank: int) -> torch.Tensor:
    return tensor[4 * rank : 4 * (rank + 1)].to(torch.device("mlu", rank))


def alone(size: int, spare: bool = True) -> dict[str, torch.Tensor]:
    """The parameters after training on the CPU with the whole batch."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x, y in batches(size):
        optimizer.zero_grad()
        F.mse_loss(model(x, spare), y).backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.named_parameters()}


def same(got: Iterable[tuple[str, torch.Tensor]], wanted: dict[str, torch.Tensor]) -> None:
    seen = 0
    for name, value in got:
        torch.testing.assert_close(
            value.detach().cpu(), wanted[name], rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}"
        )
        seen += 1
    assert seen == len(wanted)


def train(
    rank: int, size: int, model: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer, **how: bool
) -> None:
    for x, y in batches(size):
        optimizer.zero_grad()
        F.mse_loss(model(share(x, rank), **how), share(y, rank)).backward()
        optimizer.step()


def ddp(rank: int, size: int, options: dict[str, object], spare: bool) -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net().to(torch.device("mlu", rank)), device_ids=[rank], **options)
    train(rank, size, model, torch.optim.AdamW(model.parameters(), lr=1e-2), spare=spare)
    wanted = alone(size, spare)
    if not spare:
        # Unused parameters get no gradient and stay.
        wanted |= {name: value.detach() for name, value in net().named_parameters() if name.startswith("spare")}
    same(model.module.named_parameters(), wanted)


def ddp_accumulates_under_no_sync(rank: int, size: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net().to(torch.device("mlu", rank)), device_ids=[rank])
    (x, y), (x2, y2) = batches(size)[:2]
    with model.no_sync():
        F.mse_loss(model(share(x, rank)), share(y, rank)).backward()
    local = model.module.out.weight.grad.clone()
    others = [torch.empty_like(local) for _ in range(size)]
    dist.all_gather(others, local)
    assert not torch.equal(others[0], others[1])
    F.mse_loss(model(share(x2, rank)), share(y2, rank)).backward()
    reference = net()
    (F.mse_loss(reference(x), y) + F.mse_loss(reference(x2), y2)).backward()
    same(
        [(name, value.grad) for name, value in model.module.named_parameters()],
        {name: value.grad for name, value in reference.named_parameters()},
    )


def ddp_hook_of_ones_own(rank: int, size: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net().to(torch.device("mlu", rank)), device_ids=[rank])
    seen = []

    # DDP wants annotations as objects, and here they would be text: it takes a hook without any.
    def hook(state, bucket):
        seen.append(bucket.index())
        work = dist.all_reduce(bucket.buffer().div_(size), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)
    train(rank, size, model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    same(model.module.named_parameters(), alone(size))
    assert seen


def ddp_sends_buffers_and_weights_from_rank_0(rank: int, size: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(torch.device("mlu", rank))
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    for _ in range(2):
        wrapped(torch.randn(6, 4).to(torch.device("mlu", rank)) + rank).sum().backward()
    wrapped(torch.randn(6, 4).to(torch.device("mlu", rank)))
    weights = [torch.empty(4, 4, device=torch.device("mlu", rank)) for _ in range(size)]
    dist.all_gather(weights, model[0].weight.detach())
    assert all(torch.equal(weights[0], other) for other in weights)
    assert model[1].num_batches_tracked.item() == 3


def synchronised_batch_norm(rank: int, size: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    reference = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 3))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(reference)).to(torch.device("mlu", rank))
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    x = torch.randn(4 * size, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    reference(x).pow(2).mean().backward()
    wrapped(share(x, rank)).pow(2).mean().backward()
    same(model.named_buffers(), dict(reference.named_buffers()))
    same(
        [(name, value.grad) for name, value in model.named_parameters()],
        {name: value.grad for name, value in reference.named_parameters()},
    )


def fsdp1(rank: int, size: int, strategy: str, use_orig_params: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FullyShardedDataParallel(
        net(),  # on the CPU: device_id moves it
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        sharding_strategy=ShardingStrategy[strategy],
        device_id=torch.device("mlu", rank),
        use_orig_params=use_orig_params,
    )
    assert next(model.parameters()).device == torch.device("mlu", rank)
    train(rank, size, model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    norm = model.clip_grad_norm_(1e9)
    assert torch.isfinite(norm)
    with FullyShardedDataParallel.summon_full_params(model):
        same([(n.replace("_fsdp_wrapped_module.", ""), p) for n, p in model.named_parameters()], alone(size))
    same(model.state_dict().items(), alone(size))


def fsdp2(rank: int, size: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("mlu", (size,))
    model = net().to(torch.device("mlu", rank))
    for block in (model.first, model.second):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert model.out.weight.to_local().shape[0] == 4 // size
    train(rank, size, model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    same([(name, value.full_tensor()) for name, value in model.named_parameters()], alone(size))


def fsdp2_in_bfloat16(rank: int, size: int) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = net().to(torch.device("mlu", rank))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    seen = []
    model.out.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    train(rank, size, model, torch.optim.SGD(model.parameters(), lr=1e-2))
    assert set(seen) == {torch.bfloat16}
    assert all(value.dtype == torch.float32 for value in model.parameters())


def distributed_tensors(rank: int, size: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("mlu", (size,))
    whole = torch.arange(float(4 * size * 3)).view(4 * size, 3)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert rows.to_local().shape == (4, 3) and rows.device.type == "mlu"
    torch.testing.assert_close(rows.full_tensor().cpu(), whole)
    product = rows @ distribute_tensor(torch.eye(3), mesh, [Replicate()])
    torch.testing.assert_close(product.full_tensor().cpu(), whole)
    total = rows.sum()
    assert total.placements == (Partial("sum"),)
    assert total.redistribute(placements=[Replicate()]).to_local().item() == whole.sum().item()


def tensor_parallel(rank: int, size: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(8, 4 * size)
            self.down = nn.Linear(4 * size, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(F.relu(self.up(x)))

    torch.manual_seed(1)
    reference = Mlp()
    model = copy.deepcopy(reference).to(torch.device("mlu", rank))
    mesh = init_device_mesh("mlu", (size,))
    parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    x = torch.randn(5, 8)
    expected, got = reference(x), model(x.to(torch.device("mlu", rank)))
    torch.testing.assert_close(got.cpu(), expected)
    expected.pow(2).sum().backward()
    got.pow(2).sum().backward()
    same(
        [(name, value.grad.full_tensor()) for name, value in model.named_parameters()],
        {name: value.grad for name, value in reference.named_parameters()},
    )


def compiled_collectives(rank: int, size: int) -> None:
    import torch.distributed._functional_collectives as funcol

    layer = nn.Linear(4, 4).to(torch.device("mlu", rank))

    def step(x: torch.Tensor) -> torch.Tensor:
        return funcol.all_reduce(layer(x).relu(), "sum", dist.group.WORLD) * 2

    x = torch.full((2, 4), rank + 1.0, device=torch.device("mlu", rank))
    torch.testing.assert_close(torch.compile(step)(x).cpu(), torch.Tensor(step(x)).cpu())


def compiled_ddp(rank: int, size: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(net().to(torch.device("mlu", rank)), device_ids=[rank])
    train(rank, size, torch.compile(model), torch.optim.AdamW(model.parameters(), lr=1e-2))
    same(model.module.named_parameters(), alone(size))


def compiled_between_collectives(rank: int, size: int) -> None:
    """What surrounds collectives is one kernel each, and the values and gradients are those of eager mode."""
    import torch.distributed._functional_collectives as funcol
    from torch._inductor.utils import run_and_get_code

    torch.manual_seed(7)
    weight = torch.randn(6, 6).to(torch.device("mlu", rank)).requires_grad_()

    def step(x: torch.Tensor) -> torch.Tensor:
        hidden = (x @ weight).sin() * 2 + 1
        whole = funcol.all_gather_tensor_autograd(hidden, 0, dist.group.WORLD)
        return (whole.cos() * 3 - 1).exp().sum(0)

    x = torch.randn(4, 6, device=torch.device("mlu", rank))
    (wanted,) = torch.autograd.grad(step(x).sum(), weight)
    out, code = run_and_get_code(torch.compile(step, fullgraph=True), x)
    (got,) = torch.autograd.grad(out.sum(), weight)
    torch.testing.assert_close(out, step(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)
    assert sum("cpp_fused" in piece for piece in code) >= 2


def compiled_inside_ddp(rank: int, size: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = net().to(torch.device("mlu", rank))
    model.first.compile()
    wrapped = DistributedDataParallel(torch.compile(model), device_ids=[rank])
    train(rank, size, wrapped, torch.optim.AdamW(model.parameters(), lr=1e-2))
    same(model.named_parameters(), alone(size))


def compiled_fully_sharded(rank: int, size: int) -> None:
    from torch.distributed.fsdp import fully_shard

    model = net().to(torch.device("mlu", rank))
    for part in (model.first, model.second):
        part.compile()
        fully_shard(part)
    fully_shard(model)
    train(rank, size, torch.compile(model), torch.optim.AdamW(model.parameters(), lr=1e-2))
    same([(name, value.full_tensor()) for name, value in model.named_parameters()], alone(size))


def pipeline(rank: int, size: int, schedule: str) -> None:
    from torch.distributed import pipelining

    torch.manual_seed(2)
    whole = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(size)])
    here = torch.device("mlu", rank)
    mine = copy.deepcopy(whole[rank]).to(here)
    stage = pipelining.PipelineStage(mine, rank, size, here)
    run = getattr(pipelining, schedule)(stage, n_microbatches=4, loss_fn=nn.MSELoss())
    generator = torch.Generator().manual_seed(9)
    x, y = torch.randn(8, 8, generator=generator), torch.randn(8, 8, generator=generator)
    losses: list[torch.Tensor] = []
    if rank == 0:
        run.step(x.to(here), target=None if size > 1 else y.to(here))
    elif rank == size - 1:
        output = run.step(target=y.to(here), losses=losses)
        torch.testing.assert_close(output.detach().cpu(), whole(x).detach())
    else:
        run.step()
    F.mse_loss(whole(x), y).backward()
    same(
        [(name, value.grad) for name, value in mine.named_parameters()],
        {name: value.grad for name, value in whole[rank].named_parameters()},
    )
    assert rank != size - 1 or len(losses) == 4


def checkpoint(rank: int, size: int, folder: str) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def made(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        model = Net().to(torch.device("mlu", rank))
        fully_shard(model)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    model, optimizer = made(3)
    train(rank, size, model, optimizer)
    state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=folder)
    assert (Path(folder) / ".metadata").exists()
    other, other_optimizer = made(99)
    state, optimizer_state = get_state_dict(other, other_optimizer)
    loaded = {"model": state, "optimizer": optimizer_state}
    dcp.load(loaded, checkpoint_id=folder)
    set_state_dict(other, other_optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    same(
        [(name, value.full_tensor()) for name, value in other.named_parameters()],
        {name: value.full_tensor().cpu() for name, value in model.named_parameters()},
    )
    first, second = (next(iter(o.state.values()))["exp_avg"] for o in (optimizer, other_optimizer))
    assert torch.equal(first.to_local(), second.to_local())
