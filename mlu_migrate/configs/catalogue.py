"""
The pages of the rules that look at files other than Python. ``explain`` lists them beside ``rule.all_rules()``.

A page is a class whose docstring has the form of a rule's page (see ``rule.py``); the work is done in
:mod:`mlu_migrate.configs.checks`, because one word is judged alike in a shell script and in a YAML file.
"""

from __future__ import annotations

from typing import ClassVar

from mlu_migrate.model import Safety, Severity


class Page:
    """What a catalogue needs to know about a code; the docstring is the manual."""

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = Severity.WARNING
    safety: ClassVar[Safety] = Safety.SAFE
    topics: ClassVar[tuple[str, ...]] = ("environment",)


class EnvironmentVariable(Page):
    """
    Environment variables in launch scripts and configuration files.

    ## What it changes
    A variable that torch_mlu reads under another name is renamed where it is set, passed on or read:
    `CUDA_VISIBLE_DEVICES`, `PYTORCH_CUDA_ALLOC_CONF`, `TORCH_NCCL_*` with a `TORCH_CNCL_*` twin. One without a
    counterpart is reported with what to do instead.

    ## Before
        CUDA_VISIBLE_DEVICES=0,1 python train.py

    ## After
        MLU_VISIBLE_DEVICES=0,1 python train.py

    ## Left alone
    Comments, echoed text, longer names that only contain a known one, and a file that sets the MLU name already.
    Variables whose value must change too (`CUDA_HOME`, `TORCH_CUDA_ARCH_LIST`, allocator options that torch_mlu
    refuses) are reported, not renamed.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/__init__.py:337 and torch_mlu/utils/gpu_migration/env_migration.py;
    one source a row in tables/environment.toml.
    """

    code = "MLU601"
    name = "environment-variable"


class DeviceValue(Page):
    """
    Device values in command lines and configuration files.

    ## What it changes
    `cuda` and `cuda:N` given to an option, key or variable whose name says device become `mlu` and `mlu:N`. Under a
    name that does not say so the change is offered as unsafe. Python in a command line (`python -c`, a here document)
    goes through the rules for Python; where a change could not stand there, the place is reported.

    ## Before
        python train.py --device cuda:0

    ## After
        python train.py --device mlu:0

    ## Left alone
    Option names (`--no-cuda`), flags (`cuda: true`), words in sentences, file names. `accelerator: gpu` is a word of
    the trainer library and is reported only.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:60-71 (the device type is called `mlu`).
    """

    code = "MLU602"
    name = "device-value"
    topics = ("devices",)


class BackendValue(Page):
    """
    The NCCL back end named in command lines and configuration files.

    ## What it changes
    `nccl` given to an option or key whose name says backend becomes `cncl`, also in `cpu:gloo,cuda:nccl`.

    ## Before
        torchrun --nproc_per_node 4 train.py --dist-backend nccl

    ## After
        torchrun --nproc_per_node 4 train.py --dist-backend cncl

    ## Left alone
    Package names (`libnccl2`), variables (`NCCL_DEBUG`, see MLU601) and words in sentences.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/cncl.py:93-133 (registers the back end `cncl`).
    """

    code = "MLU603"
    name = "backend-value"
    topics = ("distributed",)


class Container(Page):
    """
    Containers, clusters and schedulers that ask for NVIDIA cards.

    ## What it changes
    Nothing by itself. It reports `--gpus`, `--runtime=nvidia`, `--nv`, CUDA base images and scheduler requests for
    GPUs. For Kubernetes it offers the resource name of Cambricon's device plugin, and for accelerate configurations
    `MULTI_MLU`, as unsafe edits.

    ## Before
        docker run --gpus all --rm trainer

    ## Finding
        MLU604 the option hands NVIDIA cards to the container

    ## Left alone
    Images without CUDA in name or tag.

    ## Source
    GitHub Cambricon/cambricon-k8s-device-plugin, device-plugin/README.md; huggingface/accelerate,
    src/accelerate/utils/dataclasses.py (DistributedType).
    """

    code = "MLU604"
    name = "container"
    severity = Severity.ERROR
    safety = Safety.UNSAFE


class CudaPackage(Page):
    """
    Packages and wheels that exist for CUDA only.

    ## What it changes
    Nothing by itself. Each requirement on an NVIDIA library, a CUDA-only package or a CUDA build of torch is
    reported with what to install instead. With `--configs write --unsafe` a line that asks for NVIDIA's own
    libraries is commented out, and a CUDA tag of torch becomes the CPU tag (torch_mlu 2.4).

    ## Before
        flash-attn==2.5.8

    ## Finding
        MLU605 CUDA-only package

    ## Left alone
    Projects whose name only contains a known one, and packages that run on any device.

    ## Source
    One source a row in tables/packages.toml; torch_mlu r2.4_develop, README.md:47 (2.4 uses the CPU wheel of torch).
    """

    code = "MLU605"
    name = "package-requirement"
    severity = Severity.WARNING
    safety = Safety.UNSAFE


class NvidiaTool(Page):
    """
    NVIDIA's command line tools and the CUDA toolkit.

    ## What it changes
    Nothing: a tool's output and options differ, so the call has to be rewritten by hand. It reports `nvidia-smi`,
    `nvcc`, `nvprof`, `nsys`, CUDA languages and packages in CMake, `module load cuda`, and paths into the toolkit.

    ## Before
        nvidia-smi --query-gpu=name --format=csv

    ## Finding
        MLU606 nvidia-smi does not exist on an MLU machine

    ## Left alone
    The words in comments, messages and documentation text.

    ## Source
    torch_mlu r2.4_develop, test/common_utils.py:136 (cnmon), torch_mlu/utils/cpp_extension.py:86-107 (cncc),
    test/profiler/test_profiler_cnperf.py (cnperf-cli).
    """

    code = "MLU606"
    name = "nvidia-command"
    safety = Safety.MANUAL


class NotebookCell(Page):
    """
    Notebook cells that could not be read as Python.

    ## What it changes
    Nothing. The other cells of the notebook are migrated; this one is left as it is.

    ## Before
        model = Net(

    ## Finding
        MLU607 cell is not valid Python

    ## Left alone
    Cells in other languages (`%%html`, `%%R`) and line magics.

    ## Source
    The notebook format, version 4: https://nbformat.readthedocs.io
    """

    code = "MLU607"
    name = "notebook-cell"
    safety = Safety.MANUAL
    topics = ("environment", "notebooks")


_PAGES: tuple[type[Page], ...] = (
    EnvironmentVariable,
    DeviceValue,
    BackendValue,
    Container,
    CudaPackage,
    NvidiaTool,
    NotebookCell,
)


def pages() -> tuple[type[Page], ...]:
    """All pages in code order."""
    return _PAGES


def page(code: str) -> type[Page]:
    """The page of one code. Raises KeyError for a code that is not ours."""
    return _BY_CODE[code]


_BY_CODE = {entry.code: entry for entry in _PAGES}
