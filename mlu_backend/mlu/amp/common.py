"""Whether mixed precision is out of the question."""

from __future__ import annotations

import torch


def amp_definitely_not_available() -> bool:
    return not torch.mlu.is_available()
