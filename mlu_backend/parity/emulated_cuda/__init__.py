"""
The default reference: the original GPU program, unchanged, on the emulated device.

Only devices are mapped, at run time and by meaning: a function mode sees every call into torch, turns ``cuda`` devices
among its arguments into the emulated one, and turns devices among its results back, so the program goes on believing
in ``cuda:0``. ``torch.cuda`` answers from ``torch.mlu``. Nothing here shares a table or a rule with the rewriter: it
is a second reading of the code, and where the two readings disagree, one of them is wrong.

The emulated GPU calls itself compute capability 8.0, CUDA 12.4 and NCCL 2.21.5, so that gates in the program open as
they do on the machines such programs are written for.

    devices       both spellings of a device, and who may see which
    mode          the function mode, also in threads and in backward passes
    functions     functions of torch that modes do not see
    generators    random generators
    namespace     torch.cuda
    distributed   nccl, process groups, meshes
    data_parallel copies between GPUs in one process
    storages      tags in saved files
"""

from __future__ import annotations

import os

from mlu_backend.parity.emulated_cuda import (
    data_parallel,
    devices,
    distributed,
    functions,
    generators,
    mode,
    namespace,
    storages,
)
from mlu_backend.parity.emulated_cuda.devices import Sinks, to_cuda, to_device
from mlu_backend.parity.naming import Sites
from mlu_backend.parity.options import Options

__all__ = ["install", "to_cuda", "to_device"]


def install(options: Options, sites: Sites) -> None:
    """
    Put the emulated device behind ``cuda`` in this process and its threads. Call once, right after torch was
    imported.
    """
    import torch_mlu

    os.makedirs(options.out, exist_ok=True)
    devices.remember_in(Sinks(options.out, sites))
    mapping = mode.CudaMode()
    functions.install()
    namespace.install()
    generators.install()  # after the namespace, which knows default_generators as a tuple
    distributed.install()
    data_parallel.install()
    storages.install()
    mapping.__enter__()
    mode.keep_in_backward(mapping)
    mode.keep_in_threads(mapping)
