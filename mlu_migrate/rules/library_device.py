"""MLU912: calls of other libraries that reach NVIDIA GPUs only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlu_migrate import callargs, libraries
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument


class LibraryDevice(Rule):
    """
    Calls of other libraries that reach NVIDIA GPUs only, or that look for a CUDA device by themselves.

    ## What it changes
    Nothing. An argument that the library takes no other word for is left as it is written; where the library chooses
    the device itself, the finding says what it chooses on an MLU machine and how to name one.

    ## Before
        import torch
        from torchvision.io import decode_jpeg, read_file

        image = decode_jpeg(read_file("a.jpg"), device="cuda")

    ## Finding
    At the call: nvJPEG exists for NVIDIA GPUs only; decode on the CPU and move the result.

    ## Left alone
    Calls that name the CPU, and libraries of the project itself that bear the same name. Each call is told once a file.

    ## Source
    mlu_migrate/tables/libraries.toml, one source a row.
    """

    code = "MLU912"
    name = "library-device"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("advice",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """Only files that import such a library are looked through."""
        rows = _rows(unit)
        if not rows:
            return
        told: set[tuple[str, str]] = set()
        keys = {key: row for row in rows.values() for key in row.keys}
        if keys:
            for text in unit.index.nodes[ast.Constant]:
                mapped = keys.get(text.value) if isinstance(text.value, str) and _is_key(unit, text) else None
                if mapped is not None and (mapped.library, mapped.what) not in told:
                    told.add((mapped.library, mapped.what))
                    yield self._told(unit, text, mapped, str(text.value))
        for call in unit.index.nodes[ast.Call]:
            func = call.func
            leaf = last_word(func)
            row = rows.get(f".{leaf}") if isinstance(func, ast.Attribute) else None
            if row is None or not _tells(unit, call, row):
                row = rows.get(unit.name(func) or "")
                if row is None or not _tells(unit, call, row):
                    continue
            if (row.library, row.what) not in told:
                told.add((row.library, row.what))
                yield self._told(unit, call, row, leaf)

    def _told(self, unit: Unit, node: ast.expr, row: libraries.Call, name: str) -> Finding:
        return self.found(
            unit,
            node,
            "called",
            call=name,
            what=row.what,
            what_zh=row.what_zh,
            instead=row.instead,
            instead_zh=row.instead_zh,
            source=row.source,
        )


def _rows(unit: Unit) -> dict[str, libraries.Call]:
    found: dict[str, libraries.Call] = {}
    known = libraries.calls()
    for root in _imported(unit):
        if root in known and root not in unit.facts.exports:  # a module of the project with the same name
            found.update((n, r) for n, r in known[root].items() if not r.unless or r.unless.encode() not in unit.data)
    return found


def _imported(unit: Unit) -> Iterator[str]:
    for node in unit.index.nodes[ast.Import]:
        for alias in node.names:
            yield alias.name.partition(".")[0]
    for member in unit.index.nodes[ast.ImportFrom]:
        if member.module and not member.level:
            yield member.module.partition(".")[0]


def _tells(unit: Unit, call: ast.Call, row: libraries.Call) -> bool:
    if row.when == "always":
        return True
    given = argument(call, row.argument, row.position)
    if row.when == "absent" and given is None:
        return not callargs.has_stars(call) and not _moved(unit, call)
    return given is not None and _counts(unit, given, row)


def _counts(unit: Unit, given: ast.expr, row: libraries.Call) -> bool:
    """Whether a value means a GPU: one of those of the row, else anything but a plain no or the CPU."""
    if row.values:
        return isinstance(given, ast.Constant) and given.value in row.values
    if row.when == "absent":
        return isinstance(given, ast.Constant) and given.value is None
    if isinstance(given, ast.Call) and unit.callee(given) == "torch.device":
        first = argument(given, "type", 0)
        if row.library == "ultralytics" or isinstance(first, ast.Constant) and first.value == "cpu":
            return False
    if not isinstance(given, ast.Constant):
        return True
    nothing = (None, "cpu", "mps") if row.argument == "device" else (None, False, 0, "cpu")  # 0 is the first card
    return given.value not in nothing


def _moved(unit: Unit, call: ast.Call) -> bool:
    """`SentenceTransformer(name).to(device)`."""
    outer = unit.parent(call)
    return isinstance(outer, ast.Attribute) and outer.attr in ("to", "cuda", "mlu", "cpu")


def _is_key(unit: Unit, node: ast.Constant) -> bool:
    """`options["num_gpus"] = 1`, `{"GPU": 1}`: a key that is given a value other than 0."""
    parent = unit.parent(node)
    if isinstance(parent, ast.Subscript) and parent.slice is node and isinstance(parent.ctx, ast.Store):
        statement = unit.parent(parent)
        value = statement.value if isinstance(statement, ast.Assign) else None
    elif isinstance(parent, ast.Dict) and node in parent.keys:
        value = parent.values[parent.keys.index(node)]
    else:
        return False
    return not (isinstance(value, ast.Constant) and not value.value)
