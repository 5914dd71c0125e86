"""A rule's method is shown the nodes that pass its sieve, all of them, in source order."""

from __future__ import annotations

import ast

import pytest

from mlu_migrate import sieve
from mlu_migrate.engine import parse
from mlu_migrate.project import ProjectFacts
from mlu_migrate.rule import all_rules
from mlu_migrate.settings import Settings
from mlu_migrate.source import Source
from mlu_migrate.unit import Unit

CODE = b"""\
import pytest
import torch
import torch_xla

lib = torch if torch.cuda.is_available() else torch_xla
lib.cuda.synchronize()
model.to(0).to(1)
skip = pytest.mark.skipif
skip("not torch.cuda.is_available()")
torch.load("a", map_location="cuda")
"""


@pytest.fixture
def unit() -> Unit:
    source = Source(CODE)
    return Unit(source, parse(source), "a.py", Settings(), ProjectFacts())


def shown(unit: Unit, mark: object) -> list[str]:
    narrow = sieve.of(mark(lambda self, node, unit: ()))  # type: ignore[operator]
    assert narrow is not None
    return [unit.text(node) for node in narrow.nodes(unit)]


def test_calls_pass_by_canonical_name_whatever_they_are_spelled(unit: Unit) -> None:
    assert shown(unit, sieve.calls(("torch.load",))) == ['torch.load("a", map_location="cuda")']
    assert shown(unit, sieve.calls(ends=(".skipif",))) == ['skip("not torch.cuda.is_available()")']
    assert shown(unit, sieve.calls(roots=("torch.cuda.",))) == ["torch.cuda.is_available()"]


def test_calls_pass_by_their_last_word_on_anything_and_keep_their_order(unit: Unit) -> None:
    assert shown(unit, sieve.calls(("torch.load",), words=("to",))) == [
        "model.to(0).to(1)",
        "model.to(0)",
        'torch.load("a", map_location="cuda")',
    ]


def test_attributes_pass_by_word_by_name_and_where_they_may_mean_several(unit: Unit) -> None:
    assert shown(unit, sieve.attributes(("cuda",))) == ["torch.cuda", "lib.cuda"]
    assert shown(unit, sieve.attributes(roots=("torch.cuda.",))) == ["torch.cuda.is_available"]
    assert shown(unit, sieve.attributes(several=True)) == ["lib.cuda.synchronize", "lib.cuda"]


def test_texts_pass_by_what_they_say(unit: Unit) -> None:
    assert shown(unit, sieve.texts("cuda".__eq__)) == ['"cuda"']


def test_a_sieve_is_put_only_on_methods_that_are_shown_its_kind_of_node() -> None:
    marked = [
        (rule.code, name, narrow.kind)
        for rule in all_rules()
        for name in dir(rule)
        if (narrow := sieve.of(getattr(rule, name))) is not None
    ]
    assert len(marked) > 20
    assert [m for m in marked if m[1] != f"visit_{m[2].__name__}"] == []
    assert {kind for _, _, kind in marked} == {ast.Call, ast.Attribute, ast.Constant}
