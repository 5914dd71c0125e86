"""From what flow knows about a literal to a finding: replace, gain a member, keep, or ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from mlu_migrate import commandtexts, loading, methodtexts, sinks
from mlu_migrate.configs import groups
from mlu_migrate.flow import Proof, Shape, Use
from mlu_migrate.flow.uses import LABEL
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word, under
from mlu_migrate.rename import mapped, spell
from mlu_migrate.rule import Rule
from mlu_migrate.sinks import Kind
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept, supports_mlu

# A word that gives an option or a setting its value: `--device=cuda`, `trainer.device=cuda:0`.
ASSIGNED = re.compile(r"(--?|[+~]{0,2})[A-Za-z][\w./@-]*=(cuda(:\d+)?|nccl)")


class StringRule(Rule):
    """Shared by the rules about device strings and process-group backends."""

    kind: ClassVar[Kind]
    safety = Safety.SAFE

    def decide(self, node: ast.expr, text: str, unit: Unit) -> Iterator[Finding]:
        """The finding for one literal."""
        if unit.is_docstring(node) or _inside_annotation_prose(unit, node):
            return
        if is_kept(unit, node):
            return  # told as a whole by MLU005 or by the table's finding
        if _owned_elsewhere(unit, node):
            return
        if _chooses_a_file(unit, node):
            yield self.found(unit, node, "kept", text=text, why="it chooses a file of the configuration")
            return
        use = unit.flow.of(node, self.kind)
        if use.shape is Shape.MEMBER and use.proof >= Proof.SIBLING:
            yield self._gain(node, unit, use)
        elif use.shape is Shape.CASE and use.proof >= Proof.SIBLING:
            end = unit.end(node)
            new = self._new_literal(node, unit)
            yield self.found(unit, node, "case", Edit(end, end, b" | " + new), why=use.why)
        elif use.shape is Shape.KEY and isinstance(unit.parent(node), ast.Dict):
            yield self._entry(node, unit, use)
        elif use.why == LABEL:
            if not _is_told_there(unit, node):
                yield self.found(unit, node, "kept", text=text, why="a word of the trainer")
        elif use.proof is Proof.OTHER or use.shape is Shape.KEY:
            kept = self.found(
                unit, node, "kept", safety=Safety.MANUAL, confidence=Confidence.MEDIUM, text=text, why=use.why
            )
            yield with_its_call(kept, node, unit)
        elif use.proof is Proof.NONE or use.proof < Proof.SINK and self.doubtful(unit, use):
            yield from self._unknown(node, text, unit)
        else:
            confidence = Confidence.HIGH if use.proof >= Proof.NAMED else Confidence.MEDIUM
            yield from self._replace(node, text, unit, use, confidence)

    def commands(self, node: ast.Constant | ast.JoinedStr, unit: Unit) -> Iterator[Finding]:
        """`"python train.py --device cuda"`: the value of an option inside a command line."""
        if unit.is_docstring(node) or is_kept(unit, node):
            return
        for start, end, word, option, sure in commandtexts.options(unit, node, self.kind):
            chosen = groups.chosen(unit.facts.config_groups, option, word)
            if chosen:
                yield self.found(unit, (start, end), "kept", text=word, why=f"it chooses {chosen}.yaml")
                continue
            yield self.found(
                unit,
                (start, start + len(word.encode("utf-8"))),
                "command",
                Edit(start, end, self.kind.new.encode()),
                safety=Safety.SAFE if sure else Safety.UNSAFE,
                severity=Severity.INFO if sure else Severity.WARNING,
                confidence=Confidence.HIGH if sure else Confidence.LOW,
                text=word,
                option=option,
            )

    def assigned(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """`["--device=cuda"]`, `overrides=["trainer.backend=nccl"]`: a word of a command line or of settings."""
        option, _, given = str(node.value).partition("=")
        named = sinks.says(self.kind, option.rpartition(".")[2].lstrip("+~"))
        if not named or not self.kind.text.fullmatch(given) or unit.is_docstring(node) or is_kept(unit, node):
            return
        if isinstance(unit.parent(node), (ast.List, ast.Tuple)):
            chosen = groups.chosen(unit.facts.config_groups, option, given)
            if chosen:
                yield self.found(unit, node, "kept", text=given, why=f"it chooses {chosen}.yaml")
                return
            edits = unit.replace_in_string(node, f"={self.kind.old}", f"={self.kind.new}")
            yield self.found(unit, node, "replaced", edits or (), why=f"option {option}", text=given)

    def _replace(self, node: ast.expr, text: str, unit: Unit, use: Use, confidence: Confidence) -> Iterator[Finding]:
        edits = self.spelled(node, text, unit)
        if edits is not None:
            edits += _shorter_slice(unit, node, len(text), len(self.kind.new) - len(self.kind.old))
        if edits is None:
            yield self.found(unit, node, "by_hand", safety=Safety.MANUAL, severity=Severity.WARNING, text=text)
        else:
            told = self.found(unit, node, "replaced", edits, confidence=confidence, why=use.why, text=text)
            yield with_its_call(told, node, unit) if supports_mlu(unit) else told  # it waits for --unsafe there

    def doubtful(self, unit: Unit, use: Use) -> bool:
        """Whether the word may mean something of the project's own, so that a name that says device is no proof."""
        return False

    def spelled(self, node: ast.expr, text: str, unit: Unit) -> tuple[Edit, ...] | None:
        """The edits inside the literal, None where its characters are not spelled out."""
        return unit.replace_in_string(node, self.kind.old, self.kind.new)

    def _unknown(self, node: ast.expr, text: str, unit: Unit) -> Iterator[Finding]:
        edits = self.spelled(node, text, unit)
        if edits is not None:
            unknown = self.found(
                unit,
                node,
                "unknown",
                edits,
                safety=Safety.UNSAFE,
                severity=Severity.WARNING,
                confidence=Confidence.LOW,
                text=text,
            )
            yield with_its_call(unknown, node, unit)

    def _new_literal(self, node: ast.expr, unit: Unit) -> bytes:
        return unit.data[unit.start(node) : unit.end(node)].replace(self.kind.old.encode(), self.kind.new.encode())

    def _gain(self, node: ast.expr, unit: Unit, use: Use) -> Finding:
        """`in ("cuda", "xpu")`: the new member stands behind the old one."""
        end = unit.end(node)
        return self.found(unit, node, "member", Edit(end, end, b", " + self._new_literal(node, unit)), why=use.why)

    def translated(self, value: ast.expr, unit: Unit) -> bytes:
        """The source of a table's value with its CUDA words renamed."""
        text = unit.data[unit.start(value) : unit.end(value)]
        edits: list[Edit] = []
        for inner in ast.walk(value):
            name = _torch_name(unit, inner) if isinstance(inner, ast.Attribute) else None
            if (
                isinstance(inner, ast.Attribute)
                and name is not None
                and name.startswith("torch.")
                and mapped(name, unit.settings.torch_mlu) != name
            ):
                outer = unit.parent(inner)
                if not (isinstance(outer, ast.Attribute) and unit.name(outer)):
                    edits += spell(unit, inner, name, mapped(name, unit.settings.torch_mlu)) or ()
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                if sinks.DEVICE.text.fullmatch(inner.value):
                    edits += unit.replace_in_string(inner, "cuda", "mlu") or ()
                elif inner.value in ("nccl", "NCCL"):
                    edits += unit.replace_in_string(inner, inner.value, "cncl") or ()
        base = unit.start(value)
        out, position = b"", 0
        for edit in sorted(edits):
            out += text[position : edit.start - base] + edit.text
            position = edit.end - base
        out += text[position:]
        return out

    def _entry(self, node: ast.expr, unit: Unit, use: Use) -> Finding:
        """A dispatch table: the entry is repeated for mlu, with the CUDA words of its value renamed."""
        table = unit.parent(node)
        assert isinstance(table, ast.Dict)
        value = next(v for k, v in zip(table.keys, table.values) if k is node)
        out = self.translated(value, unit)
        end = unit.end(value)
        while unit.data[end : end + 1] == b")" and _closes(unit, node, end):
            end += 1
        entry = self._new_literal(node, unit) + b": " + out
        span = (unit.start(node), unit.end(value))
        own_line = unit.source.position(unit.start(node))[0] != unit.source.position(unit.start(table))[0]
        line = unit.source.line_of(unit.start(node))
        indent = unit.data[unit.source.starts[line - 1] : unit.start(node)]
        if own_line and not indent.strip():
            after = next_line(unit, end)
            if after is not None:
                return self.found(
                    unit, span, "entry", Edit(after, after, indent + entry + b"," + unit.source.newline), why=use.why
                )
            return self.found(
                unit, span, "entry", Edit(end, end, b"," + unit.source.newline + indent + entry), why=use.why
            )
        return self.found(unit, span, "entry", Edit(end, end, b", " + entry), why=use.why)


