"""Collectives, each run by every rank of a group: what test_distributed.py asks for."""

from __future__ import annotations

import os
import pickle
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

DTYPES = (
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def card(rank: int) -> torch.device:
    return torch.device("mlu", rank)


def ranks_as(dtype: torch.dtype, rank: int) -> torch.Tensor:
    return torch.full((3, 2), rank + 1, dtype=dtype, device=card(rank))


def expect(tensor: torch.Tensor, wanted: object, dtype: torch.dtype | None = None) -> None:
    assert tensor.device.type == "mlu"
    assert dtype is None or tensor.dtype == dtype
    wanted = wanted if isinstance(wanted, torch.Tensor) else torch.tensor(wanted)
    torch.testing.assert_close(tensor.cpu().double(), wanted.double().expand(tensor.shape))


def reduce_operations(rank: int, size: int) -> None:
    values = list(range(1, size + 1))
    product = torch.tensor(values).prod().item()
    wanted = {
        dist.ReduceOp.SUM: sum(values),
        dist.ReduceOp.PRODUCT: product,
        dist.ReduceOp.MIN: 1,
        dist.ReduceOp.MAX: size,
    }
    for dtype in DTYPES:
        for op, value in wanted.items():
            tensor = ranks_as(dtype, rank)
            dist.all_reduce(tensor, op)
            expect(tensor, value, dtype)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = ranks_as(dtype, rank)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        expect(tensor, sum(values) / size, dtype)
    tensor = ranks_as(torch.int64, rank)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    expect(tensor, sum(values) // size, torch.int64)


def booleans(rank: int, size: int) -> None:
    mine = torch.tensor([rank == 0, False, True], device=card(rank))
    either = mine.clone()
    dist.all_reduce(either)
    assert either.tolist() == [True, False, True] and either.view(torch.uint8).max() == 1
    both = mine.clone()
    dist.all_reduce(both, dist.ReduceOp.MIN)
    assert both.tolist() == [False, False, True]
    with pytest.raises(TypeError, match=r"Cannot use ReduceOp\.AVG with boolean inputs"):
        dist.all_reduce(mine, dist.ReduceOp.AVG)


def refusals(rank: int, size: int) -> None:
    tensor = torch.ones(2, dtype=torch.int32, device=card(rank))
    for name in ("BAND", "BOR", "BXOR"):
        with pytest.raises(ValueError, match=rf"Cannot use ReduceOp\.{name} with CNCL"):
            dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
    with pytest.raises(ValueError, match="Unhandled ReduceOp"):
        dist.all_reduce(tensor.float(), dist._make_nccl_premul_sum(2.0))
    for dtype in (torch.int16, torch.uint16, torch.float8_e5m2):
        unsupported = torch.zeros(2, dtype=dtype, device=card(rank))
        with pytest.raises(RuntimeError, match="Unsupported data type for CNCL process group"):
            dist.all_gather([torch.zeros_like(unsupported) for _ in range(size)], unsupported)
    sparse = torch.ones(2, device=card(rank)).to_sparse()
    with pytest.raises(RuntimeError, match="Tensors must be MLU and dense"):
        dist.group.WORLD._get_backend(card(rank)).broadcast(sparse, 0)
    with pytest.raises((RuntimeError, ValueError), match="Tensors must be MLU and dense"):
        dist.all_gather([torch.zeros(2) for _ in range(size)], torch.ones(2, device=card(rank)))
    with pytest.raises(RuntimeError, match="does not support recvAnysource"):
        dist.recv(torch.ones(2, device=card(rank)))
    with pytest.raises(RuntimeError, match="Unsupported data type for CNCL process group"):
        dist.all_reduce(torch.zeros(2, dtype=torch.int16, device=card(rank)))


def complex_numbers(rank: int, size: int) -> None:
    tensor = torch.tensor([1 + 2j, 3j], device=card(rank)) * (rank + 1)
    total = size * (size + 1) / 2
    dist.all_reduce(tensor)
    torch.testing.assert_close(tensor.cpu(), torch.tensor([1 + 2j, 3j]) * total)
    mean = torch.tensor([2j], device=card(rank)) * (rank + 1)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    torch.testing.assert_close(mean.cpu(), torch.tensor([2j]) * total / size)
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        with pytest.raises((ValueError, RuntimeError), match="complex"):
            dist.all_reduce(torch.ones(2, dtype=torch.complex64, device=card(rank)), op)
    sent = torch.full((2,), complex(rank, 1), device=card(rank))
    dist.broadcast(sent, 1)
    assert sent.tolist() == [1 + 1j, 1 + 1j]


def broadcast_and_reduce(rank: int, size: int) -> None:
    for root in range(size):
        tensor = torch.full((4,), float(rank), device=card(rank))
        dist.broadcast(tensor, root)
        expect(tensor, root)
        tensor = torch.full((4,), float(rank + 1), device=card(rank))
        dist.reduce(tensor, root)
        expect(tensor, size * (size + 1) / 2 if rank == root else rank + 1)
        tensor = torch.full((4,), float(rank + 1), device=card(rank))
        dist.reduce(tensor, root, dist.ReduceOp.AVG)
        expect(tensor, (size + 1) / 2 if rank == root else rank + 1)


def gathers(rank: int, size: int) -> None:
    mine = torch.arange(6, dtype=torch.float32, device=card(rank)).view(2, 3) + 10 * rank
    theirs = [torch.arange(6.0).view(2, 3) + 10 * r for r in range(size)]
    outputs = [torch.empty(2, 3, device=card(rank)) for _ in range(size)]
    dist.all_gather(outputs, mine)
    for got, wanted in zip(outputs, theirs, strict=True):
        expect(got, wanted)
    whole = torch.empty(2 * size, 3, device=card(rank))
    dist.all_gather_into_tensor(whole, mine)
    expect(whole, torch.cat(theirs))
    uneven = [torch.empty(r + 1, device=card(rank)) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank), device=card(rank)))
    for r, got in enumerate(uneven):
        expect(got, r)
    # An input that is a slice of the output, as FSDP passes it.
    inside = torch.zeros(size, 3, device=card(rank))
    inside[rank] = rank + 1
    dist.all_gather_into_tensor(inside.view(-1), inside[rank])
    expect(inside, torch.arange(1.0, size + 1).unsqueeze(1))
    outputs = [torch.empty(2, 3, device=card(rank)) for _ in range(size)] if rank == 1 else None
    dist.gather(mine, outputs, dst=1)
    for got, wanted in zip(outputs or [], theirs, strict=False):
        expect(got, wanted)
    got = torch.empty(2, 3, device=card(rank))
    dist.scatter(got, [t.to(card(rank)) for t in theirs] if rank == 0 else None, src=0)
    expect(got, theirs[rank])


