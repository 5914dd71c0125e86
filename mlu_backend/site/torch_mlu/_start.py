"""
The start-up order of our torch_mlu, in one place.

1. ``load_mlu``: the C++ device first (``_MLUC`` loads it), since every Python part asks it something; then torch.mlu.
2. ``register``: PrivateUse1 gets its name before methods are generated, because these carry the name; then switches.
3. The patches of ``torch_mlu.apply_patches``, which use the generated methods.
4. ``finish``: what needs all of it, collectives and compilation last.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import torch


def load_mlu() -> None:
    """Load ``mlu_backend/mlu`` as ``torch_mlu.mlu`` and under its second name, ``torch.mlu``."""
    import mlu_backend

    folder = Path(mlu_backend.__file__).with_name("mlu")
    spec = importlib.util.spec_from_file_location(
        "torch_mlu.mlu", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_mlu.mlu"] = module
    sys.modules["torch.mlu"] = module
    # The package and its functions name each other as torch.mlu while it is being loaded.
    torch.mlu = module  # type: ignore[attr-defined]
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["torch_mlu.mlu"], sys.modules["torch.mlu"], torch.mlu
        raise
    sys.modules["torch_mlu"].mlu = module  # type: ignore[attr-defined]


def register(unsupported_dtype: list[torch.dtype]) -> None:
    """Name the device, generate its methods, put the switches in place."""
    from torch_mlu import _MLUC, backends
    from torch_mlu.backends import cnnl, mlu, mlufusion

    if torch._C._get_privateuse1_backend_name() != "mlu":
        torch.utils.rename_privateuse1_backend("mlu")
    if not hasattr(torch.Tensor, "is_mlu"):
        torch.utils.generate_methods_for_privateuse1_backend(
            for_tensor=True,
            for_module=True,
            for_packed_sequence=True,
            for_storage=True,
            unsupported_dtype=unsupported_dtype,
        )
    torch._C._set_cublas_allow_tf32 = mlu.fake_set_cublas_allow_tf32
    torch._C._set_cublas_allow_fp16_reduced_precision_reduction = (
        mlu.fake_set_cublas_allow_fp16_reduced_precision_reduction
    )
    torch.backends.mlu = backends.mlu
    sys.modules["torch.backends.mlu"] = backends.mlu
    torch.backends.cnnl = cnnl.CnnlModule(cnnl, "torch.backends.cnnl")
    torch.backends.mlufusion = mlufusion.MlufusionModule(mlufusion, "torch.backends.mlufusion")
    torch._C._get_cnmatmul_allow_tf32 = _MLUC._get_cnmatmul_allow_tf32
    torch._C._set_cnmatmul_allow_tf32 = _MLUC._set_cnmatmul_allow_tf32
    torch.utils.checkpoint.DefaultDeviceType.set_device_type("mlu")
    torch.version.mlu = None  # type: ignore[attr-defined]
    methods = torch.nn.parameter.UninitializedTensorMixin._allowed_methods
    if torch.Tensor.mlu not in methods:
        methods.append(torch.Tensor.mlu)


def finish() -> None:
    """Collectives, compilation and the record of operators, each a module of mlu_backend's own."""
    import torch.distributed as dist

    from mlu_backend import support

    if dist.is_available():
        from mlu_backend import distributed

        distributed.register()
        _offer_cncl(dist)
    _offer_compilation()
    support.start_if_asked()


def _offer_cncl(dist: object) -> None:
    """torch_mlu/mlu/cncl.py:31, 93-133."""
    from torch_mlu.mlu import cncl

    # ProcessGroupCNCL is not set here: distributed.register() answers for it when it is asked for.
    dist.is_cncl_available = cncl.is_cncl_available  # type: ignore[attr-defined]
    dist.batch_isend_irecv = cncl.batch_isend_irecv  # type: ignore[attr-defined]
    dist.ProcessGroup._set_sequence_number_for_group = cncl._set_sequence_number_for_group  # type: ignore[attr-defined]
    dist.ProcessGroup._get_sequence_number_for_group = cncl._get_sequence_number_for_group  # type: ignore[attr-defined]


def _offer_compilation() -> None:
    try:
        from mlu_backend import compile as compilation
    except ImportError as error:
        warnings.warn(f"torch.compile is not available on mlu: {error}", stacklevel=2)
        return
    compilation.register()