def _chooses_a_file(unit: Unit, node: ast.expr) -> bool:
    """`defaults = [{"device": "cuda"}]`: hydra takes the file device/cuda.yaml, or what is stored under that name."""
    table = unit.parent(node)
    if not isinstance(table, ast.Dict) or node not in table.values or not isinstance(unit.parent(table), ast.List):
        return False
    for outer in unit.ancestors(table):
        if isinstance(outer, (ast.Assign, ast.AnnAssign)):
            targets = outer.targets if isinstance(outer, ast.Assign) else [outer.target]
            return (
                any(isinstance(t, ast.Name) and "defaults" in t.id.lower() for t in targets) and b"hydra" in unit.data
            )
        if isinstance(outer, ast.stmt):
            return False
    return False


def _is_told_there(unit: Unit, node: ast.expr) -> bool:
    """`accelerator="cuda"`, also chosen by a condition: MLU908 tells; names and parents of options mean nothing."""
    for outer in unit.ancestors(node):
        if isinstance(outer, (ast.keyword, ast.Call)):
            return True
        if isinstance(outer, ast.stmt):
            return False
    return False


def with_its_call(finding: Finding, node: ast.expr, unit: Unit) -> Finding:
    """An argument on a line of its own says little: the place begins where the call does that decides about it."""
    parent = unit.parent(node)
    call = unit.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.lineno >= node.lineno:
        return finding
    line, column = unit.source.position(unit.start(call))
    return finding.with_(line=line, column=column)


