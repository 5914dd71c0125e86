"""What names mean: aliases, shadowing, stand-ins, re-exports."""

from __future__ import annotations

import ast

import pytest

from mlu_migrate.index import Index
from mlu_migrate.names import Names


def meaning(source: str, **kwargs: object) -> str | None:
    """Canonical name of the expression in the last statement of a module (or of its last function)."""
    tree = ast.parse(source)
    index = Index(tree)
    last = tree.body[-1]
    while isinstance(last, (ast.FunctionDef, ast.For, ast.If, ast.With, ast.ClassDef)):
        last = last.body[-1]
    assert isinstance(last, ast.Expr)
    return Names(index, **kwargs).of(last.value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch as t\nt.cuda.init", "torch.cuda.init"),
        ("import torch.cuda.nvtx as n\nn.mark", "torch.cuda.nvtx.mark"),
        ("import torch.cuda\ntorch.cuda.init", "torch.cuda.init"),
        ("from torch import cuda as c\nc.init", "torch.cuda.init"),
        ("import torch\nm = torch.cuda\nm.init", "torch.cuda.init"),
        ("import torch\nm = n = torch\nn.cuda", "torch.cuda"),
        ("import torch\ndef f(torch):\n    torch.cuda", None),
        ("import torch\ntorch = 1\ntorch.cuda", None),
        ("import torch\nx = torch.cuda\nfor torch in y:\n    torch.cuda", None),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.cuda", "torch.cuda"),
        ("def f():\n    import torch\n    torch.cuda", "torch.cuda"),
        ("import torch\nclass A:\n    torch = 1\n    def f(self):\n        torch.cuda", "torch.cuda"),
        ("import torch\ndef f():\n    global torch\n    torch.cuda", "torch.cuda"),
        ("import torch\ngetattr(torch, 'cuda').init", "torch.cuda.init"),
        ("import importlib\nimportlib.import_module('torch.cuda').init", "torch.cuda.init"),
        ("import torchx as torch\ntorch.cuda", "torchx.cuda"),
        ("from .torch import cuda\ncuda.init", ".torch.cuda.init"),
        ("if a:\n    import torch as t\nelse:\n    import jax as t\nt.cuda", None),
        ("if a:\n    from apex import amp\nelse:\n    from torch.cuda import amp\namp.x", None),
    ],
)
def test_an_expression_means_what_its_imports_say(source: str, name: str | None) -> None:
    assert meaning(source) == name


def test_relative_imports_are_made_absolute() -> None:
    assert meaning("from .a import b\nb", module="pkg.sub.mod") == "pkg.sub.a.b"
    assert meaning("from ..a import b\nb", module="pkg.sub.mod") == "pkg.a.b"
    assert meaning("from .a import b\nb", module="pkg.sub", is_package=True) == "pkg.sub.a.b"


def test_re_exports_are_followed() -> None:
    exports = {"utils": {"dev": "torch.cuda"}}
    assert meaning("from utils import dev\ndev.init", exports=exports) == "torch.cuda.init"
    assert meaning("import utils\nutils.dev.init", exports=exports) == "torch.cuda.init"
    assert meaning("from utils import *\ndev.init", exports=exports) == "torch.cuda.init"
