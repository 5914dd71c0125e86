"""The cheap first question: does a file mention anything a rule could act on? Bytes only, before any parse."""

from __future__ import annotations

import re

# One alternation, case-sensitive where the case carries meaning. `nvidia`, `cu118` and friends serve the advice rules.
WORDS = re.compile(
    rb"cuda|CUDA|Cuda|nccl|NCCL|nvtx|cudnn|CUDNN|cublas|CUBLAS|autocast|GradScaler|fork_rng|init_process_group"
    rb"|torch_mlu|torch\.mlu|apex|nvidia|NVIDIA|pynvml|GPUtil|DataParallel|ProfilerActivity|map_location|torch\.load"
    rb"|flash_attn|xformers|bitsandbytes|triton|cupy|pycuda|tensorrt|numba|transformer_engine|auto_gptq|cpp_extension"
    rb"|get_device_capability|pin_memory|is_autocast|accelerator|float64|complex|\.double\(|DeviceType|mlu: |mlu-migrate:"
    rb"|gpu|GPU|\bhpu\b|\bnpu\b|load_inline|\.to\(\d|device\(\d|VISIBLE_DEVICES|attn_implementation|load_in_|8bit|nvcc|nsys|nvprof|accelerate|deepspeed"
    rb"|\bawq\b|causal_conv1d|cudf|cugraph|cuml|dskernels|flashinfer|nvitop|mamba_ssm|py3nvml|sgl_kernel|\bwarp\b|dlpack|torch\.jit"
    rb"|install_requires|extras_require|sparse=True|EmbeddingBag|antialias|divisor_override|scatter_|return_indices|os\.fork|sm_\d\d"
)


def mentions(source: bytes) -> bool:
    """Whether the file could hold anything a rule acts on or has advice about."""
    return WORDS.search(source) is not None
