"""What torch.distributed has to know about the device beside the collectives: sharded tensors, FSDP, autograd."""

from __future__ import annotations

from torch_mlu.distributed import _shard, fsdp, nn
from torch_mlu.distributed._shard.api import apply_shard_tensor_patch
from torch_mlu.distributed._shard.tensor_ops import apply_tensor_ops_patch
from torch_mlu.distributed.fsdp._init_utils import apply_init_utils_patch
from torch_mlu.distributed.nn.functional import apply_functional_patch

__all__ = ["_shard", "apply_distributed_patch", "fsdp", "nn"]


def apply_distributed_patch() -> None:
    """All of this package's patches, once a process."""
    import torch.distributed

    if not torch.distributed.is_available():
        return
    apply_shard_tensor_patch()
    apply_tensor_ops_patch()
    apply_init_utils_patch()
    apply_functional_patch()
