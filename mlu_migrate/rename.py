"""How a canonical CUDA name of torch is spelled on an MLU, and which words of a chain have to change for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from mlu_migrate import apimap
from mlu_migrate.apimap import Row
from mlu_migrate.model import Edit
from mlu_migrate.unit import Unit

# Families whose missing names are told; everything else of torch that has no row is none of our business.
FAMILIES = ("torch.cuda", "torch.backends.cuda")
# Names other rules decide about, with more than the name to go by.
ELSEWHERE = (
    "torch.backends.cudnn",
    "torch.version",
    "torch.utils.cpp_extension",
    "torch.nn",
    "torch.jit",
    "torch.compile",
    "torch.compiler",
    "torch.optim",
    "torch.overrides",
    "torch.utils",
    "torch.Tensor",
    "torch.TypedStorage",
    "torch.UntypedStorage",
    "torch.from_dlpack",
    "torch.fx",
    "torch.profiler.profile",
    "torch.profiler.supported_activities",
    "torch.multiprocessing",
    "torch.serialization",
)


@dataclass(frozen=True, slots=True)
class Target:
    """What a canonical name maps to. ``mlu`` is None where it must stay; ``row`` is the fact behind it."""

    mlu: str | None
    row: Row | None
    known: str  # the part of the name the row is about


def target(name: str, release: str) -> Target | None:
    """The counterpart of a canonical name, or None where the name is not CUDA's."""
    if any(name == e or name.startswith(e + ".") for e in ELSEWHERE):
        return None
    parts = name.split(".")
    for cut in range(len(parts), 1, -1):
        head = ".".join(parts[:cut])
        row = apimap.lookup(head)
        if row is None:
            continue
        rest = parts[cut:]
        if rest and head in _NAMESPACES:
            return Target(None, None, name)  # a name below a namespace that the table does not know
        if row.mlu == head and not head.startswith(FAMILIES):
            return None  # same name; what differs is not a matter of names
        if row.status == "missing" or not row.exists_in(release):
            return Target(None, row, head)
        if head.startswith("torch._C") or (row.status == "semantic-difference" and row.policy != "edit"):
            return Target(None, row, head)
        if row.mlu == head:
            return None if row.status == "same" else Target(None, row, head)
        return Target(".".join([row.mlu, *rest]), row, head)
    if name.startswith((*FAMILIES, "torch._C._cuda", "torch._C._nccl", "torch._C._Cuda")):
        return Target(None, None, name)
    return None


_NAMESPACES = frozenset(
    (
        "torch.cuda",
        "torch.cuda.amp",
        "torch.cuda.nvtx",
        "torch.cuda.nccl",
        "torch.cuda.memory",
        "torch.cuda.random",
        "torch.cuda.graphs",
        "torch.cuda.streams",
        "torch.cuda.profiler",
        "torch.backends.cuda",
        "torch.backends.cuda.matmul",
        "torch.cuda.comm",
        "torch.cuda.sparse",
        "torch.cuda.tunable",
        "torch.cuda.gds",
        "torch.cuda.jiterator",
        "torch.cuda.amp.autocast_mode",
        "torch.cuda.amp.grad_scaler",
    )
)


def mapped(name: str, release: str) -> str:
    """The MLU spelling of a canonical name, or the name itself."""
    found = target(name, release)
    return found.mlu if found is not None and found.mlu is not None else name


def chain(node: ast.Attribute) -> list[ast.expr]:
    """Root first: Name (or other expression), then each Attribute up to the node."""
    out: list[ast.expr] = [node]
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        current = current.value
        out.append(current)
    return out[::-1]


def _own_links(unit: Unit, links: list[ast.expr], old: list[str]) -> int:
    """
    The first link that stands for something of torch.

    `pkg.cuda.synchronize` where pkg says `from torch import cuda`: the words before, and that one, are names of the
    project, which stay.
    """
    for number in range(max(len(links) - len(old), 0), len(links)):
        if unit.name(links[number]) == ".".join(old[: len(old) - len(links) + 1 + number]):
            return number
    return 0


def spell(unit: Unit, node: ast.Attribute, name: str, mlu: str) -> tuple[Edit, ...] | None:
    """
    Edits that make a chain with canonical ``name`` read ``mlu``; () if nothing changes, None if it cannot be spelled.

    The words that differ are replaced one by one, so comments and line breaks inside the chain stay.
    """
    release = unit.settings.torch_mlu
    links = chain(node)
    depth = len(links) - 1
    old = name.split(".")
    first = _own_links(unit, links, old)
    if depth - first >= len(old):
        return None
    heads = [mapped(".".join(old[: max(len(old) - depth + i, 0)]), release) for i in range(depth + 1)]
    heads[-1] = mlu
    edits: list[Edit] = []
    for number in range(first + 1, depth + 1):
        link = links[number]
        assert isinstance(link, ast.Attribute)
        before, _, leaf = heads[number].rpartition(".")
        if before == heads[number - 1]:
            if leaf != link.attr:
                edits.append(unit.rename_attr(link, leaf))
            continue
        break
    else:
        return tuple(edits)
    # The names part company: replace the tail after the deepest link that is still a prefix of the result.
    for number in range(depth - 1, first - 1, -1):
        if mlu.startswith(heads[number] + "."):
            start = unit.end(links[number])
            if b"#" in unit.data[start : unit.end(node)]:
                return None
            head = [e for e in edits if e.end <= start]
            return (*head, Edit(start, unit.end(node), mlu[len(heads[number]) :].encode()))
    return None
