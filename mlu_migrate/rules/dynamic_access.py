"""MLU105: names of torch reached through text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import dynamic, sieve, sinks, typetexts
from mlu_migrate.dynamic import Spelled
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rename import target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, is_text
from mlu_migrate.vendors import is_kept

_ACCESS = frozenset(("getattr", "hasattr", "setattr", "delattr"))
_IMPORT = frozenset(("importlib.import_module", "__import__", "importlib.util.find_spec", "pytest.importorskip"))
_MODULES = frozenset(("sys.modules.get", "sys.modules.pop"))
_EVALUATED = frozenset(("eval", "exec", "compile"))
_TEXT_TAKERS = frozenset(
    ("patch", "setattr", "delattr", "setitem", "delitem", "multiple", "import_module", "importorskip")
)
# Functions that hardly anything but torch.cuda has.
_FUNCTIONS = frozenset(
    "is_available device_count synchronize empty_cache current_device set_device manual_seed manual_seed_all "
    "memory_allocated max_memory_allocated memory_reserved reset_peak_memory_stats get_device_name "
    "get_device_properties get_device_capability mem_get_info current_stream".split()
)
_TIMED = frozenset(("timeit.timeit", "timeit.repeat", "timeit.Timer", "torch.utils.benchmark.Timer"))


class DynamicAccess(Rule):
    """
    Names of torch reached through text.

    ## What it changes
    The text in `getattr(torch, "cuda")`, `hasattr(torch.cuda, "nvtx")`, `importlib.import_module("torch.cuda.amp")`,
    `torch.__dict__["cuda"]` and `sys.modules["torch.cuda"]`. Code inside strings is told.

    ## Before
        import torch

        if hasattr(torch, "cuda"):
            getattr(torch.cuda, "nvtx").range_push("step")

    ## After
        import torch
        import torch_mlu  # noqa: F401

        if hasattr(torch, "mlu"):
            getattr(torch.mlu, "cnpx").range_push("step")

    ## Left alone
    Names chosen at run time (`getattr(torch, device.type)` works on an MLU too), `hasattr` on a name that torch.mlu
    lacks (it is False there, as it should be), and other libraries.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:61 (registers `torch.mlu`, also in `sys.modules`).
    """

    code = "MLU105"
    name = "dynamic-access"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("names",)

    @sieve.calls(_ACCESS | _IMPORT | _MODULES | _EVALUATED | _TIMED, ends=(".skipif", ".xfail"))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """getattr and its family, imports by text, and evaluated code."""
        name = unit.callee(node) or ""
        if not (node.args or name in _TIMED) or is_kept(unit, node):
            return
        if name in _ACCESS and len(node.args) > 1:
            if is_text(node.args[1]):
                yield from self._member(unit, node, name)
            elif name == "getattr":
                yield from self._chosen(unit, node)
        elif name in _IMPORT and is_text(node.args[0]):
            yield from self._path(unit, node.args[0])
        elif name in _MODULES and is_text(node.args[0]):
            yield from self._path(unit, node.args[0], loaded_only=True)
        elif name.endswith((".skipif", ".xfail")) and is_text(node.args[0]):
            if _mentions_code(node.args[0]):  # pytest evaluates the text
                yield self.found(unit, node.args[0], "code", severity=Severity.WARNING, function=name)
        elif name in _EVALUATED or name in _TIMED:
            for given in (*node.args, *(k.value for k in node.keywords)):
                if _mentions_code(given):
                    yield self.found(unit, given, "code", severity=Severity.WARNING, function=name)

    def visit_Subscript(self, node: ast.Subscript, unit: Unit) -> Iterator[Finding]:
        """`torch.__dict__["cuda"]`, `sys.modules["torch.cuda"]`."""
        if not is_text(node.slice) or is_kept(unit, node):
            return
        name = unit.name(node.value) or ""
        text = node.slice.value  # type: ignore[attr-defined]
        if name == "sys.modules":
            yield from self._path(unit, node.slice, loaded_only=True)
            return
        owner = None
        if name.startswith("torch.") and name.endswith(".__dict__") and isinstance(node.value, ast.Attribute):
            owner = node.value.value
        elif isinstance(node.value, ast.Call) and unit.callee(node.value) == "vars" and node.value.args:
            owner = node.value.args[0]
        if owner is not None:
            yield from self._decided(unit, node.slice, dynamic.member(unit, owner, text), reads=True)

    @sieve.attributes(_FUNCTIONS)
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`libs["t"].cuda.synchronize()`: a function of torch.cuda, and what it is asked of cannot be followed."""
        owner = node.value
        if not isinstance(owner, ast.Attribute) or owner.attr != "cuda":
            return
        if isinstance(owner.value, ast.Name) and owner.value.id in ("self", "cls"):  # an object of their own
            return
        unknown = unit.names.all_of(owner.value) == frozenset(("?",))
        if unknown and b"torch" in unit.data and not is_kept(unit, node):
            yield self.found(
                unit,
                node,
                "unfollowed",
                severity=Severity.WARNING,
                safety=Safety.MANUAL,
                confidence=Confidence.LOW,
                text=unit.text(node),
                function=node.attr,
            )

    def visit_Compare(self, node: ast.Compare, unit: Unit) -> Iterator[Finding]:
        """`"torch.cuda" in sys.modules`."""
        if is_text(node.left) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            if unit.name(node.comparators[0]) == "sys.modules" and not is_kept(unit, node):
                yield from self._path(unit, node.left, loaded_only=True)

    @sieve.texts(lambda text: text.startswith("torch.cuda."))
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """A dotted path in a place nothing is known of: `{"_target_": "torch.cuda.amp.GradScaler"}`."""
        text = node.value
        if not isinstance(text, str) or not text.startswith("torch.cuda.") or not dynamic.PATH.fullmatch(text):
            return
        if text.endswith("Tensor") or unit.is_docstring(node) or is_kept(unit, node) or _has_an_owner(unit, node):
            return
        spelled = dynamic.path(unit, text)
        if spelled.status == "missing":
            yield self.found(
                unit,
                node,
                "missing",
                severity=Severity.WARNING,
                confidence=Confidence.LOW,
                cuda=text,
                note=dynamic.note(spelled),
            )
        elif spelled.status == "rename":
            edits = unit.replace_in_string(node, text, spelled.text)
            if edits:
                yield self.found(
                    unit,
                    node,
                    "path",
                    edits,
                    safety=Safety.UNSAFE,
                    severity=Severity.WARNING,
                    confidence=Confidence.LOW,
                    cuda=text,
                    mlu=spelled.text,
                )

    def _member(self, unit: Unit, node: ast.Call, function: str) -> Iterator[Finding]:
        text = node.args[1].value  # type: ignore[attr-defined]
        base = unit.name(node.args[0]) or ""
        if base == "torch._C" and "cuda" in text.lower():
            if target(f"torch._C.{text}", unit.settings.torch_mlu) is not None:
                yield self.found(unit, node.args[1], "private", severity=Severity.WARNING, cuda=f"torch._C.{text}")
            return
        spelled = dynamic.member(unit, node.args[0], text)
        reads = function == "getattr" and len(node.args) == 2
        yield from self._decided(unit, node.args[1], spelled, reads=reads or function in ("setattr", "delattr"))
        if function == "getattr" and spelled.status in ("rename", "same"):
            yield from self._beyond(unit, node)

    def _decided(self, unit: Unit, node: ast.expr, spelled: Spelled, *, reads: bool) -> Iterator[Finding]:
        if spelled.status == "missing" and reads:
            yield self.found(
                unit, node, "missing", severity=Severity.ERROR, cuda=spelled.name, note=dynamic.note(spelled)
            )
        elif spelled.status == "missing":
            yield self.found(unit, node, "absent", cuda=spelled.name, note=dynamic.note(spelled))
        elif spelled.status == "rename":
            text = node.value  # type: ignore[attr-defined]
            edits = unit.replace_in_string(node, text, spelled.text)
            if edits is None:
                yield self.found(unit, node, "by_hand", severity=Severity.WARNING, cuda=text, mlu=spelled.text)
            else:
                yield self.found(unit, node, "renamed", edits, cuda=text, mlu=spelled.text)

    def _beyond(self, unit: Unit, call: ast.Call) -> Iterator[Finding]:
        """`getattr(torch, "cuda").nvtx.range_push`: the words behind the call."""
        links: list[ast.Attribute] = []
        outer = unit.parent(call)
        while isinstance(outer, ast.Attribute):
            links.append(outer)
            outer = unit.parent(outer)
        full = unit.name(links[-1]) if links else None
        if full is None:
            return
        found = target(full, unit.settings.torch_mlu)
        if found is None or found.mlu is None:
            return  # MLU102 tells the whole name
        new = found.mlu.split(".")[-len(links) :]
        for link, word in zip(links, new, strict=False):
            if link.attr != word:
                yield self.found(
                    unit, unit.attr_span(link), "renamed", unit.rename_attr(link, word), cuda=link.attr, mlu=word
                )

    def _chosen(self, unit: Unit, node: ast.Call) -> Iterator[Finding]:
        base = unit.name(node.args[0])
        if base is not None and (base == "torch.cuda" or base.startswith("torch.cuda.")):
            yield self.found(unit, node, "chosen", confidence=Confidence.MEDIUM, name=unit.text(node.args[1]))

    def _path(self, unit: Unit, node: ast.expr, *, loaded_only: bool = False) -> Iterator[Finding]:
        text = node.value  # type: ignore[attr-defined]
        if not (text == "torch.cuda" or text.startswith("torch.cuda.")):
            return
        spelled = dynamic.path(unit, text)
        if spelled.status == "missing":
            yield self.found(unit, node, "missing", severity=Severity.ERROR, cuda=text, note=dynamic.note(spelled))
        elif spelled.status == "rename" and loaded_only and text != "torch.cuda":
            yield self.found(unit, node, "not_loaded", severity=Severity.WARNING, cuda=text, mlu=spelled.text)
        elif spelled.status == "rename":
            edits: tuple[Edit, ...] | None = unit.replace_in_string(node, text, spelled.text)
            if edits:
                yield self.found(unit, node, "renamed", edits, cuda=text, mlu=spelled.text)


def _mentions_code(node: ast.expr) -> bool:
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and dynamic.CODE.search(n.value)
        for n in ast.walk(node)
    )


def _has_an_owner(unit: Unit, node: ast.Constant) -> bool:
    """Places that are decided elsewhere: mocks, imports, messages, comparisons, annotations."""
    if node in typetexts.texts(unit):
        return True
    parent = unit.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg in ("help", "reason", "msg", "match", "target")
    if isinstance(parent, ast.Call):
        leaf = last_word(parent.func)
        if leaf in sinks.PROSE or leaf in _TEXT_TAKERS:
            return True
        return unit.callee(parent) in _IMPORT | _MODULES | _EVALUATED | _TIMED | _ACCESS
    if isinstance(parent, ast.Subscript):
        return unit.name(parent.value) == "sys.modules"
    if isinstance(parent, ast.Compare):
        return unit.name(parent.comparators[0]) == "sys.modules"
    if isinstance(parent, ast.Dict):  # patch.dict(sys.modules, {...}) is MLU106's
        call = unit.parent(parent)
        return isinstance(call, ast.Call) and any(dynamic.is_modules(unit, a) for a in call.args)
    return isinstance(parent, (ast.Raise, ast.Assert, ast.JoinedStr, ast.BinOp))
