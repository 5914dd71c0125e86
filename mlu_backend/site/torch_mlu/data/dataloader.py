"""
Pinned batches without naming a device: ``DataLoader(pin_memory=True)`` pins for mlu.

The iterators of torch 2.13 ask which accelerator there is and get mlu as the answer, so the iterators below do what
torch's do; torch_mlu has its own because torch 2.4 pins for CUDA unless told otherwise.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import dataloader

from torch_mlu import _MLUC


def _BaseDataLoaderIter__init__(self: Any, loader: Any) -> None:
    _MLUC._replaced["_BaseDataLoaderIter.__init__"](self, loader)


def _BaseDataLoaderIter__next__(self: Any) -> Any:
    # A loader loop is what the window of case dumps counts (TORCH_MLU_COUNTER_START, TORCH_MLU_COUNTER_END).
    from torch_mlu.utils.counter import _update_and_check_for_gencase

    _update_and_check_for_gencase()
    return _MLUC._replaced["_BaseDataLoaderIter.__next__"](self)


def _MultiProcessingDataLoaderIter__init__(self: Any, loader: Any) -> None:
    _MLUC._replaced["_MultiProcessingDataLoaderIter.__init__"](self, loader)


def apply_dataloader_patch() -> None:
    """Put the iterators above in place, once a process."""
    kept = _MLUC._replaced
    for owner, name, replacement in (
        (dataloader._BaseDataLoaderIter, "__init__", _BaseDataLoaderIter__init__),
        (dataloader._BaseDataLoaderIter, "__next__", _BaseDataLoaderIter__next__),
        (dataloader._MultiProcessingDataLoaderIter, "__init__", _MultiProcessingDataLoaderIter__init__),
    ):
        key = f"{owner.__name__}.{name}"
        if key not in kept:
            kept[key] = getattr(owner, name)
            setattr(owner, name, replacement)
