"""``torch_mlu.utils.gpu_migration``, faults included. Each program runs in a process of its own."""

from __future__ import annotations

from pathlib import Path

import torch
from _programs import lines, run

IMPORT = "import torch, torch_mlu, torch_mlu.utils.gpu_migration, warnings\n"


def migrated(code: str, **variables: str) -> list[str]:
    import textwrap

    return lines(IMPORT + textwrap.dedent(code), **variables)


def test_a_cuda_program_trains_on_the_card() -> None:
    code = """
    import torch.nn as nn
    torch.manual_seed(0)
    torch.cuda.set_device(0)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(4, 8, device="cuda"), nn.ReLU(), nn.Linear(8, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.cuda.amp.GradScaler()
    x = torch.randn(8, 4).cuda(non_blocking=True)
    with torch.cuda.amp.autocast():
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.cuda.synchronize()
    print(x.device, x.is_cuda, next(model.parameters()).device, torch.cuda.memory_allocated(device) > 0)
    """
    assert migrated(code)[-1] == "mlu:0 True mlu:0 True"


def test_torch_cuda_is_torch_mlu_with_submodules_and_renamed_names() -> None:
    code = """
    import sys, torch.cuda.amp
    print(torch.cuda is torch.mlu, sys.modules["torch.cuda"] is torch.mlu)
    cuda, mlu = torch.cuda, torch.mlu
    print(cuda.nvtx is mlu.cnpx, cuda.nccl is mlu.cncl, cuda.CUDAGraph is mlu.MLUGraph)
    print(torch.cuda.memory.CUDAPluggableAllocator is torch.mlu.memory.MLUPluggableAllocator)
    print(torch.backends.cuda is torch.backends.mlu, sys.modules["torch.backends.cuda"] is torch.backends.mlu)
    """
    assert migrated(code) == ["True True", "True True True", "True", "True False"]


def test_a_name_mlu_lacks_warns_with_the_real_spelling_and_runs() -> None:
    code = """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.get_arch_list()
    print([str(w.message) for w in caught])
    """
    assert migrated(code) == ["['gpu_migration: torch.cuda.get_arch_list is not yet suppoorted on MLU']"]
    assert migrated(code, TORCH_MLU_MIGRATION_WITH_WARNING="0") == ["[]"]


def test_every_positional_string_is_changed_not_devices_only(tmp_path: Path) -> None:
    (tmp_path / "mlu").mkdir()
    (tmp_path / "cuda").mkdir()
    torch.save(torch.tensor(1), tmp_path / "cuda" / "x.pt")
    torch.save(torch.tensor(2), tmp_path / "mlu" / "x.pt")
    code = f"""
    print(torch.load({str(tmp_path / "cuda" / "x.pt")!r}).item())
    print(torch.load(f={str(tmp_path / "cuda" / "x.pt")!r}).item())
    """
    assert migrated(code) == ["2", "1"]


def test_a_dict_or_callable_map_location_is_left_alone() -> None:
    code = """
    from torch_mlu.utils.gpu_migration.migration import replace_cuda_with_mlu as change
    table, function = {"cuda:0": "cpu"}, lambda s, l: s
    print(change(table) is table, change(function) is function, end=" ")
    print(change("cuda:1"), change("CUDA"), change(torch.device("cuda:1")))
    devices = ["cuda:0", 1]
    from torch_mlu.utils.gpu_migration.migration import replace_device_args
    replace_device_args(lambda device_ids: None)(device_ids=devices)
    print(devices)
    """
    assert migrated(code) == ["True True mlu:1 MLU mlu:1", "['mlu:0', 1]"]


def test_names_bound_before_the_import_keep_the_old_objects() -> None:
    code = """
    import torch
    from torch import zeros
    from torch.cuda import is_available
    import torch_mlu, torch_mlu.utils.gpu_migration
    print(is_available(), torch.cuda.is_available(), torch.zeros(1, device="cuda").device)
    try:
        zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        print("old")
    """
    assert lines(code, fresh=True) == ["False True mlu:0", "old"]


def test_generators_are_a_subclass_afterwards() -> None:
    code = """
    print(isinstance(torch.default_generator, torch.Generator), end=" ")
    print(torch.Generator("cuda").device, torch.Generator().device)
    print(torch.randn(2, generator=torch.Generator("cuda").manual_seed(1), device="cuda").shape)
    """
    assert migrated(code) == ["False mlu:0 cpu", "torch.Size([2])"]


def test_jit_script_returns_its_argument() -> None:
    code = """
    def f(x):
        return x
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        print(torch.jit.script(f) is f, len(caught))
    """
    assert migrated(code) == ["True 1"]


def test_autocast_without_a_device_means_mlu() -> None:
    code = """
    with torch.autocast("cuda", dtype=torch.bfloat16):
        print(torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype(), torch.is_autocast_enabled("cuda"))
    torch.set_autocast_enabled(True)
    print(torch.mlu.is_autocast_enabled())
    torch.set_autocast_enabled(False)
    print(torch.amp.GradScaler()._device)
    """
    assert migrated(code) == ["True torch.bfloat16 True", "True", "mlu"]


def test_a_loader_pins_for_mlu_by_keyword_only() -> None:
    code = """
    from torch.utils.data import DataLoader
    data = [torch.zeros(1)]
    by_position = DataLoader(data, 1, False, None, None, 0, None, True)
    print(DataLoader(data, pin_memory=True).pin_memory_device, repr(by_position.pin_memory_device))
    """
    assert migrated(code) == ["mlu ''"]


def test_process_groups_ask_for_cncl() -> None:
    code = """
    import os, torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    print(dist.get_backend(), x.tolist(), dist.is_nccl_available(), "cuda" in dist.Backend.default_device_backend_map)
    print(dist.ProcessGroupNCCL is dist.ProcessGroupCNCL)
    dist.destroy_process_group()
    """
    assert migrated(code) == ["cncl [1.0, 1.0] True False", "True"]


def test_profiles_ask_for_the_card() -> None:
    code = """
    from torch.profiler import ProfilerActivity
    with torch.autograd.profiler.profile(use_device="cuda") as prof:
        torch.ones(2, device="cuda") + 1
    print(prof.use_device, ProfilerActivity.CUDA == ProfilerActivity.PrivateUse1)
    """
    assert migrated(code)[-1] == "mlu True"


def test_operators_called_directly_take_cuda_too() -> None:
    assert migrated('print(torch.ops.aten.zeros.default([2], device=torch.device("cuda")).device)') == ["mlu:0"]


def test_events_streams_and_graphs_work_under_their_old_names() -> None:
    code = """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        start.record(); end.record()
    print(start.elapsed_time(end) >= 0, torch.cuda.current_stream() != side)
    x = torch.zeros(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    print(y.tolist())
    """
    assert migrated(code) == ["True True", "[1.0, 1.0]"]


def test_an_environment_variable_without_counterpart_is_told() -> None:
    done = run(IMPORT, CUDA_LAUNCH_BLOCKING="1")
    assert "CUDA_LAUNCH_BLOCKING is not supported on MLU" in done.stderr and done.returncode == 0


def test_the_old_name_of_the_module_is_deprecated() -> None:
    code = """
    import warnings, torch, torch_mlu
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch_mlu.utils.model_transfer as old
    kinds = [w.category.__name__ for w in caught if "model_transfer" in str(w.message)]
    print(kinds, torch.zeros(1, device="cuda").device)
    """
    assert lines(code) == ["['FutureWarning'] mlu:0"]
