"""
The ``torch_mlu`` that migrated code imports, backed by an emulated card.

A torch_mlu installed elsewhere on the path always wins: this package finds it, loads it in its own place and is gone.
Else it starts the device and sets up torch as the real one does; the order is that of ``torch_mlu/__init__.py``.
"""

from __future__ import annotations

from torch_mlu._elsewhere import find_real, hand_over

_real = find_real()

if _real is not None:
    hand_over(_real)
else:
    import torch

    from torch_mlu import _MLUC, _ops, _start

    _start.load_mlu()

    from torch_mlu import backends, data, distributed, mlu, nn, optimizers, profiler, utils
    from torch_mlu.backends.cnnl import CnnlModule
    from torch_mlu.backends.mlufusion import MlufusionModule
    from torch_mlu.data import apply_dataloader_patch
    from torch_mlu.distributed import apply_distributed_patch
    from torch_mlu.mlu.reductions import apply_reductions_patch
    from torch_mlu.mlu.storage import apply_storage_patch
    from torch_mlu.nn import apply_functional_patch
    from torch_mlu.optimizers import apply_optim_patch
    from torch_mlu.utils import apply_ddp_patch, apply_torch_overrides_patch
    from torch_mlu.utils.counter import _check_gencase

    def get_version() -> str:
        """``1.25.0+torch2.4.1``-like: the followed torch_mlu release and the torch it runs on here."""
        return _MLUC._get_version()

    def get_git_version() -> str:
        """The commit of torch_mlu this surface follows."""
        return _MLUC._git_version()

    __version__ = get_version()

    unsupported_dtype = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]

    def _check_register_once(module: object, attr: str) -> None:
        """RuntimeError when ``module`` has ``attr`` already."""
        if hasattr(module, attr):
            raise RuntimeError(f"The custom device module of {module} has already been registered with {attr}")

    def apply_patches() -> None:
        """Replace what torch has to do differently for this device, once a process."""
        apply_storage_patch()
        apply_reductions_patch()
        apply_dataloader_patch()
        apply_functional_patch()
        apply_torch_overrides_patch()
        apply_distributed_patch()
        apply_ddp_patch()
        apply_optim_patch()

    _start.register(unsupported_dtype)
    apply_patches()
    _start.finish()

    from torch_mlu import triton_kernel
