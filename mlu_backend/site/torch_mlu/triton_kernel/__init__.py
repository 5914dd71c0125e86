"""
``aten::_transform_bias_rescale_qkv`` on the card, which torch_mlu writes in Triton.

Here it is the sum, scaling and split the operator stands for; with Triton installed the real one compiles a kernel.
"""

from __future__ import annotations

import torch

from torch_mlu.triton_kernel import _transform_bias_rescale_qkv_impl, utils
from torch_mlu.triton_kernel._transform_bias_rescale_qkv_impl import _transform_bias_rescale_qkv_mlu

__all__ = ["_transform_bias_rescale_qkv_impl", "_transform_bias_rescale_qkv_mlu", "aten_lib", "utils"]

aten_lib = torch.library.Library("aten", "IMPL")
aten_lib.impl("_transform_bias_rescale_qkv", _transform_bias_rescale_qkv_mlu, "PrivateUse1")
