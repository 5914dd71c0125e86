"""
The emulated device ``mlu``: a real PyTorch device (PrivateUse1) that behaves as Cambricon's card does, on a machine
without one.

Importing this package makes ``import torch_mlu`` work in this process and in the processes it starts; it does not
import torch and starts no device. A torch_mlu that is installed always wins over ours.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__version__ = "0.1.0"

SITE = Path(__file__).with_name("site")


def on_python_path(current: str | None) -> str:
    """``PYTHONPATH`` with the folder of our torch_mlu in it, in its old place if it was there already."""
    parts = [part for part in (current or "").split(os.pathsep) if part]
    return os.pathsep.join(parts if str(SITE) in parts else [str(SITE), *parts])


def offer_torch_mlu() -> None:
    """Put our ``torch_mlu`` within reach: last on ``sys.path`` here, and on ``PYTHONPATH`` for children."""
    if str(SITE) not in sys.path:
        sys.path.append(str(SITE))
    os.environ["PYTHONPATH"] = on_python_path(os.environ.get("PYTHONPATH"))


offer_torch_mlu()
