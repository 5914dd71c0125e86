"""
Which nodes a method of a rule is shown: only those that it could say anything about.

A method marked by one of the decorators here is not called for every node of its kind but for those that pass. What is
asked of a node (the canonical name of what is called, the word behind the dot, the text of a literal) is worked out
once a file and answered once for each different answer, so that a rule costs nothing in a file that holds nothing for
it. Nodes keep their order.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mlu_migrate.names import NOTHING

if TYPE_CHECKING:
    from mlu_migrate.unit import Unit

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Table = dict[Any, list[int]]


@dataclass(frozen=True, slots=True)
class Sieve:
    """What lets a node pass: any of its questions answered with yes. ``kind`` is the type of node it is for."""

    kind: type[ast.AST]
    named: Callable[[str], bool] | None = None  # the canonical name: of what a Call calls, or of the Attribute
    word: Callable[[str], bool] | None = None  # the last word of what is called, or behind the dot
    text: Callable[[str], bool] | None = None  # the text of a str literal
    several: bool = False  # a dotted name that may be one of several

    def nodes(self, unit: Unit) -> list[Any]:
        """The nodes of a file that pass, in source order."""
        tables = _tables(unit, self.kind)
        passing: set[int] = set()
        for table, question in ((tables.named, self.named), (tables.words, self.word), (tables.texts, self.text)):
            if question is not None:
                for key, places in table.items():
                    if question(key):
                        passing.update(places)
        if self.several:
            passing.update(tables.several)
        every = unit.index.nodes[self.kind]
        return [every[place] for place in sorted(passing)]


def calls(
    names: Collection[str] = (), *, roots: tuple[str, ...] = (), ends: tuple[str, ...] = (), words: Collection[str] = ()
) -> Callable[[_Method], _Method]:
    """
    Calls of a canonical name in ``names``, that begins with one of ``roots`` or ends with one of ``ends``.

    Also calls whose last word as spelled is in ``words``, whatever they are called on.
    """
    return _mark(Sieve(ast.Call, named=_name(names, roots, ends), word=_one_of(words)))


def attributes(
    words: Collection[str] = (), *, roots: tuple[str, ...] = (), several: bool = False
) -> Callable[[_Method], _Method]:
    """
    Attributes whose word behind the dot is in ``words``, or whose canonical name begins with one of ``roots``.

    With ``several`` also those that may have one of several canonical names.
    """
    return _mark(Sieve(ast.Attribute, named=_name((), roots, ()), word=_one_of(words), several=several))


def texts(question: Callable[[str], bool]) -> Callable[[_Method], _Method]:
    """Constants that are a str of which ``question`` is true."""
    return _mark(Sieve(ast.Constant, text=question))


def of(method: object) -> Sieve | None:
    """The sieve a method was marked with."""
    return getattr(method, "sieve", None)


def _mark(sieve: Sieve) -> Callable[[_Method], _Method]:
    def mark(method: _Method) -> _Method:
        method.sieve = sieve  # type: ignore[attr-defined]
        return method

    return mark


def _name(names: Collection[str], roots: tuple[str, ...], ends: tuple[str, ...]) -> Callable[[str], bool] | None:
    known = frozenset(names)
    if not roots and not ends:
        return known.__contains__ if known else None
    return lambda name: name in known or name.startswith(roots) or name.endswith(ends)


def _one_of(words: Iterable[str]) -> Callable[[str], bool] | None:
    known = frozenset(words)
    return known.__contains__ if known else None


class _Tables:
    """For one type of node: what can be asked, with the places in ``index.nodes`` where it is so."""

    __slots__ = ("named", "words", "texts", "several")

    def __init__(self) -> None:
        self.named: _Table = defaultdict(list)
        self.words: _Table = defaultdict(list)
        self.texts: _Table = defaultdict(list)
        self.several: list[int] = []


def _tables(unit: Unit, kind: type[ast.AST]) -> _Tables:
    key = f"sieve.{kind.__name__}"
    known = unit.memo.get(key)
    if known is None:
        unit.memo[key] = known = _FILLED[kind](unit)
    return known  # type: ignore[return-value]


def _of_calls(unit: Unit) -> _Tables:
    out = _Tables()
    of = unit.names.of
    for place, node in enumerate(unit.index.nodes[ast.Call]):
        func = node.func
        name = of(func)
        if name is not None:
            out.named[name].append(place)
        if isinstance(func, ast.Attribute):
            out.words[func.attr].append(place)
        elif isinstance(func, ast.Name):
            out.words[func.id].append(place)
    return out


def _of_attributes(unit: Unit) -> _Tables:
    out = _Tables()
    names = unit.names
    for place, node in enumerate(unit.index.nodes[ast.Attribute]):
        out.words[node.attr].append(place)
        meanings = names.all_of(node)
        if meanings is not NOTHING:
            name = names.of(node)
            if name is not None:
                out.named[name].append(place)
            elif len(meanings) > 1:
                out.several.append(place)
    return out


def _of_constants(unit: Unit) -> _Tables:
    out = _Tables()
    for place, node in enumerate(unit.index.nodes[ast.Constant]):
        if isinstance(node.value, str):
            out.texts[node.value].append(place)
    return out


_FILLED = {ast.Call: _of_calls, ast.Attribute: _of_attributes, ast.Constant: _of_constants}
