"""Loading data for the card."""

from __future__ import annotations

import torch
import torch_mlu
from _programs import lines
from torch.utils.data import DataLoader, TensorDataset


class Told(torch.utils.data.Dataset):
    """Numbers, and whether the worker was told a seed."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


def test_batches_are_pinned_without_naming_a_device() -> None:
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, pin_memory=True)
    for (batch,) in loader:
        assert batch.is_pinned()
        assert batch.mlu(non_blocking=True).is_mlu


def test_workers_pin_as_well_and_keep_the_order() -> None:
    loader = DataLoader(Told(), batch_size=2, num_workers=2, pin_memory=True)
    batches = list(loader)
    assert torch.cat(batches).tolist() == [0, 1, 2, 3]
    assert all(batch.is_pinned() for batch in batches)


def test_a_forked_worker_may_not_use_the_card_and_a_spawned_one_may() -> None:
    code = """
    import sys, torch, torch_mlu
    from torch.utils.data import DataLoader
    class OnCard(torch.utils.data.Dataset):
        def __len__(self):
            return 2
        def __getitem__(self, index):
            return torch.full((1,), float(index), device="mlu").cpu()
    torch.zeros(1, device="mlu")
    try:
        list(DataLoader(OnCard(), num_workers=1, multiprocessing_context="fork"))
    except RuntimeError as error:
        print("Cannot re-initialize MLU in forked subprocess" in str(error))
    """
    assert lines(code) == ["True"]


def test_case_dumps_follow_a_window_of_iterations(monkeypatch) -> None:
    from torch_mlu._MLUC._libraries import _gencase
    from torch_mlu.utils import counter

    monkeypatch.setenv("TORCH_MLU_COUNTER_START", "1")
    monkeypatch.setenv("TORCH_MLU_COUNTER_END", "2")
    monkeypatch.setattr(counter, "_GENCASE_ENABLED", False)
    counter._GENCASE_STATUS_DICT["iteration"] = 0
    torch_mlu._check_gencase()
    seen = []
    for _ in DataLoader(TensorDataset(torch.zeros(4))):
        seen.append(_gencase.enabled)
    assert seen == [False, True, False, False]
