"""``python -m torch_mlu.utils.collect_env``: what to paste into a bug report."""

from __future__ import annotations

import os
import re
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from torch.utils import collect_env as theirs

try:
    import torch

    import torch_mlu

    TORCH_MLU_AVAILABLE = True
except (ImportError, NameError, AttributeError, OSError):
    TORCH_MLU_AVAILABLE = False

MISSING = "Could not collect"
LIBRARIES = ("cnrt", "cnnl", "cncl", "mluops", "cnpapi")

SystemEnv = namedtuple(
    "SystemEnv",
    [
        "torch_version",
        "torch_mlu_version",
        "is_debug_build",
        "gcc_version",
        "clang_version",
        "cmake_version",
        "os",
        "libc_version",
        "python_version",
        "python_platform",
        "is_mlu_available",
        "mlu_driver_version",
        "mlu_models",
        "mlu_lib_versions",
        "cndali_version",
        "cncv_version",
        "pip_version",
        "pip_packages",
        "conda_packages",
        "caching_allocator_config",
        "cpu_info",
    ],
)

env_info_fmt = """
PyTorch version: {torch_version}
Torch-MLU version: {torch_mlu_version}
Is debug build: {is_debug_build}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is MLU available: {is_mlu_available}
MLU driver version: {mlu_driver_version}
MLU models and configuration: {mlu_models}
Versions of MLU libraries:
{mlu_lib_versions}
CNDALI version: {cndali_version}
CNCV version: {cncv_version}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
""".strip()


def get_cachingallocator_config() -> str:
    """The settings the allocator reads, or N/A."""
    return os.environ.get("PYTORCH_MLU_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or "N/A"


def get_mlu_driver_version(run_lambda: Callable[..., Any]) -> str | None:
    """The driver's version, asked of ``cnmon``; None where it is not installed."""
    return theirs.run_and_parse_first_match(run_lambda, "cnmon", r"v(\d+\.\d+\.\d+)")


def get_mlu_lib_runtime_version(run_lambda: Callable[..., Any], mlu_lib_name: str) -> str | None:
    """The version in the file name of one of the toolkit's libraries; None where it is not found."""
    from torch_mlu.utils.cpp_extension import _join_neuware_home

    try:
        folder = _join_neuware_home("lib64")
    except OSError:
        return None
    listing = theirs.run_and_read_all(run_lambda, f"ls {folder}") or ""
    found = re.search(rf"lib{re.escape(mlu_lib_name)}\.so\.(\d+\.\d+\.\d+)", listing)
    return found.group(1) if found else None


def _module_version(run_lambda: Callable[..., Any], name: str) -> str | None:
    return theirs.run_and_parse_first_match(run_lambda, f"pip show {name}", r"Version: (.*)")


def get_cndali_runtime_version(run_lambda: Callable[..., Any]) -> str | None:
    return _module_version(run_lambda, "cambricon-dali")


def get_cncv_runtime_version(run_lambda: Callable[..., Any]) -> str | None:
    return get_mlu_lib_runtime_version(run_lambda, "cncv")


def _models() -> str:
    return "\n".join(f"MLU {index}: {torch.mlu.get_device_name(index)}" for index in range(torch.mlu.device_count()))


def get_env_info() -> Any:
    """Everything, as a ``SystemEnv``."""
    run = theirs.run
    pip_version, pip_packages = theirs.get_pip_packages(run)
    libraries = {name: get_mlu_lib_runtime_version(run, name) for name in LIBRARIES}
    known = torch.mlu.is_available()
    return SystemEnv(
        torch_version=torch.__version__,
        torch_mlu_version=torch_mlu.__version__,
        is_debug_build=str(torch.version.debug),
        gcc_version=theirs.get_gcc_version(run),
        clang_version=theirs.get_clang_version(run),
        cmake_version=theirs.get_cmake_version(run),
        os=theirs.get_os(run),
        libc_version=theirs.get_libc_version(),
        python_version=theirs.sys.version.replace("\n", " "),
        python_platform=theirs.get_python_platform(),
        is_mlu_available=str(known),
        mlu_driver_version=get_mlu_driver_version(run),
        mlu_models=_models() if known else None,
        mlu_lib_versions="\n".join(f"{name}: {version or MISSING}" for name, version in libraries.items()),
        cndali_version=get_cndali_runtime_version(run),
        cncv_version=get_cncv_runtime_version(run),
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=theirs.get_conda_packages(run),
        caching_allocator_config=get_cachingallocator_config(),
        cpu_info=theirs.get_cpu_info(run),
    )


def pretty_str(envinfo: Any) -> str:
    """``envinfo`` as text; what is not known says so."""
    return env_info_fmt.format(**{key: MISSING if value is None else value for key, value in envinfo._asdict().items()})


def get_pretty_env_info() -> str:
    return pretty_str(get_env_info())


def main() -> None:
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
