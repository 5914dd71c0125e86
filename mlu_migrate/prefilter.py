"""
The cheap first question: does a file mention anything a rule could act on? Bytes only, before any parse.

Plain containment of a few dozen words is several times faster here than one alternation, which looks at every byte.
"""

from __future__ import annotations

import re

# Words of CUDA itself: what can be rewritten.
_NAMES = tuple(
    b"cuda CUDA Cuda nccl NCCL nvtx cudnn CUDNN autocast GradScaler fork_rng init_process_group torch_mlu torch.mlu "
    b"ProfilerActivity DeviceType VISIBLE_DEVICES map_location torch.load DataParallel data_parallel( "
    b"mlu: mlu-migrate:".split()
)
# Words of the advice rules.
_ADVICE = tuple(
    b"apex nvidia NVIDIA pynvml GPUtil flash_attn xformers bitsandbytes triton cupy pycuda tensorrt transformer_engine "
    b"auto_gptq cpp_extension load_inline get_device_capability cublas CUBLAS float64 complex128 .double( "
    b"accelerator= .accelerator accelerator\" accelerator' torch.accelerator "
    b"attn_implementation load_in_ 8bit nvcc nsys nvprof accelerate deepspeed "
    b"awq causal_conv1d cudf cugraph cuml dskernels flashinfer nvitop mamba_ssm py3nvml sgl_kernel dlpack torch.jit "
    b"numba sparse=True deep_gemm deep_ep flash_mla flash_attention_ exllama fast_hadamard nvdiffrast diff_gaussian "
    b"diff_surfel simple_knn torchsparse gsplat gptqmodel cutlass gpus= _xformers faiss. _requires EmbeddingBag "
    b"antialias CUPTI NVSHMEM NVCC CUSOLVER MemPool _cufft ReduceOp. cusparse amp_C collect_env _comm_hook "
    b"ProfilerState batch_isend_irecv max_unpool rebuild_event _get_available_device_type get_testing_overrides "
    b"supported_activities divisor_override scatter_ return_indices os.fork gpu_ _gpu decord cpu_offload easyocr "
    b"sentence_transformers whisper.load_model clip.load stable_baselines3 +cu vllm isaac kaolin "
    b"Minkowski PyNv collective_group detectron2.config faster_whisper ctranslate2 utils.ffi".split()
) + (b"import warp", b"import accelerator")
_ORDINAL = re.compile(
    rb"\.to\(\s*(?:device=)?(?:\d|int\(|[\w.]*(?:rank|gpu)\w*\s*[,)])|device\((?:\d|\w*rank\))|device=\d|\bsm_\d\d"
)

# What an f-string must mention for its inside to be worth a second parse (strings.py).
WORDS = re.compile(rb"cuda|CUDA|nccl|nvtx|cudnn|autocast|torch\.|\bth\.")


def mentions(source: bytes) -> bool:
    """Whether the file could hold anything a rule acts on or has advice about."""
    return (
        any(word in source for word in _NAMES)
        or any(word in source for word in _ADVICE)
        or (b"device" in source or b".to(" in source or b"sm_" in source)
        and _ORDINAL.search(source) is not None
    )
