"""Callables whose forward and backward work is recorded once and replayed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


@dataclass
class _Forward:
    """One recorded forward pass: its graph, the tensors it reads and those it writes."""

    graph: Any
    inputs: list[torch.Tensor]
    parameters: tuple[torch.Tensor, ...]
    outputs: list[torch.Tensor]
    spec: Any

    @property
    def surface(self) -> tuple[torch.Tensor, ...]:
        """Everything a gradient may be wanted for: the arguments, then the module's parameters."""
        return (*self.inputs, *self.parameters)


@dataclass
class _Backward:
    """
    One recorded backward pass: gradients come in and go out in tensors of its own; None where there is no gradient.
    """

    graph: Any
    incoming: list[torch.Tensor | None]
    outgoing: list[torch.Tensor | None]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """
    Replace functions or modules by versions that replay recordings, forward and backward.

    ``sample_args`` has the arguments to record with: a tuple of tensors, or one such tuple for each of several
    callables, which are recorded in the order given (backward passes in the opposite order) and share one memory pool.
    Inputs get no gradient unless their sample asks for one. RuntimeError while the autocast cache is on. Gradients lie
    in memory of the recording: drop them (``zero_grad``) before the next backward pass, as with torch.cuda.
    """
    if torch.is_autocast_enabled("mlu") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables but sample arguments for {len(samples)}")
    for function in functions:
        _refuse_unfit(function)
    flat = [_tensors(arguments) for arguments in samples]
    pool = torch.mlu.graph_pool_handle() if pool is None else pool

    torch.mlu.synchronize()
    with torch.mlu.stream(torch.mlu.Stream()):
        for function, arguments, leaves in zip(functions, samples, flat, strict=True):
            _warm_up(function, arguments, leaves, num_warmup_iters, allow_unused_input)
    torch.mlu.synchronize()

    forwards = [_record_forward(*each, pool) for each in zip(functions, samples, flat, strict=True)]
    backwards = [_record_backward(forward, allow_unused_input, pool) for forward in reversed(forwards)][::-1]
    graphed = [
        _install(function, _runner(forward, backward))
        for function, forward, backward in zip(functions, forwards, backwards, strict=True)
    ]
    return graphed[0] if single else tuple(graphed)


def _refuse_unfit(function: Any) -> None:
    if not isinstance(function, torch.nn.Module):
        return
    hooked = function._backward_hooks or function._forward_hooks or function._forward_pre_hooks
    if hooked:
        raise RuntimeError(
            "Modules must not have hooks registered at the time they are passed. However, registering hooks "
            "on modules after passing them through make_graphed_callables is allowed."
        )
    if any(buffer.requires_grad for buffer in function.buffers()):
        raise RuntimeError(
            "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
            "trainable. All buffers must have ``requires_grad=False``."
        )


def _tensors(arguments: Any) -> list[torch.Tensor]:
    leaves, _ = tree_flatten(arguments)
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise TypeError(
            "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
        )
    return leaves


def _parameters(function: Any) -> tuple[torch.Tensor, ...]:
    return tuple(function.parameters()) if isinstance(function, torch.nn.Module) else ()


def _gradients(
    outputs: list[torch.Tensor],
    surface: tuple[torch.Tensor, ...],
    incoming: list[torch.Tensor | None],
    allow_unused: bool,
) -> list[torch.Tensor | None]:
    """Gradients for ``surface``, None where none is wanted."""
    wanted = [tensor for tensor in surface if tensor.requires_grad]
    pairs = [(out, given) for out, given in zip(outputs, incoming, strict=True) if given is not None]
    if not wanted or not pairs:
        return [None] * len(surface)
    found = iter(
        torch.autograd.grad(
            [out for out, _ in pairs],
            wanted,
            grad_outputs=[given for _, given in pairs],
            only_inputs=True,
            allow_unused=allow_unused,
        )
    )
    return [next(found) if tensor.requires_grad else None for tensor in surface]


def _warm_up(function: Any, arguments: Any, leaves: list[torch.Tensor], rounds: int, allow_unused: bool) -> None:
    surface = (*leaves, *_parameters(function))
    for _ in range(rounds):
        outputs, _ = tree_flatten(function(*arguments))
        incoming = [torch.empty_like(out) if out.requires_grad else None for out in outputs]
        _gradients(outputs, surface, incoming, allow_unused)


def _record_forward(function: Any, arguments: Any, leaves: list[torch.Tensor], pool: tuple[int, int]) -> _Forward:
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph, pool=pool):
        result = function(*arguments)
    outputs, spec = tree_flatten(result)
    return _Forward(graph, leaves, _parameters(function), outputs, spec)


def _record_backward(forward: _Forward, allow_unused: bool, pool: tuple[int, int]) -> _Backward | None:
    """None when nothing asks for a gradient."""
    incoming = [torch.empty_like(out) if out.requires_grad else None for out in forward.outputs]
    if not any(tensor.requires_grad for tensor in forward.surface) or not any(g is not None for g in incoming):
        return None
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph, pool=pool):
        outgoing = _gradients(forward.outputs, forward.surface, incoming, allow_unused)
    return _Backward(graph, incoming, outgoing)


def _runner(forward: _Forward, backward: _Backward | None) -> Callable[..., Any]:
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for static, live in zip(forward.inputs, given, strict=False):
                if static.data_ptr() != live.data_ptr():
                    static.detach().copy_(live)
            forward.graph.replay()
            results = tuple(out.detach() for out in forward.outputs)
            ctx.mark_non_differentiable(
                *(new for new, out in zip(results, forward.outputs, strict=True) if not out.requires_grad)
            )
            return results

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
            if backward is None:
                return (None,) * len(forward.surface)
            for static, live in zip(backward.incoming, grads, strict=True):
                if static is None:
                    continue
                if live is None:
                    static.zero_()
                elif static.data_ptr() != live.data_ptr():
                    static.copy_(live)
            backward.graph.replay()
            return tuple(grad.detach() if grad is not None else None for grad in backward.outgoing)

    def run(*arguments: Any) -> Any:
        leaves, _ = tree_flatten(arguments)
        return tree_unflatten(list(Graphed.apply(*leaves, *forward.parameters)), forward.spec)

    return run


def _install(function: Any, run: Callable[..., Any]) -> Any:
    """A module keeps being itself and replays only in the mode (training or not) it was recorded in."""
    if not isinstance(function, torch.nn.Module):
        return run
    original, recorded_in_training = function.forward, function.training

    def forward(*arguments: Any) -> Any:
        return run(*arguments) if function.training == recorded_in_training else original(*arguments)

    function.forward = forward  # type: ignore[method-assign]
    return function
