"""The emulated device ``mlu``: a real PyTorch device (PrivateUse1) that behaves as Cambricon's card does, on a machine without one."""

from __future__ import annotations

__version__ = "0.1.0"
