"""Parts of torch that have to pick a device by themselves pick mlu after the import."""

from __future__ import annotations

import pytest
import torch
import torch_mlu  # noqa: F401
from _programs import lines


def test_checkpointing_restores_the_numbers_of_the_card() -> None:
    assert torch.utils.checkpoint.DefaultDeviceType.get_device_type() == "mlu"
    x = torch.ones(64, device="mlu", requires_grad=True)
    seen = []

    def block(x: torch.Tensor) -> torch.Tensor:
        mask = torch.rand(64, device="mlu")
        seen.append(mask)
        return x * mask

    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()
    assert torch.equal(seen[0], seen[1]) and torch.equal(x.grad, seen[0])


def test_the_accelerator_is_mlu() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("mlu")
    assert torch._utils._get_available_device_type() == "mlu"
    assert torch._utils.get_current_device_index() == torch.mlu.current_device()
    assert torch._utils._get_device_attr(lambda module: module.device_count()) == torch.mlu.device_count()


def test_fsdp_wraps_a_cpu_module_onto_the_card() -> None:
    code = """
    import warnings
    warnings.simplefilter("ignore")
    import torch, torch_mlu, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    dist.init_process_group("cncl", store=dist.HashStore(), rank=0, world_size=1)
    for options in ({}, {"device_id": 1}, {"device_id": torch.device("mlu")}):
        layer = torch.nn.Linear(2, 2)
        model = FSDP(layer if options else layer.mlu(), **options)
        out = model(torch.ones(1, 2, device=model.compute_device))
        out.sum().backward()
        print(model.compute_device, out.device)
    dist.destroy_process_group()
    """
    assert lines(code) == ["mlu:0 mlu:0", "mlu:1 mlu:1", "mlu:0 mlu:0"]


def test_gathering_with_a_gradient_knows_cncl_by_name() -> None:
    code = """
    import warnings
    warnings.simplefilter("ignore")
    import torch, torch_mlu, torch.distributed as dist, torch.distributed.nn.functional as functional
    dist.init_process_group("cncl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(2, device="mlu", requires_grad=True)
    out = functional._all_gather_base(torch.empty(2, device="mlu"), x)
    (out * 3).sum().backward()
    print(x.grad.tolist())
    from torch.distributed._shard.sharded_tensor import ShardedTensor
    import types
    print(ShardedTensor._get_preferred_device(types.SimpleNamespace(_process_group=dist.group.WORLD)))
    dist.destroy_process_group()
    """
    assert lines(code) == ["[3.0, 3.0]", "mlu:0"]


def test_ddp_takes_one_card_a_process() -> None:
    code = """
    import torch, torch_mlu, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("cncl", store=dist.HashStore(), rank=0, world_size=1)
    model = DDP(torch.nn.Linear(2, 1).mlu(), device_ids=[0])
    model(torch.ones(1, 2, device="mlu")).sum().backward()
    print(model.module.weight.grad.tolist())
    dist.destroy_process_group()
    """
    assert lines(code) == ["[[1.0, 1.0]]"]


def test_the_table_of_overrides_knows_the_methods_of_the_card() -> None:
    table = torch.overrides.get_testing_overrides()
    assert torch.Tensor.mlu in table and torch.Tensor.is_mlu.__get__ in table


def test_lazy_modules_may_be_moved_before_they_have_a_shape() -> None:
    layer = torch.nn.LazyLinear(2).mlu()
    assert layer(torch.ones(1, 3, device="mlu")).is_mlu and layer.weight.shape == (2, 3)


def test_transform_bias_rescale_qkv_is_the_split_it_stands_for() -> None:
    qkv, bias = torch.randn(2, 3, 12), torch.randn(12)
    ours = torch._transform_bias_rescale_qkv(qkv.mlu(), bias.mlu(), 2)
    theirs = torch._transform_bias_rescale_qkv(qkv, bias, 2)
    for left, right in zip(ours, theirs, strict=True):
        assert torch.allclose(left.cpu(), right, atol=1e-6)


@pytest.mark.parametrize("value", ["2:0", "x"])
def test_a_wrong_window_of_dumps_is_told(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_mlu.utils import counter

    monkeypatch.setenv("TORCH_MLU_COUNTER_START", "1")
    monkeypatch.setenv("TORCH_MLU_COUNTER_LEVEL", value)
    with pytest.raises(ValueError, match="one of L1, L2, L3"):
        counter._check_gencase()


@pytest.mark.parametrize("cards", [[0], [0, 1]])
def test_data_parallel_is_unsupported_as_on_the_card(cards: list[int]) -> None:
    """Officially unsupported; torch built without CUDA has none of the collectives in one process that it calls."""
    layer = torch.nn.DataParallel(torch.nn.Linear(4, 2).mlu(), device_ids=cards)
    assert layer.device_ids == cards and next(layer.parameters()).device == torch.device("mlu:0")
    with pytest.raises(AttributeError, match="module 'torch._C' has no attribute '_scatter'"):
        layer(torch.randn(6, 4, device="mlu"))
