"""Arguments added to calls: mlu_migrate/callargs.py."""

from __future__ import annotations

import ast

import pytest

from mlu_migrate import callargs, edits
from mlu_migrate.project import ProjectFacts
from mlu_migrate.settings import Settings
from mlu_migrate.source import Source
from mlu_migrate.unit import Unit


def call_in(text: str) -> tuple[Unit, ast.Call]:
    source = Source(text.encode())
    unit = Unit(source, ast.parse(source.data), "case.py", Settings(), ProjectFacts())
    return unit, unit.index.nodes[ast.Call][0]


def result(unit: Unit, edit: object) -> str:
    return edits.apply(unit.data, [edit]).decode()  # type: ignore[list-item]


@pytest.mark.parametrize(
    "before, after",
    [
        ("f()", 'f("mlu")'),
        ("f(a)", 'f("mlu", a)'),
        ("f (b=1)", 'f ("mlu", b=1)'),
        ("(f)(a)", '(f)("mlu", a)'),
        ("f(\n    a,\n)", 'f(\n    "mlu",\n    a,\n)'),
        ("f(\r\n\ta,\r\n)", 'f(\r\n\t"mlu",\r\n\ta,\r\n)'),
    ],
)
def test_a_first_argument_takes_the_form_of_the_call(before: str, after: str) -> None:
    unit, call = call_in(before)
    assert result(unit, callargs.first(unit, call, '"mlu"')) == after


@pytest.mark.parametrize(
    "before, after",
    [
        ("f()", "f(d=1)"),
        ("f(a)", "f(a, d=1)"),
        ("f(a, )", "f(a, d=1 )"),
        ("f((a))", "f((a), d=1)"),
        ("f(a,\n  b)", "f(a,\n  b, d=1)"),
        ("f(\n    a,\n)", "f(\n    a,\n    d=1,\n)"),
        ("f(a, *b, **c)", "f(a, *b, **c, d=1)"),
    ],
)
def test_a_last_argument_takes_the_form_of_the_call(before: str, after: str) -> None:
    unit, call = call_in(before)
    edit = callargs.last(unit, call, "d=1")
    assert edit is not None
    assert result(unit, edit) == after
    compile(after, "case.py", "exec")


def test_no_argument_is_added_behind_a_comment() -> None:
    unit, call = call_in("f(a,  # the model\n)")
    assert callargs.last(unit, call, "d=1") is None


def test_quotes_inside_an_f_string_are_the_other_ones() -> None:
    unit, call = call_in("print(f\"{x.to(1)}\", f'{y}')")
    inner = next(c for c in unit.index.nodes[ast.Call] if isinstance(c.func, ast.Attribute))
    assert callargs.quoted(unit, inner, "mlu") == "'mlu'"
    assert callargs.quoted(unit, call, "mlu") == '"mlu"'
