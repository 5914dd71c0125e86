"""An optimizer step may be captured in a graph only when its groups say ``capturable=True``."""

from __future__ import annotations

import warnings
from typing import Any

import torch


def _mlu_graph_capture_health_check(self: Any) -> None:
    if torch.compiler.is_compiling() or not torch.mlu.is_available():
        return
    capturing = torch.mlu.is_current_stream_capturing()
    # Adafactor, younger than the release followed, has no such option.
    capturable = all(group.get("capturable", False) for group in self.param_groups)
    if capturing and not capturable:
        raise RuntimeError(
            f"Attempting MLU graph capture of step() for an instance of {self.__class__.__name__} "
            "but param_groups' capturable is False."
        )
    if capturable and not capturing and not getattr(self, "_warned_capturable_if_run_uncaptured", False):
        warnings.warn(
            "This instance was constructed with capturable=True or some of all the param_groups came with "
            "capturable=True, but step() is running without MLU graph capture. If you never intend to graph-capture "
            "this instance, capturable=True can impair performance, and you should set capturable=False.",
            stacklevel=2,
        )
        self._warned_capturable_if_run_uncaptured = True


def apply_optimizer_patch() -> None:
    """Replace the check every torch optimizer calls first; torch 2.13 has renamed it, 2.4's name is kept as well."""
    torch.optim.Optimizer._accelerator_graph_capture_health_check = _mlu_graph_capture_health_check  # type: ignore[method-assign]
    torch.optim.Optimizer._cuda_graph_capture_health_check = _mlu_graph_capture_health_check  # type: ignore[attr-defined]
