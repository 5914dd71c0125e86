"""Rule base class and discovery. A rule is a file in rules/; the folder is walked, there is no list to edit."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from mlu_migrate import sieve
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.suppress import Suppressions
from mlu_migrate.unit import Unit


class Rule:
    """
    Looks at nodes of one file and yields findings. Stateless: what it needs it asks the Unit.

    Methods named ``visit_<ast type>`` are called with (node, unit) in source order for every node of that type;
    ``visit_file`` once. A decorator of sieve.py narrows what a method is shown. The class docstring is the rule's page.
    """

    code: ClassVar[str] = ""
    name: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.INFO
    safety: ClassVar[Safety] = Safety.SAFE
    topics: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[bytes, ...]] = ()  # a file without any of these words is not shown to the rule

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """Once a file, before the nodes."""
        return ()

    def finish(self, unit: Unit, accepted: Sequence[Finding]) -> Iterable[Finding]:
        """Once a file, when it is known which findings will be applied: what they need in addition."""
        return ()

    def found(
        self,
        unit: Unit,
        node: ast.AST | tuple[int, int],
        message_id: str,
        edits: Sequence[Edit] | Edit = (),
        *,
        safety: Safety | None = None,
        severity: Severity | None = None,
        confidence: Confidence = Confidence.HIGH,
        group: str | None = None,
        url: str | None = None,
        **args: str,
    ) -> Finding:
        """
        A finding at a node (or byte span). Without edits it is manual; with edits it has the rule's safety.

        ``message_id`` is a table of messages/<lang>/<code>.toml; ``args`` fill its fields.
        """
        start, end = node if isinstance(node, tuple) else unit.span(node)
        changes = (edits,) if isinstance(edits, Edit) else tuple(edits)
        line, column = unit.source.position(start)
        end_line, end_column = unit.source.position(end)
        safe = safety or (self.safety if changes else Safety.MANUAL)
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            safety=safe,
            confidence=confidence,
            path=unit.path,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            message_id=message_id,
            args=args,
            edits=changes if safe is not Safety.MANUAL else (),
            before=unit.data[start:end].decode("utf-8"),
            after=_after(unit, start, end, changes) if changes else "",
            group=group,
            url=url,
        )


def _after(unit: Unit, start: int, end: int, edits: tuple[Edit, ...]) -> str:
    out: list[bytes] = []
    position = start
    for edit in sorted(edits):
        if edit.start < position or edit.end > end:
            continue
        out += [unit.data[position : edit.start], edit.text]
        position = edit.end
    out.append(unit.data[position:end])
    return b"".join(out).decode("utf-8")


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    package = importlib.import_module("mlu_migrate.rules")
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"mlu_migrate.rules.{info.name}")
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Rule) and item.code and item.__module__ == module.__name__:
                if item.code in found:
                    raise ValueError(f"rule code {item.code} is used twice")
                found[item.code] = item()
    return tuple(found[c] for c in sorted(found))


@functools.cache
def dispatch() -> tuple[dict[type, list[tuple[Rule, str]]], tuple[Rule, ...]]:
    """Node type -> rules that visit it, and all rules."""
    table: dict[type, list[tuple[Rule, str]]] = {}
    rules = all_rules()
    for rule in rules:
        for attribute in dir(rule):
            if attribute.startswith("visit_") and attribute != "visit_file":
                kind = getattr(ast, attribute.removeprefix("visit_"))
                table.setdefault(kind, []).append((rule, attribute))
    return table, rules


@functools.cache
def _needed() -> frozenset[bytes]:
    """Every word that some rule needs."""
    return frozenset(word for rule in all_rules() for word in rule.needs)


def run(unit: Unit, wanted: Iterable[str] | None = None) -> Iterator[Finding]:
    """Findings of all rules for one file."""
    table, rules = dispatch()
    data = unit.data
    absent = frozenset(word for word in _needed() if word not in data)
    idle = {r for r in rules if r.needs and absent.issuperset(r.needs)}
    for rule in rules:
        if rule not in idle:
            yield from rule.visit_file(unit)
    for kind, visitors in table.items():
        nodes = unit.index.nodes.get(kind)
        if not nodes:
            continue
        for rule, attribute in visitors:
            if rule in idle:
                continue
            visit = getattr(rule, attribute)
            narrow = sieve.of(visit)
            for node in nodes if narrow is None else narrow.nodes(unit):
                found = visit(node, unit)
                if found:
                    yield from found


def unused_ignores(unit: Unit, shield: Suppressions) -> list[Finding]:
    """Findings for ignore comments that covered nothing (MLU003)."""
    owner = next((r for r in all_rules() if r.code == "MLU003"), None)
    if owner is None:
        return []
    out: list[Finding] = []
    for item in shield.unused(lambda code: unit.settings.wants(code) if code else unit.settings.wants_all):
        start = unit.source.starts[item.line - 1]
        raw = unit.source.line_bytes(item.line)
        at = start + max(raw.find(item.text.encode("utf-8")), 0)
        which = "codes" if item.codes else "comment"
        end = at + len(item.text.encode("utf-8"))
        out.append(owner.found(unit, (at, end), which, comment=item.text, codes=", ".join(item.codes)))
    return out
