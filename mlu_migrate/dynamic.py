"""Names of torch spelled as text: `getattr(torch, "cuda")`, dotted paths, attribute names given to a mock."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from mlu_migrate import rename
from mlu_migrate.apimap import Row
from mlu_migrate.unit import Unit

PATH = re.compile(r"(?P<head>(?:\w+\.)*?)(?P<name>torch\.(?:cuda|backends\.cuda)(?:\.\w+)*)")
CODE = re.compile(r"\btorch\.cuda\b|\.cuda\(|[\"']cuda(:\d+)?[\"']")


@dataclass(frozen=True, slots=True)
class Spelled:
    """
    What a text naming something of torch has to become.

    ``status``: "rename" (``text`` is the new text), "same" (nothing to do), "missing" (no counterpart) or "stay" (none
    of ours).
    """

    status: str
    name: str  # the canonical CUDA name
    text: str = ""
    row: Row | None = None


def member(unit: Unit, owner: ast.expr, text: str) -> Spelled:
    """
    An attribute name of an object of torch, given as text: `getattr(torch.cuda, "nvtx")`.

    The owner itself is rewritten by the rule about names; here only the text behind it is decided.
    """
    base = unit.name(owner)
    if base is None or not (base == "torch" or base.startswith("torch.")) or not text.isidentifier():
        return Spelled("stay", "")
    name = f"{base}.{text}"
    release = unit.settings.torch_mlu
    found = rename.target(name, release)
    if found is None:
        return _method(base, text, name)
    if found.mlu is None:
        return Spelled("missing", name, row=found.row)
    head, _, leaf = found.mlu.rpartition(".")
    if head != rename.mapped(base, release):
        return Spelled("missing", name, row=found.row)
    return Spelled("same" if leaf == text else "rename", name, leaf, found.row)


def path(unit: Unit, text: str) -> Spelled:
    """
    A dotted path that ends in a name of torch.cuda: "torch.cuda.is_available", "pkg.train.torch.cuda.synchronize".

    "stay" where the path is a module of the project or something else.
    """
    match = PATH.fullmatch(text)
    if match is None:
        return Spelled("stay", "")
    head, name = match["head"], match["name"]
    if head and any(unit.facts.is_module(f"{head}{piece}") for piece in ("torch", "torch.cuda")):
        return Spelled("stay", "")
    found = rename.target(name, unit.settings.torch_mlu)
    if found is None:
        return Spelled("stay", name)
    if found.mlu is None:
        return Spelled("missing", name, row=found.row)
    return Spelled("rename", name, head + found.mlu, found.row)


_METHODS = {"cuda": "mlu", "is_cuda": "is_mlu"}
_OWNERS = (
    "torch.Tensor",
    "torch.nn.Module",
    "torch.nn.modules.module.Module",
    "torch.UntypedStorage",
    "torch.TypedStorage",
    "torch.nn.Parameter",
    "torch.nn.utils.rnn.PackedSequence",
)


def _method(base: str, text: str, name: str) -> Spelled:
    if text in _METHODS and base in _OWNERS:
        return Spelled("rename", name, _METHODS[text])
    return Spelled("stay", name)


def note(spelled: Spelled) -> str:
    """What the table says about a name without counterpart."""
    return spelled.row.note if spelled.row is not None and spelled.row.note else "torch_mlu has no such name"


def is_modules(unit: Unit, node: ast.AST) -> bool:
    """`sys.modules`, also as the text a mock takes for it."""
    return unit.name(node) == "sys.modules" or isinstance(node, ast.Constant) and node.value == "sys.modules"
