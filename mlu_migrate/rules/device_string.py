"""MLU203: texts that name a CUDA device and reach a device sink."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import sieve, sinks, strings, vendors
from mlu_migrate.decide import ASSIGNED, StringRule
from mlu_migrate.flow import Proof
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.sinks import DEVICE
from mlu_migrate.unit import Unit, argument, is_text
from mlu_migrate.vendors import is_kept

_REPR = re.compile(r"device\(type=\\?['\"]cuda\\?['\"]")
# A regular expression over a device string: cuda and an index, or cuda as one of several types.
_PATTERN = re.compile(r"^\^?[(\[]?(\?:|\?P<\w+>)?(cpu\|)?cuda(:|\(|\||\)|\$|\\d|\[|\?|$)")
# A key and a device in a text of settings: JSON, YAML, TOML.
_SETTING = re.compile(
    r"(?<![\w.-])(?P<key>\w*device\w*)\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?"
    r"(?P<value>cuda(?::\d+)?)\\?[\"']?[ \t]*(?=[,}\n\\]|$)"
)
_READERS = frozenset("loads safe_load load full_load create from_string read_string from_json parse_raw".split())


class DeviceString(StringRule):
    """
    Device strings: "cuda", "cuda:0" and everything composed of them.

    ## What it changes
    The word `cuda` of a text that reaches a device: `torch.device`, `.to`, `device=`, autocast, comparisons with a
    device's type,
    defaults and options whose name says device, and every variable that flows into one of these. Tables, membership
    tests and
    `match` gain an `mlu` member and keep the rest.

    ## Before
        import torch

        dev = "cuda:%d" % rank if torch.cuda.is_available() else "cpu"
        x = torch.ones(2, device=dev)
        if x.device.type in ("cuda", "xpu"):
            pass

    ## After
        import torch
        import torch_mlu  # noqa: F401

        dev = "mlu:%d" % rank if torch.mlu.is_available() else "cpu"
        x = torch.ones(2, device=dev)
        if x.device.type in ("cuda", "mlu", "xpu"):
            pass

    ## Left alone
    File names, messages, keys of saved data, choices of an algorithm, devices of other libraries. An exact device
    string whose use
    cannot be told is reported and changed only with `--unsafe`.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:60 (renames PrivateUse1 to `mlu`).
    """

    code = "MLU203"
    name = "device-string"
    severity = Severity.INFO
    topics = ("devices",)
    needs = (b"cu", b"CUDA")
    kind = DEVICE

    @sieve.texts(lambda text: "cuda" in text or ASSIGNED.fullmatch(text) is not None)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """Plain and composed literals."""
        if isinstance(node.value, str) and "cuda" in node.value and self.kind.text.fullmatch(node.value):
            if not isinstance(unit.parent(node), ast.JoinedStr):
                yield from self.decide(node, node.value, unit)
        elif isinstance(node.value, str) and ASSIGNED.fullmatch(node.value):
            yield from self.assigned(node, unit)
            if not isinstance(unit.parent(node), (ast.List, ast.Tuple, ast.JoinedStr)):
                yield from self.commands(node, unit)
        elif isinstance(node.value, str) and "device" in node.value and _SETTING.search(node.value):
            yield from self._settings(node, unit)
        elif isinstance(node.value, str) and _in_a_command(node.value):
            if _REPR.search(node.value):
                yield from self._shown(node, unit)
            elif not isinstance(unit.parent(node), ast.JoinedStr):
                yield from self.commands(node, unit)
        elif isinstance(node.value, str) and "type='cuda'" in node.value:
            yield from self._shown(node, unit)

    def _settings(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`json.loads('{"device": "cuda"}')`: settings written as text, where something reads them."""
        if not _is_read(unit, node) or is_kept(unit, node):
            return
        for piece in strings.pieces(unit.data, *unit.span(node)) or ():
            for match in _SETTING.finditer(piece.raw):
                if sinks.says(self.kind, match["key"]):
                    start = piece.start + len(piece.raw[: match.start("value")].encode("utf-8"))
                    edit = Edit(start, start + len("cuda"), b"mlu")
                    why = f"key {match['key']}"
                    yield self.found(unit, (start, start + len(match["value"])), "replaced", edit, why=why, text="cuda")

    def _shown(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`repr(x.device) == "device(type='cuda', index=0)"`: what a device prints of itself."""
        parent = unit.parent(node)
        if not _REPR.search(str(node.value)) or unit.is_docstring(node) or is_kept(unit, node):
            return
        if isinstance(parent, ast.Call):
            leaf = last_word(parent.func)
            asked = leaf.startswith("assert") or leaf in ("startswith", "endswith", "count", "find", "eq_")
        else:
            asked = isinstance(parent, ast.Compare)
        edits = unit.replace_in_string(node, "cuda", "mlu")
        if not asked or edits is None:
            yield self.found(
                unit,
                node,
                "unknown",
                edits or (),
                safety=Safety.UNSAFE if edits else Safety.MANUAL,
                severity=Severity.INFO,
                confidence=Confidence.LOW,
                text="device(type='cuda')",
            )
            return
        yield self.found(unit, node, "replaced", edits, why="what a device prints", text="cuda")

    def visit_ClassDef(self, node: ast.ClassDef, unit: Unit) -> Iterator[Finding]:
        """`CUDA = auto()` of a StrEnum: the text is the member's own name."""
        if not any(last_word(base) == "StrEnum" for base in node.bases) and not any(
            isinstance(item, ast.FunctionDef) and item.name == "_generate_next_value_" for item in node.body
        ):
            return
        for item in node.body:
            target = item.targets[0] if isinstance(item, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id.lower() == "cuda" and not is_kept(unit, item):
                value = item.value  # type: ignore[attr-defined]
                if isinstance(value, ast.Call) and last_word(value.func) == "auto":
                    loads = unit.index.attributes.get(target.id, ())
                    own = [n for n in loads if isinstance(n.value, ast.Name) and n.value.id == node.name]
                    sure = any(unit.flow.of(load, self.kind).proof >= Proof.NAMED for load in own)
                    yield self.found(
                        unit,
                        value,
                        "auto",
                        unit.replace(value, '"mlu"'),
                        safety=Safety.SAFE if sure else Safety.UNSAFE,
                        severity=Severity.INFO if sure else Severity.WARNING,
                        member=f"{node.name}.{target.id}",
                    )

    def visit_Subscript(self, node: ast.Subscript, unit: Unit) -> Iterator[Finding]:
        """`int(device[5:])`: what stands behind "cuda:" begins one character earlier behind "mlu:"."""
        cut = node.slice
        if not isinstance(cut, ast.Slice) or cut.upper is not None or not isinstance(cut.lower, ast.Constant):
            return
        if cut.lower.value == len("cuda:") and unit.flow.holds(node.value, self.kind).proof >= Proof.NAMED:
            outer = unit.parent(node)
            counted = isinstance(outer, ast.Call) and unit.name(outer.func) == "int"
            edit = unit.replace(cut.lower, str(len("mlu:")))
            safety = Safety.SAFE if counted else Safety.UNSAFE
            yield self.found(unit, node, "sliced", edit, safety=safety, severity=Severity.WARNING)

    @sieve.calls(("dict",), roots=("re.",))
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Regular expressions over device strings, and `dict(cuda=..., cpu=...)` as a dispatch table."""
        name = unit.callee(node) or ""
        if name.startswith("re.") and node.args and is_text(node.args[0]) and not is_kept(unit, node):
            yield from self._pattern(node, node.args[0], name, unit)
        elif name == "dict" and any(k.arg == "cuda" for k in node.keywords):
            yield from self._keywords(node, unit)

    def _pattern(self, node: ast.Call, text: ast.expr, name: str, unit: Unit) -> Iterator[Finding]:
        assert isinstance(text, ast.Constant) and isinstance(text.value, str)
        if not _PATTERN.search(text.value):
            return
        subject = argument(node, "string", 2 if name in ("re.sub", "re.subn") else 1) if name != "re.compile" else None
        held = unit.flow.holds(subject, self.kind) if subject is not None else unit.flow.of(node, self.kind)
        edits = unit.replace_in_string(text, "cuda", "mlu")
        if edits is None or held.proof is Proof.OTHER:
            return
        safety = Safety.SAFE if held.proof >= Proof.NAMED else Safety.UNSAFE
        yield self.found(unit, text, "pattern", edits, safety=safety, text=text.value)

    def _keywords(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        words = {k.arg for k in node.keywords}
        if "mlu" in words or not words & sinks.OTHER_DEVICES:
            return
        mine = next(k for k in node.keywords if k.arg == "cuda")
        if mine.value in {k.node for k in vendors.kept(unit)}:
            end = unit.end(mine.value)
            text = b", mlu=" + self.translated(mine.value, unit)
            yield self.found(unit, mine, "entry", Edit(end, end, text), why="table of devices")

    def visit_JoinedStr(self, node: ast.JoinedStr, unit: Unit) -> Iterator[Finding]:
        """f-strings that begin with the device type."""
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value in ("cuda", "cuda:"):
            rest = node.values[1:]
            if len(rest) <= 1 and all(isinstance(v, ast.FormattedValue) for v in rest):
                yield from self.decide(node, "cuda:", unit)
        elif any(isinstance(v, ast.Constant) and _in_a_command(str(v.value)) for v in node.values):
            yield from self.commands(node, unit)


def _is_read(unit: Unit, node: ast.expr) -> bool:
    """Whether a text is given to a function that reads settings, itself or through a variable."""
    outer = unit.parent(node)
    if isinstance(outer, ast.Attribute) and outer.attr in ("encode", "strip"):
        outer = unit.parent(unit.parent(outer) or outer)
    if isinstance(outer, ast.Call):
        leaf = last_word(outer.func)
        return leaf in _READERS or leaf in ("StringIO", "dedent") and _is_read(unit, outer)
    if isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name):
        owner = unit.index.owner(unit.scope(outer), outer.targets[0].id)
        loads = unit.index.loads.get((owner, outer.targets[0].id), ()) if owner else ()
        return any(_is_read(unit, load) for load in loads)
    return False


def _in_a_command(text: str) -> bool:
    return "cuda" in text and ("-" in text or "=cuda" in text)
