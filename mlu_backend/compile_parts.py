"""
Captured graphs that can only partly be compiled for the CPU.

Operators from outside torch (custom operators, those of ``torch_mlu``) and collectives have to see tensors of the card.
A graph that has any is cut around them: what lies between is compiled, they are called as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any
from unittest import mock

import torch

# Operators that torch's own compiler knows, and that compute the same on a CPU tensor over the same memory.
PORTABLE = frozenset(
    "aten prims prim inductor inductor_prims rngprims quantized quantized_decomposed _quantized mkldnn mkl".split()
)
# Fewer than this many operators that compute are not worth a compilation.
LEAST = 2


def needs_card(graph: torch.fx.GraphModule) -> bool:
    """Whether any operator of the graph has to see tensors of the card."""
    return any(_foreign(graph, node) for node in graph.graph.nodes)


def compile_between(
    graph: torch.fx.GraphModule,
    compile_part: Callable[[torch.fx.GraphModule, list[Any]], Any],
) -> torch.fx.GraphModule:
    """
    A graph that calls ``compile_part(piece, example_inputs)`` of each piece between foreign operators.

    Sizes and strides of what passes between pieces are those the captured graph notes.
    """
    from torch.fx.passes.split_module import split_module

    numbers = _numbers(graph)
    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["example_value"] = node.meta["val"]  # where the splitter looks for symbols
    whole = split_module(graph, graph, numbers.__getitem__, keep_original_order=True, tuple_return=True)
    foreign = {f"submod_{number}" for node, number in numbers.items() if _foreign(graph, node)}
    for name in whole.meta["partition_names"] - foreign:
        piece = getattr(whole, name)
        if sum(_computes(node) for node in piece.graph.nodes) >= LEAST:
            setattr(whole, name, _Piece(_compiled(piece, compile_part)))
    return whole


class _Piece(torch.nn.Module):
    """Compiled code, which takes a list, where the graph calls a module."""

    def __init__(self, code: Any) -> None:
        super().__init__()
        self.code = code

    def forward(self, *arguments: Any) -> Any:
        return self.code(list(arguments))


def _compiled(piece: torch.fx.GraphModule, compile_part: Callable[[torch.fx.GraphModule, list[Any]], Any]) -> Any:
    from torch._guards import TracingContext

    (output,) = piece.graph.find_nodes(op="output")
    values = [result.meta.get("val") for result in output.args[0]]
    # The next piece was captured with these strides, so inductor may not choose others.
    output.meta["user_visible_output_idxs"] = list(range(len(values)))
    inputs = [node.meta.get("val") for node in piece.graph.find_nodes(op="placeholder")]
    context = TracingContext.try_get()
    # What inductor reports of its results there is about those of the whole graph, and a piece has others.
    unheard = nullcontext() if context is None else mock.patch.object(context, "output_strides", None)
    with unheard:
        return compile_part(piece, inputs)


def _numbers(graph: torch.fx.GraphModule) -> dict[torch.fx.Node, int]:
    """Each node's piece; another one begins where foreign operators begin and end."""
    numbers: dict[torch.fx.Node, int] = {}
    number, foreign = 0, False
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if node.target is operator.getitem:
            numbers[node] = numbers[node.args[0]]  # only tensors and numbers pass between pieces, no tuples
            continue
        if foreign != _foreign(graph, node):
            number, foreign = number + 1, not foreign
        numbers[node] = number
    return numbers


def _foreign(graph: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.namespace not in PORTABLE
    if not isinstance(node.target, torch._ops.HigherOrderOperator):
        return False
    # One that calls an operator or runs subgraphs is foreign with them.
    given: Sequence[Any] = torch.utils._pytree.tree_leaves((node.args, node.kwargs))
    if any(isinstance(value, torch._ops.OpOverload) and value.namespace not in PORTABLE for value in given):
        return True
    return any(
        needs_card(graph.get_submodule(value.target))
        for value in given
        if isinstance(value, torch.fx.Node)
        and value.op == "get_attr"
        and isinstance(getattr(graph, str(value.target), None), torch.fx.GraphModule)
    )


def _computes(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    return not isinstance(node.target, torch._ops.OpOverload) or not node.target.is_view
