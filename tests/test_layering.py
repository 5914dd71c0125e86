"""Who may import whom (style page, "The shape")."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mlu_backend
import mlu_migrate

REWRITER = Path(mlu_migrate.__file__).parent
BACKEND = Path(mlu_backend.__file__).parent
CORE = (
    "engine rule edits suppress model names index scopes flow project apimap settings source guard unit strings".split()
)
OUTER = (
    "cli cliopts commands output outcome report pipeline gathering learning walk copying review parity editmap explain "
    "baseline pool cache gitinfo"
)


def imports(path: Path, *, everywhere: bool = False) -> set[str]:
    """Modules that a file imports: at module level, or anywhere. Names under TYPE_CHECKING do not count."""
    tree = ast.parse(path.read_bytes())
    found: set[str] = set()
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
            continue
        if everywhere or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending += ast.iter_child_nodes(node)
    return found


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "tables" not in path.parts)


def uses(found: set[str], package: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for name in found)


@pytest.mark.parametrize("path", modules(REWRITER), ids=lambda path: str(path.relative_to(REWRITER)))
def test_the_rewriter_imports_neither_torch_nor_the_backend_at_module_level(path: Path) -> None:
    found = imports(path)
    assert not any(uses(found, package) for package in ("torch", "mlu_backend", "torch_mlu"))


@pytest.mark.parametrize("path", modules(BACKEND), ids=lambda path: str(path.relative_to(BACKEND)))
def test_the_backend_never_imports_the_rewriter(path: Path) -> None:
    assert not uses(imports(path, everywhere=True), "mlu_migrate")


def test_model_imports_nothing_of_ours() -> None:
    assert not uses(imports(REWRITER / "model.py", everywhere=True), "mlu_migrate")


@pytest.mark.parametrize("name", CORE)
def test_the_core_does_not_know_what_is_around_it(name: str) -> None:
    paths = [path for path in (REWRITER / f"{name}.py", *(REWRITER / name).glob("*.py")) if path.exists()]
    if not paths:
        pytest.fail(f"{name} is named in the style page and is not there")
    found = set().union(*(imports(path, everywhere=True) for path in paths))
    outside = [outer for outer in OUTER.split() if uses(found, f"mlu_migrate.{outer}")]
    assert outside == []


@pytest.mark.parametrize("path", sorted((REWRITER / "rules").glob("*.py")), ids=lambda path: path.stem)
def test_rules_do_not_reach_for_the_engine_or_for_files(path: Path) -> None:
    found = imports(path, everywhere=True)
    forbidden = ["mlu_migrate.engine", *(f"mlu_migrate.{outer}" for outer in OUTER.split()), "pathlib", "subprocess"]
    assert not [name for name in forbidden if uses(found, name)]


@pytest.mark.parametrize(
    "path",
    [path for path in modules(REWRITER) if path.name not in ("cli.py", "cliopts.py")],
    ids=lambda path: path.stem,
)
def test_only_the_command_line_knows_typer(path: Path) -> None:
    assert not uses(imports(path, everywhere=True), "typer")


def test_only_output_and_the_entry_points_print() -> None:
    allowed = {"output.py", "__main__.py", "cli.py", "review.py", "parity.py"}
    for path in modules(REWRITER):
        if path.name in allowed:
            continue
        calls = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_bytes()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("print", "exit", "input")
        ]
        assert calls == [], f"{path.name}: {calls}"