def strided_tensors(rank: int, size: int) -> None:
    base = torch.arange(12, dtype=torch.float32, device=card(rank)).view(3, 4) * (rank + 1)
    view = base.t()[1:3]
    dist.all_reduce(view)
    wanted = torch.arange(12.0).view(3, 4) * (rank + 1)
    wanted[:, 1:3] = torch.arange(12.0).view(3, 4)[:, 1:3] * (size * (size + 1) / 2)
    expect(base, wanted)
    images = torch.full((2, 3, 4, 4), float(rank), device=card(rank)).to(memory_format=torch.channels_last)
    dist.broadcast(images, size - 1)
    expect(images, size - 1)
    empty = torch.empty(0, 3, device=card(rank))
    dist.all_reduce(empty)
    scalar = torch.tensor(float(rank), device=card(rank))
    dist.all_reduce(scalar)
    expect(scalar, size * (size - 1) / 2)


def reduce_scatters(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    inputs = [torch.full((2,), float((rank + 1) * (r + 1)), device=card(rank)) for r in range(size)]
    output = torch.empty(2, device=card(rank))
    dist.reduce_scatter(output, inputs)
    expect(output, total * (rank + 1))
    flat = torch.cat(inputs)
    dist.reduce_scatter_tensor(output, flat, dist.ReduceOp.AVG)
    expect(output, total * (rank + 1) / size)
    expect(flat, torch.cat([t.cpu() for t in inputs]))
    uneven = [torch.full((r + 1,), float(rank + 1), device=card(rank)) for r in range(size)]
    output = torch.empty(rank + 1, device=card(rank))
    dist.reduce_scatter(output, uneven, dist.ReduceOp.MAX)
    expect(output, size)


def all_to_alls(rank: int, size: int) -> None:
    mine = torch.arange(size, dtype=torch.int64, device=card(rank)) + 100 * rank
    got = torch.empty_like(mine)
    dist.all_to_all_single(got, mine)
    expect(got, [100 * r + rank for r in range(size)])
    inputs = [torch.full((rank + r + 1,), float(10 * rank + r), device=card(rank)) for r in range(size)]
    outputs = [torch.empty(rank + r + 1, device=card(rank)) for r in range(size)]
    dist.all_to_all(outputs, inputs)
    for r, output in enumerate(outputs):
        expect(output, 10 * r + rank)
    splits_in = [r + 1 for r in range(size)]
    splits_out = [rank + 1] * size
    got = torch.empty(sum(splits_out), device=card(rank))
    dist.all_to_all_single(got, torch.full((sum(splits_in),), float(rank), device=card(rank)), splits_out, splits_in)
    expect(got, torch.arange(float(size)).repeat_interleave(rank + 1))


def point_to_point(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    sent, got = torch.full((3,), float(rank), device=card(rank)), torch.empty(3, device=card(rank))
    if rank % 2 == 0:
        dist.send(sent, right)
        dist.recv(got, left)
    else:
        dist.recv(got, left)
        dist.send(sent, right)
    expect(got, left)
    got.zero_()
    works = [dist.isend(sent, right), dist.irecv(got, left)]
    for work in works:
        work.wait()
    expect(got, left)
    assert all(work.is_completed() and work.is_success() for work in works)
    first, second = torch.empty(3, device=card(rank)), torch.empty(3, dtype=torch.int32, device=card(rank))
    operations = [
        dist.P2POp(dist.isend, sent, right),
        dist.P2POp(dist.irecv, first, left),
        dist.P2POp(dist.isend, sent.int(), left),
        dist.P2POp(dist.irecv, second, right),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect(first, left)
    expect(second, right)
    view = torch.zeros(3, 2, device=card(rank))
    request = dist.irecv(view[:, 1], left)
    dist.isend(sent, right).wait()
    while not request.is_completed():
        pass
    expect(view, torch.tensor([0.0, left]))


def objects(rank: int, size: int) -> None:
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * (rank + 1)})
    assert everyone == [{"rank": r, "text": "x" * (r + 1)} for r in range(size)]
    shared = [{"seed": 7}, "name"] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == [{"seed": 7}, "name"]
    mine = [None]
    dist.scatter_object_list(mine, list(range(size)) if rank == 0 else None, 0)
    assert mine == [rank]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * rank, gathered, 0)
    assert gathered is None or gathered == [r * r for r in range(size)]


