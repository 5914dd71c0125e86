"""What made an object, as mlu_migrate/objects.py sees it."""

from __future__ import annotations

import ast

import pytest

from mlu_migrate import objects
from mlu_migrate.project import ProjectFacts
from mlu_migrate.settings import Settings
from mlu_migrate.source import Source
from mlu_migrate.unit import Unit


def unit(text: str) -> Unit:
    source = Source(("import torch\n" + text).encode())
    return Unit(source, ast.parse(source.data), "case.py", Settings(), ProjectFacts())


def receiver(given: Unit, attr: str) -> ast.expr:
    """The object whose attribute ``attr`` is read last in the file."""
    reads = [a for a in given.index.attributes[attr] if isinstance(a.ctx, ast.Load)]
    return max(reads, key=given.start).value


@pytest.mark.parametrize(
    "text, made",
    [
        ("s = torch.cuda.Stream()\ns.handle", {"torch.cuda.Stream"}),
        ("with torch.cuda.Stream() as s:\n    s.handle", {"torch.cuda.Stream"}),
        ("def f(s: 'int', t: torch.cuda.Stream): t.handle", {"torch.cuda.Stream"}),
        ("s = torch.cuda.Stream() if x else torch.cuda.Event()\ns.handle", {"torch.cuda.Stream", "torch.cuda.Event"}),
        ("for s in [torch.cuda.Stream() for _ in x]: s.handle", {"torch.cuda.Stream"}),
        ("all = {1: torch.cuda.Stream()}\nall[1].handle", {"torch.cuda.Stream"}),
        ("for i, e in enumerate(p.key_averages()): e.handle", {"each:.key_averages"}),
        ("max(p.events(), key=lambda e: e.handle)", {"each:.events"}),
        ("e = sorted(p.events())[0]\ne.handle", {"each:.events"}),
        ("(s := torch.cuda.Stream()).handle", {"torch.cuda.Stream"}),
    ],
)
def test_values_are_followed_to_the_call_that_made_them(text: str, made: set[str]) -> None:
    given = unit(text)
    assert objects.makers(given, receiver(given, "handle")) == made


def test_an_attribute_is_followed_to_what_is_stored_in_it() -> None:
    given = unit("class A:\n    def __init__(self): self.s = torch.cuda.Stream()\n    def f(self): self.s.handle")
    assert objects.makers(given, receiver(given, "handle")) == {"torch.cuda.Stream"}


def test_nothing_is_said_about_a_plain_parameter() -> None:
    given = unit("def f(s): s.handle")
    assert objects.makers(given, receiver(given, "handle")) == frozenset()


def test_names_that_are_bound_to_each_other_end() -> None:
    given = unit("a = b\nb = a\na.handle")
    assert objects.makers(given, receiver(given, "handle")) == frozenset()


def test_a_name_with_many_bindings_is_not_followed() -> None:
    lines = "".join(f"if x == {i}: s = torch.cuda.Stream()\n" for i in range(30))
    given = unit(lines + "s.handle")
    assert objects.makers(given, receiver(given, "handle")) == frozenset()


@pytest.mark.parametrize(
    "text", ["self.handle = 1", "class A:\n    handle = None", "class A:\n    def handle(self): ..."]
)
def test_attributes_a_file_defines_are_its_own(text: str) -> None:
    assert objects.stored_here(unit(text), "handle")


def test_attributes_a_file_only_reads_are_not_its_own() -> None:
    assert not objects.stored_here(unit("x.handle"), "handle")
