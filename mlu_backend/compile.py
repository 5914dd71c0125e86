"""
``torch.compile`` on the device.

inductor generates no code for ``mlu``. Its own pipeline (decompositions, partitioning into forward and backward, joint
graph passes) runs as for any device, and only the last step is ours: a captured graph that names ``mlu`` is copied with
``cpu`` in place of it, compiled by inductor for the CPU, and called with CPU tensors over the same memory
(``csrc/retarget.cpp``). Nothing is copied at run time.

``register()`` puts this behind inductor, the default backend, for graphs with a tensor on ``mlu``; other graphs
and other backends (eager, aot_eager) are untouched. Numbers come from the card's generator: a graph that draws any
seeds the CPU's generator from it for the length of the call, so ``torch.mlu.manual_seed`` repeats a run, with other
numbers than eager mode draws, as inductor does on every device.

Operators from outside torch and collectives are not compiled, only what lies between them (``compile_parts``). On the
profiles ``mlu370`` and ``mlu590`` all graphs run operator by operator: their roundings belong to operators.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import _disable_current_modes

from mlu_backend import cards, compile_parts, dynamo
from mlu_backend.after_import import after_import

DEVICE = "mlu"


def register() -> None:
    """Let inductor, ``torch.compile``'s default backend, take graphs on ``mlu``; further calls do nothing."""
    after_import("torch._inductor.compile_fx", _take_over)
    dynamo.register()


def _take_over(compile_fx: Any) -> None:
    """Wrap the entry point of ``torch._inductor.compile_fx``, which its callers look up at each call."""
    original = compile_fx.compile_fx
    if getattr(original, "handles_mlu", False):
        return

    def compile_graph(model_: Any, example_inputs_: Sequence[Any], *rest: Any, **options: Any) -> Any:
        if rest or "inner_compile" in options or not _on_mlu(model_, example_inputs_):
            return original(model_, example_inputs_, *rest, **options)
        from torch._functorch import config

        # The cache of whole compiled functions stores inductor's own results only; that of generated code stays on.
        with config.patch(enable_autograd_cache=False):
            return original(model_, example_inputs_, inner_compile=compile_for_cpu, **options)

    compile_graph.handles_mlu = True  # type: ignore[attr-defined]
    compile_fx.compile_fx = functools.wraps(original)(compile_graph)


def _is_mlu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE


def _on_mlu(graph: Any, inputs: Sequence[Any]) -> bool:
    """Whether a graph, as captured by dynamo, has a tensor on the device anywhere."""
    if any(_is_mlu(value) for value in torch.utils._pytree.tree_leaves(list(inputs))):
        return True
    if not isinstance(graph, torch.fx.GraphModule):
        return False
    for module in graph.modules():
        held = [*module.__dict__.get("_parameters", {}).values(), *module.__dict__.get("_buffers", {}).values()]
        if any(_is_mlu(value) for value in held):
            return True
    return any(
        _is_mlu(value)
        for node in graph.graph.nodes
        for value in torch.utils._pytree.tree_leaves(node.meta.get("example_value"))
    )


