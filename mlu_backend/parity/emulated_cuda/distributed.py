"""
``nccl`` is the emulated device's own backend; the program goes on calling it nccl.

torch.distributed itself sees the device as it is (see ``devices``). What the program hands to it is mapped on the way
in, what it asks of it on the way out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from mlu_backend.parity.emulated_cuda.devices import is_library, mapping, to_device


def install() -> None:
    """Map what goes into and comes out of torch.distributed."""
    dist = torch.distributed
    if not dist.is_available():
        return
    core = dist.distributed_c10d
    for name, places in _TAKE_A_BACKEND.items():
        if hasattr(core, name):
            _both(dist, core, name, _with_backend(getattr(core, name), places))
    _both(dist, core, "get_backend", _nccl_for_the_program(core.get_backend))
    if hasattr(core, "get_default_backend_for_device"):
        found = _nccl_for_the_program(mapping(core.get_default_backend_for_device))
        _both(dist, core, "get_default_backend_for_device", found)
    _both(dist, core, "is_nccl_available", lambda: True)
    for name in ("broadcast_object_list", "send_object_list", "recv_object_list"):
        if hasattr(core, name):
            _both(dist, core, name, mapping(getattr(core, name)))
    _process_groups(core.ProcessGroup)
    _meshes(dist)


_TAKE_A_BACKEND = {
    "init_process_group": 0,
    "new_group": 2,
    "split_group": 5,
    "new_subgroups": 4,
    "new_subgroups_by_enumeration": 2,
}
"""Functions with a parameter ``backend``, and its place among the positional ones."""


def _backend(value: Any) -> Any:
    """A backend as the program names it, as ours."""
    if isinstance(value, str):
        return value.lower().replace("nccl", "cncl").replace("cuda:", "mlu:")
    return value


def _with_backend(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        args = tuple(_backend(a) if i == place else to_device(a) for i, a in enumerate(args))
        kwargs = {k: _backend(v) if k == "backend" else to_device(v) for k, v in kwargs.items()}
        return function(*args, **kwargs)

    return mapped


def _nccl_for_the_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that answers a backend. Torch's own code compares the answer with what it made, so it sees that."""

    @functools.wraps(function)
    def answer(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return found if is_library(1) else str(found).replace("cncl", "nccl")

    return answer


def _process_groups(kind: Any) -> None:
    """Methods in C++ that pick a backend by device; a device may have been given by the program and kept since."""
    for name in ("_get_backend", "_start_coalescing", "_end_coalescing", "_register_backend"):
        if hasattr(kind, name):
            setattr(kind, name, mapping(getattr(kind, name)))


def _meshes(dist: Any) -> None:
    mesh: Any = sys.modules.get("torch.distributed.device_mesh")
    if mesh is None:
        return
    original = mesh.init_device_mesh

    @functools.wraps(original)
    def init_device_mesh(*args: Any, **kwargs: Any) -> Any:
        override = kwargs.get("backend_override")
        if override is not None:
            kwargs["backend_override"] = {k: _override(v) for k, v in override.items()}
        return mapping(original)(*args, **kwargs)

    mesh.init_device_mesh = init_device_mesh
    mesh.DeviceMesh.__init__ = mapping(mesh.DeviceMesh.__init__)
    if hasattr(dist, "init_device_mesh"):
        dist.init_device_mesh = init_device_mesh
    for name in ("from_group",):
        if hasattr(mesh.DeviceMesh, name):
            setattr(mesh.DeviceMesh, name, staticmethod(mapping(getattr(mesh.DeviceMesh, name))))
    device_type = mesh.DeviceMesh.__dict__.get("device_type")
    if isinstance(device_type, property):
        mesh.DeviceMesh.device_type = property(lambda self: _type_of(device_type.__get__(self), is_library(1)))


def _override(value: Any) -> Any:
    return (_backend(value[0]), *value[1:]) if isinstance(value, tuple) else _backend(value)


def _type_of(found: str, for_torch: bool) -> str:
    return "cuda" if found == "mlu" and not for_torch else found


def _both(package: Any, core: Any, name: str, function: Callable[..., Any]) -> None:
    setattr(core, name, function)
    if hasattr(package, name):
        setattr(package, name, function)
