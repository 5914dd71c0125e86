"""Turns ``torch.cuda`` into ``torch.mlu``, submodule by submodule."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
import warnings
from typing import Any

# Names that are called otherwise over there.
substitution_list = {
    "nccl": "cncl",
    "nvtx": "cnpx",
    "CUDAGraph": "MLUGraph",
    "CUDAPluggableAllocator": "MLUPluggableAllocator",
}


def needs_skip(obj: Any, module: Any) -> bool:
    """Whether a name of ``module`` is none of its own: a dunder's value, another package's module, an import."""
    if isinstance(obj, types.ModuleType):
        return not obj.__name__.startswith(module.__name__ + ".")
    owner = getattr(obj, "__module__", None)
    return isinstance(owner, str) and not owner.startswith(("torch.cuda", "torch._C", "torch.mlu", "torch_mlu"))


def rough_type_comparison(obj1: Any, obj2: Any) -> bool:
    """Whether two objects are of one sort: both classes, both modules, both callables, or neither."""
    for sort in (inspect.isclass, inspect.ismodule, callable):
        if sort(obj1) or sort(obj2):
            return bool(sort(obj1) and sort(obj2))
    return True


def check_patch_succeeded(source_module: Any, dest_module: Any) -> None:
    """RuntimeError when a name both modules have is not of the same sort in both."""
    for name in set(dir(source_module)) & set(dir(dest_module)):
        if name.startswith("__"):
            continue
        if not rough_type_comparison(getattr(source_module, name), getattr(dest_module, name)):
            raise RuntimeError(f"gpu_migration: {dest_module.__name__}.{name} could not be replaced")


def warning_wrapper(obj: Any, obj_name: str) -> Any:
    """``obj`` so that calling it says that the card does not have it, and then runs the CUDA code."""
    text = f"gpu_migration: {obj_name} is not yet suppoorted on MLU"
    if inspect.isclass(obj):
        original = obj.__init__

        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            warnings.warn(text, stacklevel=2)
            original(self, *args, **kwargs)

        try:
            obj.__init__ = __init__
        except TypeError:
            return obj
        return obj
    if not callable(obj):
        return obj

    @functools.wraps(obj)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, stacklevel=2)
        return obj(*args, **kwargs)

    return wrapper


def update_dict(source_module: Any, dest_module: Any) -> None:
    """
    Put ``source_module`` (of torch.mlu) in the place of ``dest_module`` (of torch.cuda).

    Names only CUDA has are kept, wrapped to warn unless ``TORCH_MLU_MIGRATION_WITH_WARNING`` is 0.
    """
    with_warning = os.environ.get("TORCH_MLU_MIGRATION_WITH_WARNING", "1") != "0"
    for name, theirs in list(vars(dest_module).items()):
        if name.startswith("__"):
            continue
        ours = getattr(source_module, substitution_list.get(name, name), None)
        if isinstance(theirs, types.ModuleType):
            if needs_skip(theirs, dest_module):
                continue
            if isinstance(ours, types.ModuleType):
                update_dict(ours, theirs)
                setattr(source_module, name, ours)
            else:
                setattr(source_module, name, theirs)
        elif ours is not None and name in substitution_list:
            setattr(source_module, name, ours)
        elif not hasattr(source_module, name):
            own = not needs_skip(theirs, dest_module) and not name.startswith("_")
            label = f"{dest_module.__name__}.{name}"
            setattr(source_module, name, warning_wrapper(theirs, label) if with_warning and own else theirs)
    sys.modules[dest_module.__name__] = source_module
