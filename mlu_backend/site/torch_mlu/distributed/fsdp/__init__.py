"""FullyShardedDataParallel: mlu is the device when none is named."""

from __future__ import annotations

from torch_mlu.distributed.fsdp import _init_utils

__all__ = ["_init_utils"]
