"""MLU001: the import that makes `torch.mlu` and `.mlu()` exist."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_NEW = ("torch.cuda", "torch.mlu", "torch.backends.cuda", "torch.backends.mlu")  # exist once torch_mlu is imported
_LINE = "import torch_mlu  # noqa: F401"


class BackendImport(Rule):
    """
    Migrated files that do not import torch_mlu.

    ## What it changes
    Adds `import torch_mlu` once to a file that was rewritten: after its first torch import, or before it where that
    import
    itself needs `torch.mlu`; in the same block, with the same indentation.

    ## Before
        import torch

        torch.cuda.synchronize()

    ## After
        import torch
        import torch_mlu  # noqa: F401

        torch.mlu.synchronize()

    ## Left alone
    Files with nothing to rewrite, files that import torch_mlu already, imports under TYPE_CHECKING, and files that
    never import torch (the entry point provides it; the report says which), unless they are programs that hand a
    device to a library or to a module of the project that uses torch.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/__init__.py:61 (registers `torch.mlu`); setup.py has no `torch.backends` entry
    point, so
    PyTorch does not load it by itself.
    """

    code = "MLU001"
    name = "backend-import"
    severity = Severity.INFO
    safety = Safety.SAFE
    topics = ("set-up",)

    def finish(self, unit: Unit, accepted: Sequence[Finding]) -> Iterable[Finding]:
        """Add the import if anything applied needs it at run time."""
        if not any(f.code[:4] not in ("MLU0", "MLU6") for f in accepted):
            return
        if _imported(unit) or any(b"torch_mlu." in e.text for f in accepted for e in f.edits):
            return
        imports = sorted(_torch_imports(unit), key=lambda n: n.lineno)
        if not imports:
            yield from self._without_torch(unit, accepted)
            return
        anchors = _anchors(unit, imports, accepted)
        if not anchors:
            return
        for statement in anchors:
            before = _needs_mlu(unit, statement)
            yield self._insert(unit, statement, before)

    def _without_torch(self, unit: Unit, accepted: Sequence[Finding]) -> Iterable[Finding]:
        """The file hands a device string to a library itself: then nobody else may have registered the device."""
        hands_over = [
            f
            for f in accepted
            if f.args.get("why")
            in ("safetensors.torch.load_file", "safetensors.safe_open", "safetensors.torch.load_model")
        ]
        needs = [
            f
            for f in accepted
            if f.code[:4] not in ("MLU0", "MLU6") and f.code != "MLU107" and f.message_id != "command"
        ]  # types in text do not run, and a command line runs elsewhere
        if hands_over or (needs and _is_program(unit, needs)):
            last = _last_plain_import(unit)
            if last is not None:
                yield self._insert(unit, last, False)
            return
        if not needs:
            return
        first = needs[0]
        entry = ", ".join(unit.facts.entry_points[:3])
        offset = unit.source.starts[first.line - 1]
        span = (offset, offset + len(unit.source.line_bytes(first.line).rstrip()))
        yield self.found(unit, span, "provided" if entry else "nobody", safety=Safety.MANUAL, entry=entry)

    def _insert(self, unit: Unit, statement: ast.stmt, before: bool) -> Finding:
        source = unit.source
        line = statement.lineno if before else (statement.end_lineno or statement.lineno)
        head = unit.data[source.starts[statement.lineno - 1] : unit.start(statement)]
        guarded = unit.settings.guarded_import
        newline = source.newline
        if head.strip():  # `import os; import torch` or `try: import torch`
            at = unit.start(statement) if before else unit.end(statement)
            text = b"import torch_mlu; " if before else b"; import torch_mlu"
            return self.found(unit, statement, "added", Edit(at, at, text))
        tail = unit.data[unit.end(statement) : source.starts[line] if line < len(source.starts) else len(unit.data)]
        if not before and tail.lstrip().startswith(b";"):
            at = unit.end(statement)
            return self.found(unit, statement, "added", Edit(at, at, b"; import torch_mlu"))
        block = _guarded(head, newline) if guarded else head + _LINE.encode()
        if before:
            at = source.starts[statement.lineno - 1]
            return self.found(unit, statement, "added", Edit(at, at, block + newline))
        if line < len(source.starts):
            at = source.starts[line]
            return self.found(unit, statement, "added", Edit(at, at, block + newline))
        at = len(unit.data)
        return self.found(unit, statement, "added", Edit(at, at, newline + block))


# Libraries that bring torch along and are handed devices: a program may need no torch import of its own beside them.
_LIBRARIES = frozenset(
    "transformers diffusers sentence_transformers whisper timm peft accelerate torchvision torchaudio lightning "
    "pytorch_lightning ultralytics fairseq detectron2 open_clip clip segment_anything torch_geometric fastai".split()
)


def _is_program(unit: Unit, needs: Sequence[Finding]) -> bool:
    """Whether a file without torch works with one of those libraries and runs by itself, rather than being imported."""
    roots = {a.name.partition(".")[0] for n in unit.index.nodes[ast.Import] for a in n.names}
    roots |= {n.module.partition(".")[0] for n in unit.index.nodes[ast.ImportFrom] if n.module and not n.level}
    own = not roots & _LIBRARIES
    if own and not any(_brings_torch(unit, n) for kind in _IMPORTS for n in unit.index.nodes[kind]):
        return False
    # A name of torch that such a module passes on comes with the import there; a text does not.
    lines = {f.line for f in needs if not own or f.code in ("MLU203", "MLU207", "MLU301")}
    if not lines:
        return False
    for statement in unit.tree.body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            return True
        if not own and isinstance(statement, (ast.Expr, ast.With)) and _makes_page(unit, statement):
            return True
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if any(statement.lineno <= line <= (statement.end_lineno or 0) for line in lines):
                if not own or any(isinstance(inner, ast.Call) for inner in ast.walk(statement)):
                    return True
    return False


_IMPORTS = (ast.Import, ast.ImportFrom)
_PAGES = frozenset("streamlit gradio chainlit".split())


def _makes_page(unit: Unit, statement: ast.stmt) -> bool:
    """`st.set_page_config(...)` at module level: the file is started by `streamlit run` and has no `__main__`."""
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    return any((unit.callee(c) or "").partition(".")[0] in _PAGES for c in calls)


def _brings_torch(unit: Unit, node: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import is of a module of the project that imports torch."""
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    else:
        base = unit.names.absolute(node.module or "", node.level)
        names = [base, *(f"{base}.{a.name}" for a in node.names)]
    near = unit.module.rpartition(".")[0]
    for name in names:
        for module in (name, f"{near}.{name}" if near else name):
            if any(target.partition(".")[0] == "torch" for target in unit.facts.exports.get(module, {}).values()):
                return True
    return False


