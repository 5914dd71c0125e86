"""
The words that mean CUDA outside Python: environment names, device values, back ends, packages, images, tools.

Environment names and packages are read from ``tables/environment.toml`` and ``tables/packages.toml``, which name the
evidence of every row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlu_migrate import tomlfile

_TABLES = Path(__file__).parent.parent / "tables"

DEVICE = re.compile(r"cuda(?::(?:\d+|\$\{?\w+\}?|\{\w*\}))?")
_OTHER_DEVICE = r"(?:cpu|mps|xpu|npu|hpu|mlu|meta|auto)(?::\d+)?"
DEVICE_LIST = re.compile(
    rf"(?:{_OTHER_DEVICE}\s*,\s*)*{DEVICE.pattern}(?:\s*,\s*(?:{DEVICE.pattern}|{_OTHER_DEVICE}))*"
)
BACKEND = re.compile(r"(?:\w+:\w+,)*(?:cuda:)?nccl(?:,\w+:\w+)*|NCCL")
TRAINER_GPU = frozenset({"gpu", "cuda"})

# Keys of torch's caching allocator that torch_mlu understands; any other key makes it raise
# (torch_mlu r2.4_develop, torch_mlu/csrc/framework/core/caching_allocator_config.cpp:190-262).
ALLOCATOR_KEYS = frozenset(
    {
        "max_split_size_mb",
        "garbage_collection_threshold",
        "roundup_power2_divisions",
        "expandable_segments",
        "release_lock_on_cnrtmalloc",
        "use_linear_memory",
    }
)

# NVIDIA's command line tools and what does the job on an MLU machine. None where nothing is known to.
TOOLS: dict[str, str | None] = {
    "nvidia-smi": "cnmon",
    "nvtop": "cnmon",
    "nvitop": "cnmon",
    "gpustat": "cnmon",
    "dcgmi": "cnmon",
    "nvcc": "cncc",
    "nvprof": "cnperf-cli",
    "nsys": "cnperf-cli",
    "ncu": "cnperf-cli",
    "nsight-sys": "cnperf-cli",
    "cuda-memcheck": None,
    "compute-sanitizer": None,
    "cuda-gdb": None,
    "nvidia-cuda-mps-control": None,
    "nvidia-persistenced": None,
    "nvidia-modprobe": None,
    "nvidia-settings": None,
    "trtexec": None,
    "tritonserver": None,
}

IMAGE = re.compile(
    r"(?:docker://)?(?:[\w.-]+(?::\d+)?/)*"
    r"(?:nvidia/cuda(?::[\w.-]+)?|nvcr\.io/[\w./-]+(?::[\w.-]+)?|[\w./-]+:[\w.-]*(?:cuda|cu1[0-9]{1,2})[\w.-]*)",
    re.IGNORECASE,
)
WHEEL_TAG = re.compile(r"(?<![A-Za-z0-9])cu(?:9[0-2]|1[0-9]{2})(?![0-9A-Za-z])")
TOOLKIT_PATH = re.compile(r"/(?:usr/local|opt)/cuda(?:-[\d.]+)?(?=[/:\"'\s]|$)")
EMBEDDED_PYTHON = re.compile(r"torch\.cuda\b|\.cuda\(|[\"']cuda(?::\d+)?[\"']")


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """One environment variable of a CUDA program. ``mlu`` is None when torch_mlu has no counterpart."""

    name: str
    mlu: str | None
    status: str
    releases: tuple[str, ...]
    still_read: tuple[str, ...]
    value: str
    severity: str
    note: str
    advice: str
    advice_zh: str


@dataclass(frozen=True, slots=True)
class PackageRow:
    """One package, or a family of packages when ``name`` ends in ``*``."""

    name: str
    kind: str
    instead: str
    instead_zh: str
    modules: tuple[str, ...]

    def covers(self, name: str) -> bool:
        """Whether a normalised project name is meant by this row."""
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name


@cache
def environment() -> dict[str, EnvironmentRow]:
    """All rows by CUDA name."""
    rows = tomlfile.read(_TABLES / "environment.toml")["environment"]
    return {
        row["name"]: EnvironmentRow(
            name=row["name"],
            mlu=row.get("mlu"),
            status=row["status"],
            releases=tuple(row.get("releases", ())),
            still_read=tuple(row.get("still_read", ())),
            value=row.get("value", ""),
            severity=row["severity"],
            note=row.get("note", ""),
            advice=row.get("advice", ""),
            advice_zh=row.get("advice_zh", ""),
        )
        for row in rows
    }


@cache
def environment_name() -> re.Pattern[str]:
    """Any known name as a whole word: ``RAY_CUDA_VISIBLE_DEVICES`` is another word."""
    names = sorted(environment(), key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(names)})(?![A-Za-z0-9_])")


@cache
def packages() -> tuple[PackageRow, ...]:
    """Exact names first, then longer prefixes before shorter ones."""
    rows = [
        PackageRow(row["name"], row["kind"], row["instead"], row["instead_zh"], tuple(row.get("modules", ())))
        for row in tomlfile.read(_TABLES / "packages.toml")["package"]
    ]
    return tuple(sorted(rows, key=lambda row: (row.name.endswith("*"), -len(row.name))))


def package(name: str) -> PackageRow | None:
    """The row for a project name as anyone may spell it (PEP 503: case, ``_`` and ``.`` do not count)."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    return next((row for row in packages() if row.covers(normal)), None)


