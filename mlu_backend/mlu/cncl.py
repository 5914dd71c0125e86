"""
CNCL, the collective library: what ``torch.mlu.cncl`` offers, and its registration with torch.distributed.

There are no collectives here (torch.cuda.nccl has some); they are those of torch.distributed with backend ``"cncl"``.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
import torch_mlu

__all__ = ["version", "is_cncl_available", "batch_isend_irecv", "ProcessGroupCNCL"]  # noqa: F822

_CNCL_AVAILABLE = True


def __getattr__(name: str) -> Any:
    """``ProcessGroupCNCL`` is compiled when first asked for."""
    if name == "ProcessGroupCNCL":
        return torch_mlu._MLUC.ProcessGroupCNCL
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def version() -> tuple[int, int, int]:
    """Major, minor and patch number of the library."""
    return torch_mlu._MLUC._cncl_version()


def is_cncl_available() -> bool:
    """Always True (torch_mlu/mlu/cncl.py:24-31)."""
    return _CNCL_AVAILABLE


def batch_isend_irecv(p2p_op_list: list[Any]) -> list[Any]:
    """
    Start several sends and receives at once; returns the requests to wait for.

    As ``torch.distributed.batch_isend_irecv``, which this replaces on import.
    """
    return _original_batch_isend_irecv(p2p_op_list)


def _set_sequence_number_for_group(self: Any) -> None:
    """Start counting collectives, on the card's part of the group."""
    _original_set_sequence_number(self)


def _get_sequence_number_for_group(self: Any) -> int:
    """How many collectives the group has run."""
    return _original_get_sequence_number(self)


if dist.is_available():
    _original_batch_isend_irecv = getattr(dist.batch_isend_irecv, "_replaced", dist.batch_isend_irecv)
    _original_set_sequence_number = getattr(
        dist.ProcessGroup._set_sequence_number_for_group, "_replaced", dist.ProcessGroup._set_sequence_number_for_group
    )
    _original_get_sequence_number = getattr(
        dist.ProcessGroup._get_sequence_number_for_group, "_replaced", dist.ProcessGroup._get_sequence_number_for_group
    )
    # A second copy of this module (see torch.mlu) has to find what the first one replaced.
    batch_isend_irecv._replaced = _original_batch_isend_irecv  # type: ignore[attr-defined]
    _set_sequence_number_for_group._replaced = _original_set_sequence_number  # type: ignore[attr-defined]
    _get_sequence_number_for_group._replaced = _original_get_sequence_number  # type: ignore[attr-defined]
