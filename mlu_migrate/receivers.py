"""What `.cuda` or `.is_cuda` is asked of: a tensor or module, a class of the project, a library's object, a module."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from mlu_migrate.model import Edit
from mlu_migrate.sinks import FOREIGN
from mlu_migrate.unit import Unit

# Libraries whose objects have `.to(device)` but none of the methods torch_mlu generates (tensor, module, storage,
# PackedSequence).
TO_ONLY = frozenset(
    ("torch_geometric", "transformers", "torchtext", "tensordict", "pytorch3d", "diffusers", "detectron2")
)
# Their classes that are Modules all the same, by name.
_MODULE_WORDS = (
    "Model",
    "Net",
    "Module",
    "Conv",
    "Encoder",
    "Decoder",
    "Auto",
    "For",
    "Bert",
    "GPT",
    "Layer",
    "UNet",
    "Loss",
)


@dataclass(frozen=True, slots=True)
class Receiver:
    """
    ``kind``: value (rewrite), own (project class with the method), library, function, foreign, torch;
    ``owner`` names it.
    """

    kind: str
    owner: str = ""


def insertion(at: int, text: str) -> Edit:
    """An edit that only adds."""
    return Edit(at, at, text.encode("utf-8"))


def of(unit: Unit, func: ast.Attribute) -> Receiver:
    """The receiver of ``<expr>.<attr>``."""
    value, attr = func.value, func.attr
    names = unit.names.all_of(value)
    for name in names:
        root = name.partition(".")[0]
        if root in FOREIGN or root in ("numpy", "np"):
            return Receiver("foreign", root)
        if name == "torch":
            return Receiver("torch")
        if unit.facts.is_module(name) and attr in unit.facts.functions_of(name, unit.module):
            return Receiver("function", f"{name}.{attr}")
        if "." not in name and _is_module_alias(unit, value):
            return Receiver("foreign", name)
    found = class_of(unit, value)
    if found is not None:
        return found.receiver(attr)
    return Receiver("value")


def _is_module_alias(unit: Unit, value: ast.expr) -> bool:
    """`import torchio as tio`: what is bound is a module, which no tensor method belongs to."""
    if not isinstance(value, ast.Name):
        return False
    owner = unit.index.owner(unit.scope(value), value.id)
    bindings = owner.bindings.get(value.id, []) if owner else []
    return bool(bindings) and all(b.kind == "import" and not b.level and "." not in (b.target or ".") for b in bindings)


class _Class:
    """A class the value is known to be an instance of."""

    def __init__(self, unit: Unit, name: str, node: ast.ClassDef | None) -> None:
        self.unit, self.name, self.node = unit, name, node

    def receiver(self, attr: str) -> Receiver:
        fact = self.unit.facts.own_class(self.name)
        if fact is not None:
            if attr in fact.methods and fact.kind != "module":
                return Receiver("own", fact.name)
            return Receiver("value")
        if self.node is not None:
            methods = {n.name for n in self.node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if attr in methods and not is_module_class(self.unit, self.node):
                return Receiver("own", self.node.name)
            return Receiver("value")
        root, _, leaf = self.name.partition(".")
        last = leaf.rpartition(".")[2] or root
        if root in FOREIGN:
            return Receiver("foreign", root)
        if root in TO_ONLY and not any(w in last for w in _MODULE_WORDS):
            return Receiver("library", self.name)
        return Receiver("value")


def is_module_class(unit: Unit, node: ast.ClassDef) -> bool:
    """Whether a class of this file is a torch Module (or Tensor, autograd Function) as far as its bases tell."""
    fact = unit.facts.own_class(f"{unit.module}.{node.name}" if unit.module else node.name)
    if fact is not None:
        return fact.kind == "module"
    for base in node.bases:
        name = unit.name(base) or ast.unparse(base)
        leaf = name.rpartition(".")[2]
        if leaf.endswith("Module") or name in (
            "torch.Tensor",
            "torch.nn.Sequential",
            "torch.nn.ModuleList",
            "torch.nn.ModuleDict",
        ):
            return True
        inner = _local_class(unit, base)
        if inner is not None and inner is not node and is_module_class(unit, inner):
            return True
        if name.startswith("torch.nn."):
            return True
    return False


def class_of(unit: Unit, value: ast.expr, depth: int = 0) -> _Class | None:
    """The class an expression is an instance of, where one assignment, annotation or `self` says so."""
    if depth > 6:
        return None
    if isinstance(value, ast.Call):
        inner = _local_class(unit, value.func)
        if inner is not None:
            return _Class(unit, f"{unit.module}.{inner.name}" if unit.module else inner.name, inner)
        name = unit.name(value.func)
        if name is not None and name.rpartition(".")[2][:1].isupper():
            return _Class(unit, name, None)
        made, _, maker = (name or "").rpartition(".")
        if maker.startswith("from_") and made.rpartition(".")[2][:1].isupper():
            return _Class(unit, made, None)  # Batch.from_data_list(...)
        if isinstance(value.func, ast.Attribute) and value.func.attr in ("cuda", "to", "cpu", "half", "float"):
            return class_of(unit, value.func.value, depth + 1)
        return None
    if isinstance(value, ast.Name):
        if value.id in ("self", "cls"):
            owner = unit.enclosing_class(value)
            if owner is not None:
                return _Class(unit, f"{unit.module}.{owner.name}" if unit.module else owner.name, owner)
        scope = unit.index.owner(unit.scope(value), value.id)
        bindings = scope.bindings.get(value.id, []) if scope else []
        found: list[_Class] = []
        for binding in bindings:
            one: _Class | None = None
            if binding.kind == "assign" and binding.value is not None:
                if isinstance(binding.value, ast.Call) and isinstance(binding.value.func, ast.Attribute):
                    root = binding.value.func.value
                    if isinstance(root, ast.Name) and root.id == value.id:
                        continue  # b = b.cuda()
                one = class_of(unit, binding.value, depth + 1)
            elif binding.kind == "param":
                one = _annotated(unit, getattr(binding.node, "annotation", None))
            if one is None:
                return None
            found.append(one)
        return found[0] if found and len({f.name for f in found}) == 1 else None
    return None


def _annotated(unit: Unit, annotation: ast.expr | None) -> _Class | None:
    if isinstance(annotation, (ast.Name, ast.Attribute)):
        inner = _local_class(unit, annotation)
        if inner is not None:
            return _Class(unit, f"{unit.module}.{inner.name}" if unit.module else inner.name, inner)
        name = unit.name(annotation)
        if name is not None and "." in name:
            return _Class(unit, name, None)
    return None


def _local_class(unit: Unit, node: ast.expr) -> ast.ClassDef | None:
    if not isinstance(node, ast.Name):
        return None
    owner = unit.index.owner(unit.scope(node), node.id)
    bindings = owner.bindings.get(node.id, []) if owner else []
    if len(bindings) == 1 and isinstance(bindings[0].node, ast.ClassDef):
        return bindings[0].node
    return None
