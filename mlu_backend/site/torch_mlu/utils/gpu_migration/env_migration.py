"""Environment variables of CUDA that have no counterpart (torch_mlu/utils/gpu_migration/env_migration.py:6-48)."""

from __future__ import annotations

import os
import warnings

# None: nothing to set instead.
mlu_env_map: dict[str, str | None] = dict.fromkeys(
    (
        "CUDA_LAUNCH_BLOCKING",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUBLASLT_WORKSPACE_SIZE",
        "CUDNN_CONV_WSCAP_DBG",
        "CUDNN_ERRATA_JSON_FILE",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
        "TORCH_CUDNN_V8_API_DISABLED",
        "TORCH_CUDNN_V8_API_DEBUG",
        "TORCH_NCCL_HIGH_PRIORITY",
        "TORCH_NCCL_NAN_CHECK",
        "TORCH_NCCL_NONBLOCKING_TIMEOUT",
        "TORCH_NCCL_RETHROW_CUDA_ERRORS",
        "TORCH_NCCL_USE_COMM_NONBLOCKING",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    )
)


def unsupport_env_check() -> None:
    """Warn about each that is set."""
    for name in mlu_env_map:
        if name in os.environ:
            warnings.warn(f"gpu_migration: the environment variable {name} is not supported on MLU.", stacklevel=2)