def _shorter_slice(unit: Unit, node: ast.expr, size: int, change: int) -> tuple[Edit, ...]:
    """`device[:4] == "cuda"`: the slice is as long as the text it is compared with."""
    parent = unit.parent(node)
    if not isinstance(parent, ast.Compare) or len(parent.comparators) != 1:
        return ()
    other = parent.left if node is parent.comparators[0] else parent.comparators[0]
    cut = other.slice if isinstance(other, ast.Subscript) else None
    if not isinstance(cut, ast.Slice) or cut.lower is not None or cut.step is not None or cut.upper is None:
        return ()
    if isinstance(cut.upper, ast.Constant) and cut.upper.value == size:
        return (unit.replace(cut.upper, str(size + change)),)
    return ()


def next_line(unit: Unit, end: int) -> int | None:
    """Start of the next line if only a comma and a comment follow ``end`` on its own; None otherwise."""
    line = unit.source.line_of(end)
    if line >= len(unit.source.starts):
        return None
    rest = unit.data[end : unit.source.starts[line]].strip()
    if not rest.startswith(b",") or (rest[1:].strip() and not rest[1:].strip().startswith(b"#")):
        return None
    return unit.source.starts[line]


def _closes(unit: Unit, key: ast.expr, end: int) -> bool:
    """Whether a parenthesis after a value belongs to the value: as many close as were opened after the key."""
    between = unit.data[unit.end(key) : end]
    return between.count(b"(") > between.count(b")")


def _owned_elsewhere(unit: Unit, node: ast.expr) -> bool:
    """
    Tags in a map_location (MLU205), names of attributes of torch given as text (MLU105, MLU106), and of the method
    `cuda` (MLU201).

    Their rules decide about the whole construct.
    """
    if loading.in_table(unit, node) or node in methodtexts.texts(unit):
        return True
    parent = unit.parent(node)
    if isinstance(parent, ast.Call) and len(parent.args) > 1 and parent.args[1] is node:
        leaf = last_word(parent.func)
        owner = unit.name(parent.args[0])
        return leaf in ("getattr", "hasattr", "setattr", "delattr", "object") and under(owner, ("torch",))
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        name = unit.name(parent.value) or ""
        known = name.endswith(("__dict__", ".default_device_backend_map"))
        return name.startswith("torch.") and known or unit.callee(parent.value) == "vars"
    return False


def _inside_annotation_prose(unit: Unit, node: ast.expr) -> bool:
    """A string that is a forward reference: `def f(d: "cuda")` does not occur; texts in annotations are left alone."""
    child: ast.AST = node
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.arg) and child is outer.annotation:
            return True
        if isinstance(outer, (ast.expr, ast.keyword)):
            return False
        child = outer
    return False


def _torch_name(unit: Unit, node: ast.Attribute) -> str | None:
    """The name of torch that a chain has, also where its root is bound to something else besides."""
    name = unit.name(node)
    if name is None:
        names = [n for n in unit.names.all_of(node) if n.startswith("torch.cuda.")]
        name = names[0] if len(names) == 1 else None
    return name
