"""Saving, loading, and sending tensors to other processes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
import torch_mlu  # noqa: F401
from _programs import lines


def tags(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))


def test_a_file_carries_the_tag_of_the_card(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(3.0, device="mlu:1")}, path)
    assert b"mlu:1" in tags(path)
    back = torch.load(path)["x"]
    assert back.device == torch.device("mlu:1") and back.tolist() == [0.0, 1.0, 2.0]
    assert torch.load(path, map_location="cpu")["x"].device.type == "cpu"
    assert torch.load(path, map_location={"mlu:1": "mlu:0"})["x"].device.index == 0


def test_views_keep_sharing_memory_through_a_file() -> None:
    base = torch.zeros(4, device="mlu")
    buffer = io.BytesIO()
    torch.save([base, base[1:3]], buffer)
    buffer.seek(0)
    whole, part = torch.load(buffer)
    part.fill_(7)
    assert whole.tolist() == [0.0, 7.0, 7.0, 0.0]


def test_the_legacy_format_works_too(tmp_path: Path) -> None:
    path = tmp_path / "old.pt"
    torch.save(torch.ones(2, device="mlu"), path, _use_new_zipfile_serialization=False)
    assert torch.load(path).device.type == "mlu"


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.bfloat16, torch.int8, torch.bool])
def test_dtypes_survive(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.ones(3, device="mlu", dtype=dtype)
    torch.save(x, tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt")
    assert back.dtype is dtype and torch.equal(back, x)


def test_a_card_that_is_missing_on_loading_is_named(tmp_path: Path) -> None:
    torch.save(torch.ones(1, device="mlu:3"), tmp_path / "x.pt")
    code = f"""
    import torch, torch_mlu
    try:
        torch.load({str(tmp_path / "x.pt")!r})
    except RuntimeError as error:
        print(error)
    """
    assert "Attempting to deserialize object on MLU device 3" in lines(code, MLU_EMULATOR_CARDS="2")[0]


def cuda_file(path: Path) -> None:
    """
    A file as a GPU writes it: the same bytes with another tag of equal length ("cuda:0" for "mlu:10" would not be).
    """
    torch.save({"x": torch.ones(2)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            if name.endswith("data.pkl"):
                # A short unicode string of the pickle: X, four bytes of length, text.
                data = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            archive.writestr(name, data)


def test_a_file_saved_on_cuda_does_not_map_by_itself(tmp_path: Path) -> None:
    cuda_file(tmp_path / "gpu.pt")
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(tmp_path / "gpu.pt")
    assert torch.load(tmp_path / "gpu.pt", map_location="mlu:1")["x"].device == torch.device("mlu:1")
    assert torch.load(tmp_path / "gpu.pt", map_location={"cuda:0": "mlu:0"})["x"].is_mlu


def test_with_gpu_migration_it_does(tmp_path: Path) -> None:
    cuda_file(tmp_path / "gpu.pt")
    code = f"""
    import torch, torch_mlu, torch_mlu.utils.gpu_migration
    print(torch.load({str(tmp_path / "gpu.pt")!r})["x"].device)
    """
    assert lines(code) == ["mlu:0"]


def test_state_dicts_load_across_devices() -> None:
    model, other = torch.nn.Linear(2, 2).mlu(), torch.nn.Linear(2, 2)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.weight, model.weight.cpu()) and other.weight.device.type == "cpu"


def add_one(queue: mp.Queue, back: mp.Queue) -> None:
    tensor = queue.get()
    tensor += 1
    back.put((str(tensor.device), tensor.sum().item()))
    queue.get()


def test_another_process_sees_the_same_memory() -> None:
    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=add_one, args=(queue, back))
    child.start()
    x = torch.zeros(4, device="mlu:1")
    view = x[1:]
    queue.put(view)
    assert back.get(timeout=120) == ("mlu:1", 3.0)
    assert x.tolist() == [0.0, 1.0, 1.0, 1.0]
    queue.put(None)
    child.join(60)
    assert child.exitcode == 0


def test_parameters_and_empty_tensors_travel() -> None:
    from multiprocessing.reduction import ForkingPickler

    parameter = torch.nn.Parameter(torch.ones(2, device="mlu"))
    again = ForkingPickler.loads(bytes(ForkingPickler.dumps([parameter, torch.empty(0, device="mlu")])))
    assert isinstance(again[0], torch.nn.Parameter) and again[0].data_ptr() == parameter.data_ptr()
    assert again[1].shape == (0,) and again[1].is_mlu


def test_a_tensor_in_a_graph_does_not_travel() -> None:
    from multiprocessing.reduction import ForkingPickler

    x = torch.ones(2, device="mlu", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        ForkingPickler.dumps(x)
