"""MLU502: arguments of graphs, and raw handles of streams, events and graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import objects, sieve
from mlu_migrate.callargs import keyword_name
from mlu_migrate.model import Confidence, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument
from mlu_migrate.vendors import is_kept

_GRAPH = frozenset(("torch.cuda.graph", "torch.cuda.graphs.graph", "torch.mlu.graph", "torch.mlu.graphs.graph"))
_GRAPHS = frozenset(
    ("torch.cuda.CUDAGraph", "torch.cuda.graphs.CUDAGraph", "torch.mlu.MLUGraph", "torch.mlu.graphs.MLUGraph")
)
_STREAMS = frozenset(
    f"torch.{vendor}.{name}"
    for vendor in ("cuda", "mlu")
    for name in (
        "Stream",
        "ExternalStream",
        "current_stream",
        "default_stream",
        "streams.Stream",
        "streams.ExternalStream",
    )
)
_EVENTS = frozenset(("torch.cuda.Event", "torch.mlu.Event", "torch.cuda.streams.Event", "torch.mlu.streams.Event"))
_HANDLES = {"cuda_stream": ("mlu_stream", _STREAMS), "cuda_event": ("mlu_event", _EVENTS)}
# Parameters of torch 2.13 that torch_mlu's functions lack (torch_mlu/mlu/graphs.py:41-115 and 143).
_LACKING = {"keep_graph": _GRAPHS, "enable_annotations": _GRAPH, "check_input_liveness": _GRAPH}
_MEMBERS = frozenset(
    ("raw_cuda_graph", "raw_cuda_graph_exec", "instantiate", "get_graph_data", "get_currently_capturing_graph")
)


class GraphAndHandle(Rule):
    """
    Arguments of graphs, and raw handles of streams and events.

    ## What it changes
    The keyword `cuda_graph=` of `torch.cuda.graph` becomes `mlu_graph=`. The handle `.cuda_stream` of a stream becomes
    `.mlu_stream`, `.cuda_event` of an event becomes `.mlu_event`, where the object is known to be one.

    ## Before
        import torch

        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(cuda_graph=g):
            handle = torch.cuda.current_stream().cuda_stream

    ## After
        import torch
        import torch_mlu  # noqa: F401

        g = torch.mlu.MLUGraph()
        with torch.mlu.graph(mlu_graph=g):
            handle = torch.mlu.current_stream().mlu_stream

    ## Left alone
    Attributes of these names that the project gives its own objects; handles of objects nothing is known of (told).

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/graphs.py:41-143, torch_mlu/mlu/streams.py:32 and 159.
    """

    code = "MLU502"
    name = "graph-and-handle"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("graphs",)

    @sieve.calls(("functools.partial", *_GRAPH, *_GRAPHS))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """`torch.cuda.graph(...)` and `torch.cuda.CUDAGraph(...)`, also through functools.partial."""
        name = unit.callee(node)
        if name == "functools.partial" and node.args:
            name = unit.name(node.args[0])
        if name not in _GRAPH and name not in _GRAPHS or is_kept(unit, node):
            return
        for word in node.keywords:
            if word.arg == "cuda_graph" and name in _GRAPH:
                start = unit.start(word)
                edit = keyword_name(unit, word, "mlu_graph")
                yield self.found(unit, (start, start + len("cuda_graph")), "keyword", edit)
            elif name in _LACKING.get(word.arg or "", ()):
                yield self.found(
                    unit, word, "lacking", severity=Severity.ERROR, word=word.arg or "", callee=unit.text(node.func)
                )

    @sieve.attributes(("capture_begin", *_HANDLES, *_MEMBERS))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Handles, and members of graphs that MLUGraph lacks."""
        if node.attr in _HANDLES:
            if not is_kept(unit, node) and isinstance(node.ctx, ast.Load):
                yield from self._handle(node, unit)
        elif node.attr in _MEMBERS and objects.makers(unit, node.value) & _GRAPHS and not is_kept(unit, node):
            yield self.found(unit, unit.attr_span(node), "member", severity=Severity.ERROR, member=node.attr)
        elif node.attr == "capture_begin" and objects.makers(unit, node.value) & _GRAPHS and not is_kept(unit, node):
            call = unit.parent(node)
            if isinstance(call, ast.Call) and argument(call, "capture_error_mode", 1) is None:
                yield self.found(unit, unit.attr_span(node), "mode")

    def _handle(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        new, kinds = _HANDLES[node.attr]
        span = unit.attr_span(node)
        made = objects.makers(unit, node.value)
        if made & kinds or any(m.removeprefix("each:") in kinds for m in made):
            yield self.found(
                unit, span, "handle", unit.rename_attr(node, new), severity=Severity.WARNING, old=node.attr, new=new
            )
        elif objects.stored_here(unit, node.attr) or unit.name(node) is not None:
            return
        else:
            yield self.found(
                unit,
                span,
                "handle_unknown",
                severity=Severity.WARNING,
                confidence=Confidence.MEDIUM,
                old=node.attr,
                new=new,
            )
