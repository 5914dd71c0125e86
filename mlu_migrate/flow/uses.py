"""What is known of a value, and what the modules of this package share."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from dataclasses import dataclass

DEPTH = 14  # steps from a string to its use
GUARDS = "guards CUDA calls"  # why a comparison is about a device, for want of anything better
LABEL = "label"  # why a word is a library's own, which another rule tells of


class Proof(enum.IntEnum):
    """How well something is known to be a device (or backend). Higher wins."""

    NONE = 0
    OTHER = 1  # known to be something else
    SIBLING = 2  # stands beside "cpu" or the like
    NAMED = 3  # its name says so
    SINK = 4  # reaches a device sink


class Shape(enum.Enum):
    """What has to happen at the literal."""

    REPLACE = "replace"
    MEMBER = "member"  # one of several in a membership test: gains a member
    KEY = "key"  # key of a dispatch table: gains an entry
    CASE = "case"  # match case: gains an alternative
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Use:
    """One thing known about a value. ``why`` names a reason for messages, e.g. "torch.device"."""

    proof: Proof
    why: str
    shape: Shape = Shape.REPLACE
    node: ast.AST | None = None


NOTHING = Use(Proof.NONE, "unknown")
Slot = tuple[object, ...]


def parts_of(target: ast.expr) -> Iterator[ast.expr]:
    """The names and attributes that an assignment or a loop binds."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for inner in target.elts:
            yield from parts_of(inner)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def leaf_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return leaf_of(node.func)
    return None
