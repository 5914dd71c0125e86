"""Where a sharded tensor puts what its collectives need."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from mlu_backend.after_import import after_import


def _get_preferred_device(self: Any) -> torch.device:
    """The current card for a CNCL group, the CPU otherwise."""
    if "cncl" in dist.get_backend(self._process_group):
        return torch.device("mlu", torch.mlu.current_device())
    return torch.device("cpu")


def apply_shard_tensor_patch() -> None:
    def patch(module: Any) -> None:
        module.ShardedTensor._get_preferred_device = _get_preferred_device

    after_import("torch.distributed._shard.sharded_tensor", patch)
