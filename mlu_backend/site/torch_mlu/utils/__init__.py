"""
Tools around the device. ``cpp_extension``, ``gpu_migration``, ``model_transfer``, ``collect_env`` and ``dumptool`` are
imported on their own.
"""

from __future__ import annotations

from pathlib import Path

from torch_mlu.utils import _utils, counter, distributed, overrides_utils
from torch_mlu.utils.distributed import apply_ddp_patch
from torch_mlu.utils.overrides_utils import apply_torch_overrides_patch

__all__ = ["_utils", "apply_ddp_patch", "apply_torch_overrides_patch", "counter", "distributed", "overrides_utils"]

# Where a CMake project would find the package's configuration.
cmake_prefix_path = str(Path(__file__).resolve().parent.parent / "share" / "cmake")
