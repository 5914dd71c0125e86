"""MLU605: requirements in setup.py. Other files: mlu_migrate/configs/packages.py, under the same code and words."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlu_migrate.configs import packages
from mlu_migrate.configs.document import Document
from mlu_migrate.model import Finding, Safety, Severity
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit

_CALLS = ("setuptools.setup", "distutils.core.setup", "numpy.distutils.core.setup")
_LISTS = frozenset({"install_requires", "setup_requires", "tests_require", "extras_require"})


class SetupRequirements(Rule):
    """
    CUDA-only packages and wheels among the requirements of a setup script.

    ## What it changes
    Nothing by itself. Each requirement on an NVIDIA library, a CUDA-only package or a CUDA build of torch is reported
    with what to install instead.

    ## Before
        from setuptools import setup

        setup(name="train", install_requires=["flash-attn>=2", "numpy"])

    ## Finding
    At the requirement: the package consists of CUDA kernels.

    ## Left alone
    Names, files and extensions of the project, and requirements that are read from a file (which is looked at itself).

    ## Source
    One source a row in mlu_migrate/tables/packages.toml; torch_mlu r2.4_develop, README.md:47.
    """

    code = "MLU605"
    name = "package-requirement"
    severity = Severity.WARNING
    safety = Safety.MANUAL
    topics = ("environment",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """Every requirement that is written as a text in the call, or in a list that the call names."""
        if b"setup" not in unit.data or b"_require" not in unit.data:
            return
        doc = Document(unit.data, unit.path, unit.settings)
        for call in unit.index.nodes[ast.Call]:
            if unit.name(call.func) not in _CALLS:
                continue
            for keyword in call.keywords:
                if keyword.arg in _LISTS:
                    for node in _texts(unit, keyword.value):
                        _judge(doc, unit, node)
        for finding in doc.findings:
            yield finding.with_(edits=(), after="", safety=Safety.MANUAL)


def _texts(unit: Unit, node: ast.AST, depth: int = 0) -> Iterator[ast.Constant]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    elif isinstance(node, (ast.List, ast.Tuple)):
        for item in node.elts:
            yield from _texts(unit, item, depth + 1)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _texts(unit, value, depth + 1)
    elif isinstance(node, ast.BinOp):
        yield from _texts(unit, node.left, depth + 1)
        yield from _texts(unit, node.right, depth + 1)
    elif isinstance(node, ast.Name) and depth < 3:
        owner = unit.index.owner(unit.scope(node), node.id)
        for binding in owner.bindings.get(node.id, ()) if owner is not None else ():
            if binding.value is not None:
                yield from _texts(unit, binding.value, depth + 1)


def _judge(doc: Document, unit: Unit, node: ast.Constant) -> None:
    start, end = unit.span(node)
    text = unit.data[start:end].decode("utf-8")
    if "\n" in text or text[:1] not in "'\"" or text[1:-1] != node.value:
        return  # a prefix, escapes or joined literals: a requirement is never written so
    first = len(unit.data[:start].decode("utf-8")) + 1
    packages.requirement(doc, first, first + len(text) - 2)
