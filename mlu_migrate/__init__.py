"""The rewriter: moves PyTorch source code from CUDA to Cambricon MLU. Never imports torch."""

from __future__ import annotations

__version__ = "0.1.0"
