"""
``torch.compile`` on the device.

inductor generates no code for ``mlu``. Its own pipeline (decompositions, partitioning into forward and backward, joint
graph passes) runs as for any device, and only the last step is ours: a captured graph that names ``mlu`` is copied with
``cpu`` in place of it, compiled by inductor for the CPU, and called with CPU tensors over the same memory
(``csrc/retarget.cpp``). Nothing is copied at run time.

``register()`` puts this behind ``torch.compile``'s default backend for graphs with a tensor on ``mlu``; other graphs
and other backends (eager, aot_eager) are untouched. Numbers come from the card's generator: a graph that draws any
seeds the CPU's generator from it for the length of the call, so ``torch.mlu.manual_seed`` repeats a run, with other
numbers than eager mode draws, as inductor does on every device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

DEVICE = "mlu"


def register() -> None:
    """Let ``torch.compile``'s default backend take graphs on ``mlu``; further calls do nothing."""
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__
    if getattr(original, "handles_mlu", False):
        return

    def compile_graph(self: Any, model_: Any, inputs_: Any, *, config_patches: dict[str, Any] | None = None) -> Any:
        if not _on_mlu(model_, inputs_):
            return original(self, model_, inputs_, config_patches=config_patches)
        from torch._functorch import config as functorch_config
        from torch._inductor.compile_fx import compile_fx

        # The cache of whole compiled functions stores inductor's own results only; that of generated code stays on.
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx(
                model_,
                inputs_,
                inner_compile=compile_for_cpu,
                config_patches={**self.config, **(config_patches or {})},
                compile_region_name=self.name,
            )

    compile_graph.handles_mlu = True  # type: ignore[attr-defined]
    wrapper.__call__ = compile_graph


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
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.utils import output_node

    results = torch.utils._pytree.tree_leaves(output_node(graph).args)
    cards = [_card(result.meta.get("val")) if isinstance(result, torch.fx.Node) else -1 for result in results]
    draws = _draws_numbers(graph)
    twin = retarget(graph)
    inputs = [_fake_on_cpu(value) for value in example_inputs]
    _propagate(twin, inputs)
    home = next((card for card in (*cards, *map(_card, example_inputs)) if card >= 0), 0)
    return _code_type()(compile_fx_inner(twin, inputs, **options), cards, home, draws)


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
        target = _REPLACED.get(str(made.target))
        if target is not None:
            made.target = target()
        if node.op == "call_function" and _changes_device(node):
            # What was a transfer into fresh memory would be no operation at all on one device.
            known[node] = copy.call_function(torch.ops.aten.clone.default, (made,))
            known[node].meta = dict(made.meta)
    copy._codegen = graph.graph._codegen
    twin = torch.fx.GraphModule(graph, copy)
    twin.meta = dict(graph.meta)
    for name, value in list(twin.named_children()):
        if isinstance(value, torch.fx.GraphModule):
            setattr(twin, name, retarget(value))
    for node in copy.nodes:
        if node.op == "get_attr":
            value = _attribute(twin, node.target)
            if _is_mlu(value):
                # Constants are copied once, at compile time; a graph holds few and small ones.
                owner, _, name = node.target.rpartition(".")
                setattr(twin.get_submodule(owner), name, value.detach().cpu())
    return twin


# Operators torch has for PrivateUse1 devices alone, and what the CPU calls the same thing.
_REPLACED: dict[str, Any] = {}


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
        return value.detach().cpu()
    mode = value.fake_mode
    suppressed = mode.shape_env.suppress_guards() if mode.shape_env is not None else nullcontext()
    with mode, suppressed:
        twin = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cpu")
    return twin.requires_grad_(value.requires_grad) if value.is_floating_point() or value.is_complex() else twin


def _propagate(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Give every node the fake CPU value that inductor plans with."""
    from torch._dynamo.utils import detect_fake_mode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    mode = detect_fake_mode(inputs)
    if mode is None:
        mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad():
        FakeTensorProp(graph, mode=mode).propagate_dont_convert_inputs(*inputs)


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


_made: Any = None


def _code_type() -> Any:
    """``CodeOnCpu``, made late: its base class belongs to inductor, which takes a second to import."""
    global _made
    if _made is not None:
        return _made
    from torch._inductor.output_code import OutputCode

    from mlu_backend import core

    run_on_cpu = core.extension().run_on_cpu

    class CodeOnCpu(OutputCode):
        """inductor's compiled code behind a call with tensors on the card; takes a list and empties it."""

        def __init__(self, code: Any, cards: list[int], home: int, draws: bool) -> None:
            self._boxed_call = True  # on the instance: wrappers copy instance attributes
            self.code = code
            self.cards = cards
            self.home = home
            self.draws = draws

        def __call__(self, inputs: Any) -> Any:
            with _numbers_of(self.home) if self.draws else nullcontext():
                return run_on_cpu(self.code, inputs, self.cards, self.home)

        def post_compile(self, *_: Any) -> None:
            """Nothing is left to do: the code inside was finished by inductor."""

        def set_triton_bundle(self, triton_bundle: Any) -> None:
            """No Triton kernels on a CPU."""

    _made = CodeOnCpu
    return CodeOnCpu
