"""Optimizer steps over lists of tensors, in float32 whatever the parameters are, as apex defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _corrections(bias_correction: int, step: float, beta1: float, beta2: float) -> tuple[float, float]:
    if not bias_correction:
        return 1.0, 1.0
    return 1.0 - beta1**step, 1.0 - beta2**step


def _update(
    slope: Tensor,
    mean: Tensor,
    square: Tensor,
    share: float,
    beta1: float,
    beta2: float,
    first: float,
    second: float,
    epsilon: float,
) -> Tensor:
    """Move both moments of one parameter towards its gradient, in place; the update they give, in float32."""
    new_mean = beta1 * mean.float() + share * slope
    new_square = beta2 * square.float() + (1 - beta2) * slope * slope
    mean.copy_(new_mean)
    square.copy_(new_square)
    return (new_mean / first) / ((new_square / second).sqrt() + epsilon)


def fused_adam(
    _dummy_overflow_buf: Tensor,
    grads: list[Tensor],
    params: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    mode: int,
    bias_correction: int,
    weight_decay: float,
) -> bool:
    """One Adam step in place. ``mode`` 0: weight decay is added to the gradient, 1: to the update (AdamW)."""
    first, second = _corrections(bias_correction, step, beta1, beta2)
    with torch.no_grad():
        for grad, param, mean, square in zip(grads, params, exp_avgs, exp_avg_sqs, strict=True):
            value, slope = param.float(), grad.float()
            if mode == 0 and weight_decay:
                slope = slope + weight_decay * value
            update = _update(slope, mean, square, 1 - beta1, beta1, beta2, first, second, epsilon)
            if mode == 1:
                update = update + weight_decay * value
            param.copy_(value - learning_rate * update)
    return True


def fused_sgd(
    _dummy_overflow_buf: Tensor,
    grads: list[Tensor],
    params_in: list[Tensor],
    momentums: list[Tensor],
    params_out: list[Tensor | None],
    weight_decay: float,
    momentum: float,
    dampening: float,
    learning_rate: float,
    nesterov: bool,
    first_run: bool,
    wd_after_momentum: bool,
    scale: float,
) -> bool:
    """One SGD step in place; gradients are multiplied by ``scale``, new parameters also written to ``params_out``."""
    with torch.no_grad():
        for position, (grad, param, buffer) in enumerate(zip(grads, params_in, momentums, strict=True)):
            value, slope = param.float(), grad.float() * scale
            if weight_decay and not wd_after_momentum:
                slope = slope + weight_decay * value
            if momentum:
                kept = slope if first_run else buffer.float() * momentum + (1 - dampening) * slope
                buffer.copy_(kept)
                slope = slope + momentum * kept if nesterov else kept
            if weight_decay and wd_after_momentum:
                slope = slope + weight_decay * value
            param.copy_(value - learning_rate * slope)
            out = params_out[position] if position < len(params_out) else None
            if out is not None:
                out.copy_(param)
    return True


def fused_l2_norm(
    _dummy_overflow_buf: Tensor, inputs: list[Tensor], per_tensor: bool | None = None
) -> tuple[Tensor, Tensor]:
    """The 2-norm of all tensors together (shape 1), and of each when ``per_tensor`` (else an empty tensor); float32."""
    device = _dummy_overflow_buf.device
    if not inputs:
        return torch.zeros(1, device=device), torch.zeros(0, device=device)
    each = torch.stack([torch.linalg.vector_norm(tensor.float()) for tensor in inputs])
    return torch.linalg.vector_norm(each).reshape(1), each if per_tensor else each.new_empty(0)


def _lamb(
    grads: list[Tensor],
    params: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: float,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    norm: float,
    max_norm: float,
    use_nvlamb: bool,
    inv_scale: float,
) -> None:
    first, second = _corrections(bias_correction, step, beta1, beta2)
    share = 1 - beta1 if grad_averaging else 1.0
    clip = norm / max_norm if max_norm > 0 and norm > max_norm else 1.0
    for grad, param, mean, square in zip(grads, params, exp_avgs, exp_avg_sqs, strict=True):
        value, slope = param.float(), grad.float() * inv_scale / clip
        if mode == 0:
            slope = slope + weight_decay * value
        update = _update(slope, mean, square, share, beta1, beta2, first, second, epsilon)
        if mode == 1:
            update = update + weight_decay * value
        rate = learning_rate
        if use_nvlamb or weight_decay:
            size, change = torch.linalg.vector_norm(value), torch.linalg.vector_norm(update)
            ratio = torch.where((size > 0) & (change > 0), size / change, torch.ones_like(size))
            param.copy_(value - rate * ratio * update)
        else:
            param.copy_(value - rate * update)


def fused_lamb(
    _dummy_overflow_buf: Tensor,
    grads: list[Tensor],
    params: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    global_grad_norm: Tensor,
    max_grad_norm: float,
    use_nvlamb_python: bool,
) -> bool:
    """One LAMB step in place; gradients are scaled down when their common norm is above ``max_grad_norm``."""
    norms = (float(global_grad_norm), max_grad_norm, use_nvlamb_python, 1.0)
    rates = (learning_rate, beta1, beta2, epsilon, step)
    with torch.no_grad():
        _lamb(grads, params, exp_avgs, exp_avg_sqs, *rates, bias_correction, weight_decay, grad_averaging, mode, *norms)
    return True


def _lamb_amp(outputs: list[Tensor], noop_flag: Tensor, params: list[Tensor], rest: tuple[Any, ...]) -> bool:
    grads, exp_avgs, exp_avg_sqs, rate, beta1, beta2, epsilon, step, *switches = rest[:12]
    norm, max_norm, nvlamb, inv_scale = rest[12:]
    if float(noop_flag):
        return True
    rates = (float(rate), beta1, beta2, epsilon, float(step))
    with torch.no_grad():
        _lamb(
            grads,
            params,
            exp_avgs,
            exp_avg_sqs,
            *rates,
            *switches,
            float(norm),
            float(max_norm),
            nvlamb,
            float(inv_scale),
        )
        for out, param in zip(outputs, params, strict=False):
            out.copy_(param)
    return True


def fused_lamb_amp(noop_flag: Tensor, grads: Any, params: Any, exp_avgs: Any, exp_avg_sqs: Any, *rest: Any) -> bool:
    """
    :func:`fused_lamb` with rate, step and norms as tensors; gradients times ``inv_scale``, nothing done if flagged.
    """
    return _lamb_amp([], noop_flag, params, (grads, exp_avgs, exp_avg_sqs, *rest))


def fused_lamb_amp_dst_param(
    noop_flag: Tensor, grads: Any, params: Any, exp_avgs: Any, exp_avg_sqs: Any, dst_param_fp16s: Any, *rest: Any
) -> bool:
    """:func:`fused_lamb_amp`, writing new parameters to ``dst_param_fp16s`` as well."""
    return _lamb_amp(dst_param_fp16s, noop_flag, params, (grads, exp_avgs, exp_avg_sqs, *rest))


def amp_unscale(scaled_grads: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> Tensor:
    """Multiply gradients by ``inv_scale`` in place; ``found_inf`` becomes 1 if one was not finite, and is returned."""
    torch._amp_foreach_non_finite_check_and_unscale_(scaled_grads, found_inf, inv_scale)
    return found_inf


OPERATORS: dict[str, Callable[..., Any]] = {
    "amp_unscale": amp_unscale,
    "fused_adam": fused_adam,
    "fused_l2_norm": fused_l2_norm,
    "fused_l2_norm_amp": fused_l2_norm,
    "fused_lamb": fused_lamb,
    "fused_lamb_amp": fused_lamb_amp,
    "fused_lamb_amp.dst_param": fused_lamb_amp_dst_param,
    "fused_sgd": fused_sgd,
}