def handles_and_futures(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    tensor = torch.full((5,), float(rank + 1), device=card(rank))
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    expect(tensor, total)
    tensor = torch.full((5,), float(rank + 1), device=card(rank))
    future = dist.all_reduce(tensor, dist.ReduceOp.AVG, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    expect(doubled.wait(), total / size * 2)
    assert future.done()
    works = [dist.all_reduce(torch.ones(100, device=card(rank)), async_op=True) for _ in range(50)]
    for work in reversed(works):
        work.wait()
    got = torch.empty(1, device=card(rank))
    request = dist.irecv(got, (rank - 1) % size)
    dist.isend(torch.full((1,), float(rank), device=card(rank)), (rank + 1) % size)
    expect(request.get_future().wait()[0], (rank - 1) % size)
    dist.barrier(async_op=True).wait()


def coalesced(rank: int, size: int) -> None:
    total = size * (size + 1) / 2
    tensors = [torch.full((n,), float(rank + 1), device=card(rank)) for n in (1, 4, 2)]
    with dist._coalescing_manager(device=card(rank)):
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        expect(tensor, total)
    tensors = [torch.full((n,), float(rank + 1), device=card(rank)) for n in (3, 1)]
    outputs = [torch.empty(n * size, device=card(rank)) for n in (3, 1)]
    with dist._coalescing_manager(device=card(rank), async_ops=True) as manager:
        for output, tensor in zip(outputs, tensors, strict=True):
            dist.all_gather_into_tensor(output, tensor)
    manager.wait()
    for n, output in zip((3, 1), outputs, strict=True):
        expect(output, torch.arange(1.0, size + 1).repeat_interleave(n))
    parts = [torch.empty(n, device=card(rank)) for n in (3, 1)]
    with dist._coalescing_manager():
        for part, output in zip(parts, outputs, strict=True):
            dist.reduce_scatter_tensor(part, output)
    for part in parts:
        expect(part, (rank + 1) * size)


def groups(rank: int, size: int) -> None:
    everyone = dist.new_group(backend="cncl")
    pair = dist.new_group([0, 1], timeout=timedelta(seconds=60))
    assert dist.get_backend(everyone) == "cncl"
    tensor = torch.full((2,), float(rank + 1), device=card(rank))
    dist.all_reduce(tensor, group=everyone)
    expect(tensor, size * (size + 1) / 2)
    if rank < 2:
        tensor = torch.full((2,), float(rank + 1), device=card(rank))
        dist.all_reduce(tensor, group=pair)
        expect(tensor, 3)
        assert dist.get_world_size(pair) == 2
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(1), group=everyone)
    objects_seen = [None] * size
    dist.all_gather_object(objects_seen, rank, group=everyone)
    assert objects_seen == list(range(size))
    dist.barrier(group=everyone)
    dist.destroy_process_group(everyone)
    if rank < 2:
        dist.destroy_process_group(pair)


def groups_of_a_bound_device(rank: int, size: int) -> None:
    """init_process_group(device_id=...) makes torch split communicators where a backend can; CNCL cannot."""
    world = dist.group.WORLD
    world.bound_device_id = card(rank)
    try:
        first = dist.new_group([0], backend="cncl")
        if rank == 0:
            tensor = torch.ones(2, device=card(rank))
            dist.all_reduce(tensor, group=first)
            expect(tensor, 1)
        dist.barrier()
    finally:
        world.bound_device_id = None


def both_devices(rank: int, size: int) -> None:
    on_cpu, on_card = torch.full((2,), float(rank)), torch.full((2,), float(rank), device=card(rank))
    dist.all_reduce(on_cpu)
    dist.all_reduce(on_card)
    assert torch.equal(on_cpu, on_card.cpu())
    assert type(dist.group.WORLD._get_backend(torch.device("mlu"))) is dist.ProcessGroupCNCL
    assert type(dist.group.WORLD._get_backend(torch.device("cpu"))) is dist.ProcessGroupGloo


def a_missing_rank_times_out(rank: int, size: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=3), backend="cncl")
    if rank == 0:
        tensor = torch.ones(1, device=card(rank))
        work = dist.all_reduce(tensor, group=group, async_op=True)
        with pytest.raises(RuntimeError, match="(?i)timed? ?out"):
            work.wait()
        assert work.is_completed() and not work.is_success() and work.exception() is not None
        with pytest.raises(RuntimeError, match="(?i)timed? ?out"):
            work.get_future().wait()


