"""
Where a text becomes a device or a process-group backend: calls, keywords and names, and where it surely does not.

Parameter positions are those of PyTorch 2.1 to 2.13 (https://pytorch.org/docs/stable/).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# canonical callee -> (position, keyword) of its device parameter
DEVICE_CALLS: dict[str, tuple[int | None, str]] = {
    "torch.device": (0, "type"),
    "torch.autocast": (0, "device_type"),
    "torch.amp.autocast": (0, "device_type"),
    "torch.amp.autocast_mode.autocast": (0, "device_type"),
    "torch.amp.GradScaler": (0, "device"),
    "torch.amp.grad_scaler.GradScaler": (0, "device"),
    "torch.GradScaler": (0, "device"),
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": (0, "device"),
    "torch.amp.custom_fwd": (None, "device_type"),
    "torch.amp.custom_bwd": (None, "device_type"),
    "torch.amp.is_autocast_available": (0, "device_type"),
    "torch.amp.autocast_mode.is_autocast_available": (0, "device_type"),
    "torch.set_default_device": (0, "device"),
    "torch.get_autocast_dtype": (0, "device_type"),
    "torch.is_autocast_enabled": (0, "device_type"),
    "torch.set_autocast_dtype": (0, "device_type"),
    "torch.set_autocast_enabled": (0, "device_type"),
    "torch.get_device_module": (0, "device"),
    "torch.Generator": (0, "device"),
    "torch.Stream": (0, "device"),
    "torch.Event": (0, "device"),
    "torch.random.fork_rng": (4, "device_type"),
    "torch.distributed.init_device_mesh": (0, "device_type"),
    "torch.distributed.device_mesh.init_device_mesh": (0, "device_type"),
    "torch.distributed.DeviceMesh": (0, "device_type"),
    "torch.distributed.device_mesh.DeviceMesh": (0, "device_type"),
    "torch.distributed.tensor.DeviceMesh": (0, "device_type"),
    "torch.distributed._tensor.DeviceMesh": (0, "device_type"),
    "torch.load": (1, "map_location"),
    "torch.jit.load": (1, "map_location"),
    "torch.serialization.default_restore_location": (1, "location"),
    "torch.hub.load_state_dict_from_url": (2, "map_location"),
    "torch.utils.model_zoo.load_url": (2, "map_location"),
    "safetensors.torch.load_file": (1, "device"),
    "safetensors.safe_open": (2, "device"),
    "safetensors.torch.load_model": (3, "device"),
    "torch.utils.data.DataLoader": (None, "pin_memory_device"),
    "torch.accelerator.set_device_index": (0, "device"),
    "torch.accelerator.synchronize": (0, "device"),
    "sentence_transformers.SentenceTransformer": (2, "device"),
    "accelerate.cpu_offload": (1, "execution_device"),
    "accelerate.cpu_offload_with_hook": (1, "execution_device"),
    "accelerate.disk_offload": (2, "execution_device"),
}
# methods whose first positional argument is a device, whatever the receiver
DEVICE_METHODS = frozenset(("to", "cuda", "mlu", "to_device", "set_device", "to_empty", "pin_memory", "move_to_device"))

BACKEND_CALLS: dict[str, tuple[int | None, str]] = {
    "torch.distributed.init_process_group": (0, "backend"),
    "torch.distributed.distributed_c10d.init_process_group": (0, "backend"),
    "torch.distributed.new_group": (2, "backend"),
    "torch.distributed.new_subgroups": (3, "backend"),
    "torch.distributed.new_subgroups_by_enumeration": (2, "backend"),
    "torch.distributed.split_group": (None, "backend"),
    "torch.distributed.Backend": (0, "name"),
    "torch.distributed.is_backend_available": (0, "backend"),
    "deepspeed.init_distributed": (0, "dist_backend"),
}
BACKEND_READERS = frozenset(
    (
        "torch.distributed.get_backend",
        "torch.distributed.distributed_c10d.get_backend",
        "torch.distributed.get_backend_config",
    )
)

# Calls whose text arguments are for people or for the file system.
PROSE = frozenset(
    (
        "print",
        "warn",
        "warning",
        "info",
        "debug",
        "error",
        "exception",
        "critical",
        "log",
        "write",
        "log_once",
        "getLogger",
        "set_description",
        "fail",
        "skip",
        "echo",
        "rank_zero_info",
        "rank_zero_warn",
        "secho",
        "Exception",
    )
)
PATHS = frozenset(
    (
        "os.path.join",
        "os.path.exists",
        "os.listdir",
        "pathlib.Path",
        "glob.glob",
        "open",
        "os.makedirs",
        "os.path.isdir",
        "os.path.isfile",
        "shutil.which",
        "pathlib.PurePath",
        "joinpath",
        "ctypes.CDLL",
        "find_library",
    )
)

# Other libraries with a device vocabulary of their own and no MLU back end.
FOREIGN = frozenset(
    "numba cupy pycuda tensorflow tf keras paddle mxnet jax jaxlib cv2 onnxruntime tensorrt xgboost lightgbm catboost "
    "faiss "
    "cuml cudf rmm pynvml cuda theano caffe caffe2 chainer dali nvidia warp taichi triton tvm spacy thinc ctranslate2 "
    "faster_whisper vllm sglang horovod openmm llama_cpp dgl mlx cugraph isaacgym isaacgymenvs isaaclab".split()
)

OTHER_DEVICES = frozenset("cpu mps xpu npu hpu xla meta musa ipu cpu:0 privateuseone".split())

_DEVICE_NAME = re.compile(
    r"(^|_)(device|dev|devices|devs|device_?type|device_?name|device_?str|device_?string|map_?location|device_?map|accelerator_type"
    r"|device_?id|gpu_?device|target_?device|torch_?device|default_?device|device_?s)(_|$)|[dD]evice(Type|Name|Str)?$|^d$",
)
_NOT_DEVICE_NAME = re.compile(
    r"device_(count|num|kind|class|props|ids|list_file|path|file|dir)|(num|n|per)_devices?$|_dev_set|dev_(set|data|file|split|loader|path|dir)"
)
_BACKEND_NAME = re.compile(
    r"(^|_)(dist|distributed|ddp|pg|process_group|comm|communication|collective)?_?backend(s)?$|^nccl|_nccl$|[bB]ackend$"
)
_OTHER_NAME = re.compile(
    r"impl|backend|(^|_)(command|subcommand|cmd|action|mode|method|engine|format|ext|suffix|lib|kernel|precision|variant|tag|folder|dir|path|file"
    r"|filename|url|extension|provider|interaction|package|image|label|title|toolkit|lang|language|module|flavor|platform_tag)s?(_|$)"
)
# d alone says device only beside other evidence
_TOO_SHORT = frozenset(("d", "dev"))


@dataclass(frozen=True, slots=True)
class Kind:
    """One vocabulary: which texts, which calls, which names."""

    name: str  # "device" | "backend"
    text: re.Pattern[str]
    calls: dict[str, tuple[int | None, str]]
    old: str
    new: str
    siblings: frozenset[str]


DEVICE = Kind(
    "device",
    re.compile(r"cuda(:(\d+|%(\(\w+\))?[dis]|\{[^{}]*\})?)?"),
    DEVICE_CALLS,
    "cuda",
    "mlu",
    OTHER_DEVICES,
)
BACKEND = Kind(
    "backend",
    re.compile(r"nccl|NCCL|cpu:gloo,cuda:nccl|cuda:nccl,cpu:gloo|cuda:nccl"),
    BACKEND_CALLS,
    "nccl",
    "cncl",
    frozenset(("gloo", "mpi", "ucc", "hccl", "xccl", "ccl")),
)


def says(kind: Kind, name: str) -> bool:
    """Whether a variable, key, parameter or option name says that its value is a device (or a backend)."""
    name = name.lstrip("-").replace("-", "_")
    if kind.name == "backend":
        return _BACKEND_NAME.search(name.lower()) is not None and not says_other(kind, name)
    if _NOT_DEVICE_NAME.search(name.lower()):
        return False
    return _DEVICE_NAME.search(name) is not None or _DEVICE_NAME.search(name.lower()) is not None


def says_other(kind: Kind, name: str) -> bool:
    """Whether a name says that its value is an algorithm, a file or a label rather than a device."""
    lower = name.lstrip("-").replace("-", "_").lower()
    if kind.name == "backend":
        return bool(re.search(r"(^|_)(path|file|dir|url|log|lib)(_|$)", lower))
    return _OTHER_NAME.search(lower) is not None and not says(kind, name)
