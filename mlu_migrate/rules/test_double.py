"""MLU106: test doubles and monkey patches for names of torch.cuda."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlu_migrate import dynamic, sieve
from mlu_migrate.callargs import keyword_name
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rename import target
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument, is_text
from mlu_migrate.vendors import is_kept

_BY_PATH = frozenset(("patch", "setattr", "delattr", "multiple", "spy"))
_BY_OBJECT = frozenset(("object", "setattr", "delattr", "spy", "multiple"))
# Flags that are assigned on purpose.
_SETTINGS = ("torch.backends.", "torch.cuda.default_stream")


class TestDouble(Rule):
    """
    Test doubles and monkey patches for names of torch.cuda.

    ## What it changes
    The target of `mock.patch`, `patch.object`, `patch.multiple`, `monkeypatch.setattr` and `delattr`, as a path or as
    object and name. A direct assignment (`torch.cuda.synchronize = f`) is rewritten with the name and told.

    ## Before
        from unittest import mock

        import torch

        @mock.patch("torch.cuda.is_available", return_value=False)
        def test_cpu(available):
            assert not torch.cuda.is_available()

    ## After
        from unittest import mock

        import torch
        import torch_mlu  # noqa: F401

        @mock.patch("torch.mlu.is_available", return_value=False)
        def test_cpu(available):
            assert not torch.mlu.is_available()

    ## Left alone
    Targets in modules of the project, whatever their name (`"shop.devices.cuda.count"`), and other libraries.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:61 (`torch.mlu` is in `sys.modules`, so a path to it can be patched).
    """

    __test__ = False  # the name begins with Test; pytest has nothing to collect here
    code = "MLU106"
    name = "test-double"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("names", "tests")

    @sieve.calls(words=_BY_PATH | _BY_OBJECT | {"dict", "setitem", "delitem"})
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """Patches given as a path, or as an object and a name."""
        leaf = last_word(node.func)
        if leaf in ("dict", "setitem", "delitem") and node.args and dynamic.is_modules(unit, node.args[0]):
            if not is_kept(unit, node):
                yield from self._modules(unit, node)
            return
        if leaf not in _BY_PATH and leaf not in _BY_OBJECT or is_kept(unit, node):
            return
        first = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "target"), None)
        if first is None:
            return
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if leaf in _BY_PATH:
                yield from self._path(unit, node, first, leaf)
        elif isinstance(node.func, ast.Attribute) or leaf == "patch":
            second = argument(node, "attribute" if leaf == "object" else "name", 1)
            if second is not None and is_text(second):
                yield from self._object(unit, first, second)
            elif leaf == "multiple":
                yield from self._keywords(unit, node, unit.name(first) or "")

    def visit_Assign(self, node: ast.Assign, unit: Unit) -> Iterator[Finding]:
        """`torch.cuda.synchronize = f`."""
        for assigned in node.targets:
            if not isinstance(assigned, ast.Attribute) or is_kept(unit, node):
                continue
            name = unit.name(assigned)
            if name is None or not name.startswith("torch.cuda.") or name.startswith(_SETTINGS):
                continue
            found = target(name, unit.settings.torch_mlu)
            if found is not None and found.mlu is not None:
                yield self.found(unit, assigned, "assigned", severity=Severity.WARNING, cuda=name, mlu=found.mlu)

    def _modules(self, unit: Unit, node: ast.Call) -> Iterator[Finding]:
        """`patch.dict(sys.modules, {"torch.cuda": fake})`, `monkeypatch.setitem(sys.modules, "torch.cuda", fake)`."""
        for given in node.args[1:2]:
            for key in given.keys if isinstance(given, ast.Dict) else [given]:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield from self._path(unit, node, key, "patch")

    def _path(self, unit: Unit, call: ast.Call, node: ast.Constant, leaf: str) -> Iterator[Finding]:
        spelled = dynamic.path(unit, str(node.value))
        if spelled.status == "missing":
            yield self.found(
                unit, node, "missing", severity=Severity.ERROR, cuda=spelled.name, note=dynamic.note(spelled)
            )
        elif spelled.status == "rename":
            edits = unit.replace_in_string(node, str(node.value), spelled.text)
            if edits is None:
                yield self.found(
                    unit, node, "by_hand", severity=Severity.WARNING, cuda=str(node.value), mlu=spelled.text
                )
                return
            yield self.found(unit, node, "renamed", edits, cuda=str(node.value), mlu=spelled.text)
            if leaf == "multiple":
                yield from self._keywords(unit, call, spelled.name)

    def _object(self, unit: Unit, owner: ast.expr, node: ast.expr) -> Iterator[Finding]:
        text = node.value  # type: ignore[attr-defined]
        spelled = dynamic.member(unit, owner, text)
        if spelled.status == "missing":
            yield self.found(
                unit, node, "missing", severity=Severity.ERROR, cuda=spelled.name, note=dynamic.note(spelled)
            )
        elif spelled.status == "rename":
            edits = unit.replace_in_string(node, text, spelled.text)
            if edits is None:
                yield self.found(unit, node, "by_hand", severity=Severity.WARNING, cuda=text, mlu=spelled.text)
            else:
                yield self.found(unit, node, "renamed", edits, cuda=text, mlu=spelled.text)

    def _keywords(self, unit: Unit, call: ast.Call, owner: str) -> Iterator[Finding]:
        """`patch.multiple("torch.cuda", is_available=...)`: each keyword is a name below the target."""
        if not owner.startswith("torch"):
            return
        for word in call.keywords:
            found = target(f"{owner}.{word.arg}", unit.settings.torch_mlu) if word.arg else None
            if found is None or word.arg in ("new", "spec", "create", "spec_set", "autospec", "new_callable"):
                continue
            start = unit.start(word)
            span = (start, start + len(str(word.arg).encode("utf-8")))
            leaf = (found.mlu or "").rpartition(".")[2]
            if found.mlu is None:
                note = found.row.note if found.row is not None and found.row.note else "torch_mlu has no such name"
                yield self.found(unit, span, "missing", severity=Severity.ERROR, cuda=f"{owner}.{word.arg}", note=note)
            elif leaf != word.arg:
                yield self.found(unit, span, "renamed", keyword_name(unit, word, leaf), cuda=str(word.arg), mlu=leaf)