def options_and_names(rank: int, size: int) -> None:
    assert dist.Backend.CNCL == "cncl" and dist.Backend("CNCL") == "cncl"
    assert dist.is_cncl_available() and dist.is_backend_available("cncl")
    group = dist.ProcessGroupCNCL(dist.HashStore(), 0, 1)
    assert group.options._timeout == timedelta(minutes=10) and not group.options.is_high_priority_stream
    assert group.name() == "cncl" and group.supports_coalescing
    options = dist.ProcessGroupCNCL.Options(is_high_priority_stream=True)
    options._timeout = timedelta(seconds=5)
    made = dist.ProcessGroupCNCL(dist.HashStore(), 0, 1, options)
    assert made.options.is_high_priority_stream and made.options._timeout == timedelta(seconds=5)
    assert isinstance(made.get_cncl_comm(0), int) and isinstance(made.uid, str)
    made._shutdown()
    work = group.allreduce(torch.ones(2, device=card(rank)))
    work.wait()


def wire_width(rank: int, size: int) -> None:
    """float64 loses what float32 cannot hold, exactly where the profile computes it so."""
    third = torch.tensor([1 / 3], dtype=torch.float64, device=card(rank))
    for narrow in (False, True):
        store = dist.HashStore()
        group = dist.ProcessGroupCNCL(store, 0, 1, narrow_float64=narrow)
        tensor = third.clone()
        group.broadcast(tensor, 0).wait()
        assert tensor.dtype == torch.float64
        assert (tensor.item() == 1 / 3) is not narrow
        assert tensor.item() == pytest.approx(1 / 3, rel=1e-7)