def key_words(key: str) -> tuple[str, ...]:
    """The words of an option, key or variable name in lower case: ``--mapLocation`` and ``map_location`` are one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key)
    return tuple(word for word in re.split(r"[^A-Za-z0-9]+", spaced.lower()) if word)


def names_device(key: str) -> bool:
    """Whether a key's meaning is a device: ``device``, ``map_location``, ``TRAIN_DEVICE``, ``device-type``."""
    words = key_words(key)
    return "device" in words or "devices" in words or words[-2:] == ("map", "location")


def names_backend(key: str) -> bool:
    """Whether a key's meaning is a communication back end: ``backend``, ``dist-backend``, ``ddp_backend``."""
    return "backend" in key_words(key)


# Frameworks that read the CUDA names themselves. A file that speaks of one and not of torch is left to it.
FRAMEWORK = re.compile(r"(?i)(?<![a-z])(?:tensorflow|paddle(?:paddle)?|mxnet|keras|mindspore|tritonserver)(?![a-z])")
BOOSTING = re.compile(r"(?i)(?<![a-z])(?:xgb|xgboost|lightgbm|lgbm|catboost)")

# What stands for a CUDA device in a shell pattern or a regular expression: ``cuda*``, ``cuda:?``, ``^cuda``.
DEVICE_PATTERN = re.compile(r"\^?(?P<device>cuda)(?:[:*?\[+(\\][^\s]*)?\$?")
# An address of wheels or of a package index, as it stands in a configuration.
WHEELS = re.compile(r"https?://[^\s\"']*(?:/whl/|wheel|/simple|pypi\.nvidia|pypi\.ngc)[^\s\"']*")
FLASH_ATTENTION = re.compile(
    r"(?:kernels-community/)?flash[-_]?attn(?:ention)?(?:[-_]?[23])?|flash_attention(?:_[23])?"
)
EXTRA = re.compile(r"(?i)(?:and-|with-)?cuda(?:[\d._-]*|\d+-local)|cu1\d{1,2}|gpu|nvidia")

# Keys whose values are names people read or look things up by: "cuda" there is a word, whatever the program does.
_NAMING = frozenset(
    "name title label labels tag tags topic topics keyword keywords classifiers description category theme author "
    "branch branches extra extras feature features id group groups folder path dir directory file filename prefix "
    "suffix stage needs channel channels dependencies packages only except exclude include on runner host url".split()
)


def names_thing(key: str) -> bool:
    """Whether a key's values are names or labels: ``title``, ``tags``, ``runs-on``, ``output_dir``."""
    words = key_words(key)
    return bool(words) and words[-1] in _NAMING and not names_device(key) and not names_backend(key)


def is_device(value: str) -> bool:
    """Whether a value is a CUDA device or a comma list of them, and nothing else."""
    return DEVICE_LIST.fullmatch(value) is not None


def is_backend(value: str) -> bool:
    """Whether a value names NCCL, alone or in torch's ``cpu:gloo,cuda:nccl`` form."""
    return BACKEND.fullmatch(value) is not None


@cache
def trigger() -> re.Pattern[bytes]:
    """What a file must contain for any check to have something to say. Cheap, so that other files are not parsed."""
    heads = {re.escape(row.name.rstrip("*")).replace(r"\-", "[-_.]") for row in packages() if row.kind != "nvidia"}
    words = r"cuda|nccl|nvidia|nvcr|nvcc|nvprof|nvtop|nvitop|nsys|\bncu\b|cublas|cudnn|cupti|nvshmem|gpus?\b|--nv\b"
    tools = r"flash_|dcgmi|compute-sanitizer|trtexec|tritonserver|nsight|cu1[0-9]{2}|multi_gpu"
    return re.compile(rf"(?i){words}|{tools}|{'|'.join(sorted(heads))}".encode())
