"""``torch.backends.mlufusion``: ``enabled`` (default True) switches the fusion of LSTM layers, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.backends import ContextProp, PropModule, __allow_nonbracketed_mutation

from torch_mlu import _MLUC


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the switch; returns it as it was."""
    before = (_MLUC._get_mlufusion_enabled(),)
    _MLUC._set_mlufusion_enabled(_enabled)
    return before


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """The switch for a block."""
    with __allow_nonbracketed_mutation():
        before = set_flags(enabled)
    try:
        yield
    finally:
        with __allow_nonbracketed_mutation():
            set_flags(*before)


class MlufusionModule(PropModule):
    def __init__(self, m: Any, name: str) -> None:
        super().__init__(m, name)

    enabled = ContextProp(_MLUC._get_mlufusion_enabled, _MLUC._set_mlufusion_enabled)
