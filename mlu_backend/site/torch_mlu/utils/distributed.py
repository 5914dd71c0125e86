"""
DistributedDataParallel on the card: one process, one card.

torch_mlu brings a reducer of its own; the emulated card is served by torch's, which works on any device.
"""

from __future__ import annotations

from typing import Any

from mlu_backend.after_import import after_import
from torch_mlu import _MLUC


def _ddp_init_helper(
    self: Any, parameters: Any, expect_sparse_gradient: Any, param_to_name_mapping: Any, static_graph: bool
) -> None:
    """Build the reducer; ValueError for a module whose ``device_ids`` name several cards."""
    if self.device_type == "mlu" and self.device_ids is not None and len(self.device_ids) > 1:
        raise ValueError(
            "DistributedDataParallel on MLU works with one device per process, got device_ids=" + str(self.device_ids)
        )
    _MLUC._replaced["ddp._ddp_init_helper"](
        self, parameters, expect_sparse_gradient, param_to_name_mapping, static_graph
    )


def apply_ddp_patch() -> None:
    """Replace ``DistributedDataParallel._ddp_init_helper``, once a process."""

    def patch(module: Any) -> None:
        if "ddp._ddp_init_helper" not in _MLUC._replaced:
            cls = module.DistributedDataParallel
            _MLUC._replaced["ddp._ddp_init_helper"] = cls._ddp_init_helper
            cls._ddp_init_helper = _ddp_init_helper

    after_import("torch.nn.parallel.distributed", patch)
