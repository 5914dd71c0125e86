"""MLU501: what a profiler of torch is asked to measure, and under which names the results stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import objects, sieve
from mlu_migrate.callargs import keyword_name
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rename import target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument
from mlu_migrate.vendors import is_kept

_KEYS = frozenset(
    ("cuda_time", "cuda_time_total", "self_cuda_time_total", "cuda_memory_usage", "self_cuda_memory_usage")
)
_WORDS = ("sort_by", "metric")
_POSITIONS = {"table": 0, "export_stacks": 1}  # method -> position of its sort key
_EVENTS = frozenset(("each:.key_averages", "each:.events", "each:.function_events", ".total_average", "each:.group_by"))
_OLD = "torch.autograd.profiler.profile"
_NEW = frozenset(("torch.profiler.profile", "torch.profiler.profiler.profile"))
_LEGACY = "torch.autograd.profiler_legacy.profile"
_UNSUPPORTED = ("experimental_config", "with_modules", "with_flops")
_ENUMS = {".DeviceType.CUDA": "PrivateUse1", ".ProfilerActivity.CUDA": "MLU"}


class ProfilerKeys(Rule):
    """
    Sort keys, metrics, event attributes and switches of torch's profilers.

    ## What it changes
    A sort key or metric given by keyword becomes mlu_...; given by position, or read as attribute of an event, it
    becomes device_... (2.4) or mlu_... (2.1, 2.3). `use_cuda=True` of the autograd profiler becomes `use_device="mlu"`.

    ## Before
        import torch
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            pass
        print(prof.key_averages().table(sort_by="cuda_time_total"))
        total = sum(e.self_cuda_time_total for e in prof.key_averages())

    ## After
        import torch
        import torch_mlu  # noqa: F401
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.MLU]) as prof:
            pass
        print(prof.key_averages().table(sort_by="mlu_time_total"))
        total = sum(e.self_device_time_total for e in prof.key_averages())

    ## Left alone
    Attributes of these names on objects of the project, `use_cuda=` of any other function, attributes of objects that
    nothing is known of (told).

    ## Source
    torch_mlu r2.4_develop, torch_mlu/profiler/__init__.py:13-44; r2.1_develop, torch_mlu/profiler/profiler_util.py:181
    and 353-365.
    """

    code = "MLU501"
    name = "profiler-keys"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("profiling",)

    @sieve.texts(_KEYS.__contains__)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Sort keys and metrics."""
        text = node.value
        if not isinstance(text, str) or is_kept(unit, node) or unit.is_docstring(node):
            return
        how = _key_use(unit, node)
        if how == "other":
            return
        new = _attribute_name(unit, text) if how in ("positional", "attribute") else text.replace("cuda", "mlu")
        edits = unit.replace_in_string(node, text, new)
        if edits is None:
            return
        if how == "unknown":
            yield self.found(
                unit,
                node,
                "key_unknown",
                edits,
                safety=Safety.UNSAFE,
                severity=Severity.WARNING,
                confidence=Confidence.LOW,
                old=text,
                new=new,
            )
        else:
            yield self.found(unit, node, "key", edits, old=text, new=new)

    @sieve.attributes(("CUDA", *_KEYS))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """Event attributes, and the enums where the table has no row for their path."""
        if node.attr == "CUDA":
            name = unit.name(node) or ""
            for ending, new in _ENUMS.items():
                if name.startswith("torch.") and name.endswith(ending) and not is_kept(unit, node):
                    if target(name, unit.settings.torch_mlu) is None:
                        yield self.found(unit, node, "enum", unit.rename_attr(node, new), old=name, new=new)
            return
        if not isinstance(node.ctx, ast.Load) or is_kept(unit, node):
            return
        new = _attribute_name(unit, node.attr)
        span = unit.attr_span(node)
        if objects.makers(unit, node.value) & _EVENTS:
            yield self.found(unit, span, "attribute", unit.rename_attr(node, new), old=node.attr, new=new)
        elif not _own_attribute(unit, node):
            yield self.found(
                unit,
                span,
                "attribute_unknown",
                severity=Severity.WARNING,
                confidence=Confidence.MEDIUM,
                old=node.attr,
                new=new,
            )

    @sieve.calls((_OLD, _LEGACY, *_NEW))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Switches of the profilers themselves."""
        name = unit.callee(node)
        if is_kept(unit, node):
            return
        for word in node.keywords:
            if word.arg == "use_cuda" and not _is_false(word.value):
                yield from self._use_cuda(node, word, name or "", unit)
            elif word.arg in _UNSUPPORTED and (
                _is_true(word.value) or word.arg == _UNSUPPORTED[0] and not _is_false(word.value)
            ):
                yield self.found(unit, word, "unsupported", severity=Severity.WARNING, word=word.arg)

    def _use_cuda(self, node: ast.Call, word: ast.keyword, name: str, unit: Unit) -> Iterator[Finding]:
        literal = _is_true(word.value)
        if name in _NEW:
            given = argument(node, "activities", 0) is not None
            yield self.found(unit, word, "activities_given" if given else "activities", severity=Severity.WARNING)
        elif name == _LEGACY:
            yield self.found(unit, word, "legacy", severity=Severity.WARNING)
        elif unit.settings.torch_mlu != "2.4":
            yield self.found(unit, word, "use_mlu", keyword_name(unit, word, "use_mlu"))
        else:
            start, end = unit.span(word.value)
            edits = [keyword_name(unit, word, "use_device")]
            if literal:
                edits.append(Edit(start, end, b'"mlu"'))
            else:
                wrap = isinstance(word.value, (ast.IfExp, ast.Lambda, ast.NamedExpr))
                edits.append(Edit(start, start, b'"mlu" if ' + (b"(" if wrap else b"")))
                edits.append(Edit(end, end, (b")" if wrap else b"") + b" else None"))
            if argument(node, "use_kineto") is None:
                edits.append(Edit(unit.end(word), unit.end(word), b", use_kineto=True"))
            yield self.found(unit, word, "use_device", edits, severity=Severity.WARNING)


def _attribute_name(unit: Unit, key: str) -> str:
    return key.replace("cuda", "device" if unit.settings.torch_mlu == "2.4" else "mlu")


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _key_use(unit: Unit, node: ast.AST, depth: int = 0) -> str:
    """How a sort key is used: keyword, positional, attribute (getattr on an event), unknown, or other (own data)."""
    parent = unit.parent(node)
    if isinstance(parent, ast.keyword):
        return "keyword" if parent.arg in _WORDS else "unknown"
    if isinstance(parent, ast.Call):
        leaf = last_word(parent.func)
        if node in parent.args and _POSITIONS.get(leaf) == parent.args.index(node):
            return "positional"
        if leaf in ("getattr", "hasattr") and len(parent.args) > 1 and parent.args[1] is node:
            return "attribute" if objects.makers(unit, parent.args[0]) & _EVENTS else "unknown"
        return "unknown"
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        return _key_use(unit, parent, depth)
    if isinstance(parent, (ast.Dict, ast.Subscript, ast.Compare)):
        return "other"
    name = None
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name, scope = parent.targets[0].id, unit.scope(parent.targets[0])
    elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
        scope = unit.index.scopes[parent]
        name = next((n for n, b in scope.bindings.items() if any(x.value is node for x in b)), None)
    if name is None or depth > 3:
        return "unknown"
    owner = unit.index.owner(scope, name) or scope
    uses = {_key_use(unit, load, depth + 1) for load in unit.index.loads.get((owner, name), ())} - {"unknown", "other"}
    return uses.pop() if len(uses) == 1 else "unknown"


def _own_attribute(unit: Unit, node: ast.Attribute) -> bool:
    """Whether an attribute of that name is surely or probably the project's own."""
    if (
        objects.stored_here(unit, node.attr)
        or isinstance(node.value, ast.Name)
        and node.value.id in ("self", "cls", "args")
    ):
        return True
    if node.attr != "cuda_time":
        return False
    return b"profiler" not in unit.data