def _guarded(indent: bytes, newline: bytes) -> bytes:
    lines = (b"try:", b"    " + _LINE.encode(), b"except ImportError:", b"    pass")
    return newline.join(indent + line for line in lines)


def _imported(unit: Unit) -> bool:
    for node in unit.index.nodes[ast.Import]:
        if any(a.name == "torch_mlu" or a.name.startswith("torch_mlu.") for a in node.names) and not _type_only(
            unit, node
        ):
            return True
    return any(
        n.module and (n.module == "torch_mlu" or n.module.startswith("torch_mlu.")) and not _type_only(unit, n)
        for n in unit.index.nodes[ast.ImportFrom]
    )


def _torch_imports(unit: Unit) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for node in unit.index.nodes[ast.Import]:
        if any(a.name == "torch" or a.name.startswith("torch.") for a in node.names):
            out.append(node)
    for node in unit.index.nodes[ast.ImportFrom]:
        if not node.level and node.module and (node.module == "torch" or node.module.startswith("torch.")):
            out.append(node)
        elif any(unit.names.of_alias(node, a) == "torch" for a in node.names):
            out.append(node)
    return [n for n in out if not _type_only(unit, n)]


def _type_only(unit: Unit, node: ast.AST) -> bool:
    for outer in unit.ancestors(node):
        if isinstance(outer, ast.If):
            spelled = ast.unparse(outer.test)
            if spelled.endswith("TYPE_CHECKING") and any(node is s or s in unit.ancestors(node) for s in outer.body):
                return True
    return False


def _anchors(unit: Unit, imports: list[ast.stmt], accepted: Sequence[Finding]) -> list[ast.stmt]:
    """
    The first torch import at module level; else the first one in each function that needs it, or in the first
    try.
    """
    top = [n for n in imports if isinstance(unit.parent(n), ast.Module)]
    guarded = [n for n in imports if n not in top and not _inside_function(unit, n)]
    if top and (not guarded or top[0].lineno < guarded[0].lineno):
        return top[:1]
    if guarded:
        return guarded[:1]
    seen: dict[ast.FunctionDef | ast.AsyncFunctionDef, ast.stmt] = {}
    for node in imports:
        function = next(a for a in unit.ancestors(node) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef)))
        seen.setdefault(function, node)
    lines = [f.line for f in accepted if f.code[:4] not in ("MLU0", "MLU6")]
    needing = [n for f, n in seen.items() if any(f.lineno <= line <= (f.end_lineno or f.lineno) for line in lines)]
    return needing or list(seen.values())


def _inside_function(unit: Unit, node: ast.AST) -> bool:
    return any(isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) for a in unit.ancestors(node))


def _needs_mlu(unit: Unit, statement: ast.stmt) -> bool:
    """Whether the import line itself names torch.mlu after the rewrite."""
    if isinstance(statement, ast.ImportFrom):
        module = statement.module or ""
        if module in ("torch", "torch.backends"):
            return any(a.name in ("cuda", "mlu") for a in statement.names)
        return module.startswith(_NEW)
    if isinstance(statement, ast.Import):
        return any(a.name.startswith(_NEW) for a in statement.names)
    return False


def _last_plain_import(unit: Unit) -> ast.stmt | None:
    found = None
    for node in unit.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found = node
        elif found is not None:
            break
    return found