def compile_for_cpu(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
    """
    inductor's ``inner_compile`` for a graph on ``mlu``: the forward, backward or inference graph after aot.

    ``example_inputs`` are fake tensors and symbolic integers in the order of the graph's inputs. The result is called
    with a list of real ones.
    """
    from torch._dynamo.utils import detect_fake_mode
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.utils import output_node
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    if cards.profile() != "exact":
        return _code_types()[1](graph)
    if compile_parts.needs_card(graph):
        rest = {**options, "static_input_idxs": ()}
        return _code_types()[1](compile_parts.compile_between(graph, lambda *part: compile_for_cpu(*part, **rest)))
    results = torch.utils._pytree.tree_leaves(output_node(graph).args)
    targets = [_card(result.meta.get("val")) if isinstance(result, torch.fx.Node) else -1 for result in results]
    draws = _draws_numbers(graph)
    twin = retarget(graph)
    inputs = [_fake_on_cpu(value) for value in example_inputs]
    home = next((card for card in (*targets, *map(_card, example_inputs)) if card >= 0), 0)
    mode = detect_fake_mode(inputs) or FakeTensorMode(allow_non_fake_inputs=True)
    with mock.patch.object(mode, "allow_non_fake_inputs", True):  # constants are real tensors
        with torch.no_grad():
            FakeTensorProp(twin, mode=mode).propagate_dont_convert_inputs(*inputs)
        compiled = compile_fx_inner(twin, inputs, **options)
    return _code_types()[0](compiled, targets, home, draws)


def _card(value: Any) -> int:
    """The ordinal of the card a tensor lives on, -1 for anything else."""
    if not _is_mlu(value):
        return -1
    return value.device.index or 0


def retarget(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of ``graph`` that names the CPU wherever the original names ``mlu``, subgraphs and constants included."""
    copy = torch.fx.Graph()
    known: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph.graph.nodes:
        made = copy.node_copy(node, lambda n: known[n])
        known[node] = made
        made.args = torch.fx.node.map_aggregate(made.args, _device_on_cpu)
        made.kwargs = torch.fx.node.map_aggregate(made.kwargs, _device_on_cpu)
        if node.op == "call_function" and _changes_device(node):
            # What was a transfer into fresh memory would be no operation at all on one device.
            known[node] = copy.call_function(torch.ops.aten.clone.default, (made,))
            known[node].meta = dict(made.meta)
    copy._codegen = graph.graph._codegen
    twin = torch.fx.GraphModule(graph, copy)
    twin.meta = dict(graph.meta)
    for name, value in list(twin.named_children()):
        if isinstance(value, torch.fx.GraphModule):
            setattr(twin, name, _with_values_on_cpu(retarget(value)))
    for node in copy.nodes:
        if node.op == "get_attr":
            value = _attribute(twin, node.target)
            if _is_mlu(value):
                # Constants are copied once, at compile time; a graph holds few and small ones.
                owner, _, name = node.target.rpartition(".")
                setattr(twin.get_submodule(owner), name, _copied_to_cpu(value))
    return twin


def _with_values_on_cpu(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A subgraph whose nodes note fake tensors on the CPU; those of the outermost graph are computed anew."""
    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = torch.utils._pytree.tree_map(_fake_on_cpu, node.meta["val"])
    return graph


def _copied_to_cpu(value: torch.Tensor) -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, FakeTensor):
        return _fake_on_cpu(value)
    with _disable_current_modes():
        return value.detach().cpu()


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _device_on_cpu(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == DEVICE else value


_TRANSFERS = ("aten._to_copy.default", "prims.device_put.default")


def _changes_device(node: torch.fx.Node) -> bool:
    result = node.meta.get("val")
    if str(node.target) not in _TRANSFERS or not isinstance(result, torch.Tensor):
        return False
    source = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else None
    return isinstance(source, torch.Tensor) and source.device.type != result.device.type


def _draws_numbers(graph: torch.fx.GraphModule) -> bool:
    for module in graph.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            tags = getattr(node.target, "tags", ())
            if torch.Tag.nondeterministic_seeded in tags or "inductor_seed" in str(node.target):
                return True
    return False


def _fake_on_cpu(value: Any) -> Any:
    """The fake CPU tensor of the same shape, strides and dtype as a fake tensor on ``mlu``; else the value itself."""
    if not _is_mlu(value):
        return value
    from torch._subclasses.fake_tensor import FakeTensor

    if not isinstance(value, FakeTensor):
        return _copied_to_cpu(value)
    mode = value.fake_mode
    suppressed = mode.shape_env.suppress_guards() if mode.shape_env is not None else nullcontext()
    with mode, suppressed:
        twin = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cpu")
    return twin.requires_grad_(value.requires_grad) if value.is_floating_point() or value.is_complex() else twin


@contextmanager
def _numbers_of(card: int) -> Iterator[None]:
    """Seed the CPU's generator from the card's, and put it back as it was."""
    generator = torch.default_generator
    before = generator.get_state()
    seed = torch.empty((), dtype=torch.int64, device=torch.device(DEVICE, card)).random_()
    generator.manual_seed(int(seed))
    try:
        yield
    finally:
        generator.set_state(before)


@functools.cache
def _code_types() -> tuple[Any, Any]:
    """``CodeOnCpu`` and ``GraphOnCard``, made late: their base belongs to inductor, which takes a second to import."""
    from torch._inductor.output_code import OutputCode

    from mlu_backend import build, core

    run_on_cpu = core._load_module("_mlu_retarget", str(build.core_library())).run_on_cpu

    class Code(OutputCode):
        """What inductor's pipeline takes for compiled code: called with a list, which it empties."""

        def __init__(self) -> None:
            self._boxed_call = True  # on the instance: wrappers copy instance attributes

        def post_compile(self, *_: Any) -> None:
            """Nothing is left to do: what is called here is finished."""

        def set_triton_bundle(self, triton_bundle: Any) -> None:
            """No Triton kernels on a CPU."""

    class CodeOnCpu(Code):
        """inductor's code for the CPU behind a call with tensors on the card."""

        def __init__(self, code: Any, targets: list[int], home: int, draws: bool) -> None:
            super().__init__()
            self.code = code
            self.targets = targets
            self.home = home
            self.draws = draws

        def __call__(self, inputs: Any) -> Any:
            with _numbers_of(self.home) if self.draws else nullcontext():
                return run_on_cpu(self.code, inputs, self.targets, self.home)

    class GraphOnCard(Code):
        """The captured graph, operator by operator."""

        def __init__(self, graph: torch.fx.GraphModule) -> None:
            super().__init__()
            self.graph = graph

        def __call__(self, inputs: Any) -> Any:
            arguments = list(inputs)
            inputs.clear()
            return self.graph(*arguments)

    return CodeOnCpu, GraphOnCard