def functional(rank: int, size: int) -> None:
    import torch.distributed._functional_collectives as funcol

    group = dist.group.WORLD
    mine = torch.full((2,), float(rank + 1), device=card(rank))
    expect(funcol.all_reduce(mine, "sum", group), size * (size + 1) / 2)
    expect(funcol.all_gather_tensor(mine, 0, group), torch.arange(1.0, size + 1).repeat_interleave(2))
    expect(funcol.reduce_scatter_tensor(mine.repeat(size), "avg", 0, group), (size + 1) / 2)
    exchanged = funcol.all_to_all_single(mine.repeat(size), None, None, group)
    expect(exchanged, torch.arange(1.0, size + 1).repeat_interleave(2))
    expect(funcol.broadcast(mine, 0, group), 1)


def _trace() -> dict:
    return pickle.loads(torch._C._distributed_c10d._dump_cncl_trace())


def nothing_recorded_unasked(rank: int, size: int) -> None:
    dist.all_reduce(torch.ones(2, device=card(rank)))
    assert _trace()["entries"] == []


def flight_record(rank: int, size: int) -> None:
    os.environ["TORCH_CNCL_TRACE_BUFFER_SIZE"] = "8"
    try:
        group = dist.new_group(backend="cncl", group_desc="watched")
        tensor = torch.ones(2, 3, device=card(rank))
        dist.all_reduce(tensor, group=group)
        gathered = [torch.empty(2, 3, device=card(rank)) for _ in range(size)]
        dist.all_gather(gathered, tensor, group=group)
        if rank < 2:
            peer = 1 - rank
            (dist.send if rank == 0 else dist.recv)(torch.zeros(4, dtype=torch.int64, device=card(rank)), peer, group)
        dist.barrier(group=group)
        trace = _trace()
        assert trace["pg_config"][group.group_name] == {
            "name": group.group_name,
            "desc": "watched",
            "ranks": str(list(range(size))),
        }
        rows = [row for row in trace["entries"] if row["process_group"] == (group.group_name, "watched")]
        transfer = [["cncl:send 0->1"], ["cncl:recv 1<-0"]][rank] if rank < 2 else []
        assert [row["profiling_name"] for row in rows] == [
            "cncl:all_reduce",
            "cncl:all_gather",
            *transfer,
            "cncl:barrier",
        ]
        assert rows[0]["input_sizes"] == rows[0]["output_sizes"] == [[2, 3]] and rows[0]["input_dtypes"] == ["Float"]
        assert rows[1]["input_sizes"] == [[2, 3]] and rows[1]["output_sizes"] == [[2, 3]] * size
        assert [row["is_p2p"] for row in rows] == [False, False, *[True] * len(transfer), False]
        assert [row["collective_seq_id"] for row in rows] == [1, 2, *[2] * len(transfer), 3]
        assert rows[-1]["p2p_seq_id"] == len(transfer)
        assert all(row["state"] == "completed" and row["retired"] and row["duration_ms"] >= 0 for row in rows)
        assert any(frame["name"] == "flight_record" for frame in rows[0]["frames"])
        assert trace["pg_status"][str(rows[0]["pg_id"])]["last_completed_collective"] == 3
        for _ in range(20):
            dist.all_reduce(tensor, group=group)
        ids = [row["record_id"] for row in _trace()["entries"]]
        assert len(ids) == 8 and ids == list(range(ids[0], ids[0] + 8))
        late = dist.new_group(backend="cncl", timeout=timedelta(seconds=2))
        if rank == 0:
            with pytest.raises(RuntimeError, match="(?i)timed? ?out"):
                dist.all_reduce(tensor, group=late)
            last = _trace()["entries"][-1]
            assert last["state"] == "started" and last["retired"] and last["time_discovered_completed_ns"] is None
        os.environ["TORCH_CNCL_TRACE_BUFFER_SIZE"] = "many"
        with pytest.raises(RuntimeError, match="Invalid value for environment variable: TORCH_CNCL_TRACE_BUFFER_SIZE"):
            dist.ProcessGroupCNCL(dist.HashStore(), 0, 1)
    finally:
        del os.environ["TORCH_CNCL_TRACE_BUFFER_SIZE"]
    dist.ProcessGroupCNCL(dist.HashStore(), 0, 1)
    assert _trace()["entries"] == []
