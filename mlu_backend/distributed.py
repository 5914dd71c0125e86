"""
``cncl``, the collectives of the device, and the names torch.distributed gains from torch_mlu.

``register()`` makes ``init_process_group("cncl")`` and ``"cpu:gloo,mlu:cncl"`` work. The process group is C++
(``csrc/cncl*``), a module of its own in the library of the device.

Faithful to torch_mlu r2.4 (torch_mlu/mlu/cncl.py, csrc/framework/distributed): the backend's creator takes no process
group options, so ``pg_options`` has no effect; the ten minutes of ``ProcessGroupCNCL`` are its own default, while
``init_process_group`` passes torch's default of thirty; ``is_cncl_available`` is true. float64 travels as float32
on the profiles that compute it so (mlu370, mlu590) and as it is on ``exact``.
"""

from __future__ import annotations

import pickle
import types
from datetime import timedelta
from functools import cache
from typing import Any

NAME = "cncl"
MODULE = "_mlu_cncl"
_LAZY = ("ProcessGroupCNCL",)
_TRACE_VERSION = "2.10"  # the recorder whose keys are used


def is_cncl_available() -> bool:
    """True: collectives need nothing that could be absent."""
    return True


@cache
def extension() -> types.ModuleType:
    """The C++ module with ``ProcessGroupCNCL``."""
    from mlu_backend import build, core

    module = core._load_module(MODULE, str(build.core_library()))
    # As torch_mlu does (torch_mlu/mlu/cncl.py:133), so that its name reads like that of the other process groups.
    module.ProcessGroupCNCL.__module__ = "torch.distributed.distributed_c10d"
    return module


def narrow_float64() -> bool:
    """Whether float64 goes out as float32, which depends on the profile."""
    from mlu_backend import cards

    return cards.profile() != "exact"


def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """A process group over ``store`` (torch.distributed.Store) for rank ``rank`` of ``size``."""
    return extension().ProcessGroupCNCL(store, rank, size, timeout=timeout, narrow_float64=narrow_float64())


def dump_trace() -> bytes:
    """
    The last collectives of this process, pickled: ``torch._C._distributed_c10d._dump_cncl_trace``.

    As many as ``TORCH_CNCL_TRACE_BUFFER_SIZE`` said when the group was made, none by default. Layout and keys are
    those of torch's own flight recorder (torch/csrc/distributed/c10d/FlightRecorder.hpp): ``version``, ``pg_config``,
    ``pg_status`` and ``entries``; times in nanoseconds, ``duration_ms`` in milliseconds.
    """
    from torch.distributed import distributed_c10d

    entries = extension().flight_record()
    config, status = {}, {}
    for group, ranks in distributed_c10d._world.pg_group_ranks.items():
        if not isinstance(group, distributed_c10d.ProcessGroup):
            continue  # the mark of groups this process is no member of
        name = group.group_name
        config[name] = {"name": name, "desc": group.group_desc, "ranks": str(sorted(ranks))}
    for entry in entries:
        reached = status.setdefault(
            str(entry["pg_id"]),
            dict.fromkeys(("last_enqueued_collective", "last_started_collective", "last_completed_collective"), -1),
        )
        number = entry["collective_seq_id"]
        if not entry["is_p2p"]:
            reached["last_enqueued_collective"] = reached["last_started_collective"] = number
            if entry["state"] == "completed":
                reached["last_completed_collective"] = max(number, reached["last_completed_collective"])
    trace = {"version": _TRACE_VERSION, "pg_config": config, "pg_status": status, "entries": entries}
    return pickle.dumps(trace)


def register() -> None:
    """Make torch.distributed know ``cncl``; further calls do nothing."""
    import torch
    import torch.distributed as dist

    if not dist.is_available() or hasattr(dist.Backend, "CNCL"):
        return
    dist.Backend.register_backend(NAME, create, devices=["mlu"])
    dist.is_cncl_available = is_cncl_available  # type: ignore[attr-defined]
    torch._C._distributed_c10d._dump_cncl_trace = dump_trace  # type: ignore[attr-defined]
    _offer_lazily(dist)


def _offer_lazily(dist: types.ModuleType) -> None:
    """Let ``torch.distributed.ProcessGroupCNCL`` compile the extension when it is asked for, and not before."""
    before = dist.__dict__.get("__getattr__")

    def lazy(name: str) -> Any:
        if name in _LAZY:
            value = getattr(extension(), name)
            setattr(dist, name, value)
            return value
        if before is not None:
            return before(name)
        raise AttributeError(f"module {dist.__name__!r} has no attribute {name!r}")

    dist.__dict__["__getattr__"] = lazy
