"""MLU902: CUDA kernels and the building of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlu_migrate import sieve
from mlu_migrate.fallback import has_fallback
from mlu_migrate.model import Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit, argument

_BASE = "torch.utils.cpp_extension"
_BUILDERS = {f"{_BASE}.CUDAExtension", f"{_BASE}.load", f"{_BASE}.load_inline"}
_FFI = "torch.utils.ffi"
_KERNEL = re.compile(
    r"__global__|__device__|#include\s*<cuda|cudaStream_t|asm volatile|\.version \d+\.\d+\s+\.target sm_"
)
# Modules that a CUDA build makes: `roi_align_cuda`, `my_cuda_ext`. Helpers written in Python are named otherwise.
_EXTENSION = re.compile(r"^(?!torch)(\w+_)?(cuda|CUDA)(_?(ext|extension|kernels?|ops|lib|backend|C))?$")
_MOVES = re.compile(
    r"(is|has|use|to|move|no|with|check|get|set|init|test|skip|require|requires|only|if)_|.*_(to|on|use)_"
)
_LIBRARY = re.compile(
    r"(lib)?(cudart|cuda|cudnn\w*|cublas\w*|nccl|nvrtc|nvToolsExt|cufft|curand|cusparse|cusolver|nvidia-ml|nvjitlink)"
    r"(\.so[\d.]*|\.dll|64_\d+\.dll)?"
)


class NativeKernel(Rule):
    """
    CUDA sources and calls that compile them.

    ## What it changes
    A `CUDAExtension` whose sources are plainly all C++ becomes an `MLUExtension`. Everything else is told: `.cu`
    files have to be
    written again in BangC (`.mlu`), no translator exists.

    ## Before
        from torch.utils.cpp_extension import load

        ops = load("ops", ["ops.cpp", "ops_kernel.cu"], extra_cuda_cflags=["-O3"])

    ## Finding
    At `load`: the kernel files named have to be ported.

    ## Left alone
    Keywords, file names and kernel text.

    ## Source
    torch_mlu r2.4_develop, torch_mlu/utils/cpp_extension.py:791-840 (MLUExtension), 998-1030 (`.mlu` sources).
    """

    code = "MLU902"
    name = "native-kernel"
    severity = Severity.ERROR
    safety = Safety.SAFE
    topics = ("advice",)
    needs = (
        b"cpp_extension",
        b"utils.ffi",
        b"CUDA_HOME",
        b"_cuda",
        b"_CUDA",
        b"import cuda",
        b"LoadLibrary",
        b"CDLL",
        b"find_library",
        b"__global__",
        b"__device__",
        b"<cuda",
        b"cudaStream_t",
        b"asm volatile",
        b".target sm_",
    )

    @sieve.calls(_BUILDERS)
    def visit_Call(self, node: ast.Call, unit: Unit) -> Iterator[Finding]:
        """CUDAExtension, load, load_inline."""
        name = unit.callee(node)
        if name not in _BUILDERS:
            return
        leaf = name.rpartition(".")[2]
        sources = argument(node, "sources", 1)
        files = [
            e.value for e in getattr(sources, "elts", ()) if isinstance(e, ast.Constant) and isinstance(e.value, str)
        ]
        complete = isinstance(sources, (ast.List, ast.Tuple)) and len(files) == len(sources.elts)
        kernels = [f for f in files if f.endswith((".cu", ".cuh"))]
        if leaf == "CUDAExtension" and complete and files and not kernels and not argument(node, "extra_compile_args"):
            edits = _to_mlu_extension(unit, node)
            if edits:
                yield self.found(unit, node.func, "cpp_only", edits, severity=Severity.INFO)
                return
            yield self.found(unit, node.func, "cpp_by_hand", safety=Safety.MANUAL, severity=Severity.WARNING)
            return
        if leaf == "load" and complete and files and not kernels and not argument(node, "with_cuda"):
            return  # C++ only: torch's own loader serves
        if leaf == "load_inline" and argument(node, "cuda_sources") is None:
            return
        if leaf == "load_inline":
            yield self.found(unit, node.func, "inline", safety=Safety.MANUAL)
            return
        text = ", ".join(kernels) if kernels else "-"
        yield self.found(
            unit, node.func, "kernels" if kernels else "unknown_sources", safety=Safety.MANUAL, call=leaf, files=text
        )

    def visit_Import(self, node: ast.Import, unit: Unit) -> Iterator[Finding]:
        """`import roi_align_cuda`: a compiled extension that nothing stands in for."""
        for alias in node.names:
            if alias.name == _FFI:
                yield from self._ffi(unit, alias)
            elif _EXTENSION.search(alias.name) and _is_compiled(unit, alias.name, node):
                yield from self._extension(unit, alias, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom, unit: Unit) -> Iterator[Finding]:
        """`from roi_align_cuda import forward`, `from . import roi_align_cuda`."""
        if node.module == _FFI:
            yield from self._ffi(unit, node)
        elif node.module and not node.level:
            if _EXTENSION.search(node.module) and _is_compiled(unit, node.module, node):
                yield from self._extension(unit, node, node.module)
        for alias in node.names if node.module is None else ():  # a name out of a module is no module
            if _EXTENSION.search(alias.name):
                package, _, leaf = unit.names.of_alias(node, alias).rpartition(".")
                if leaf and leaf not in unit.facts.functions_of(package, unit.module) and not _MOVES.match(leaf):
                    if _is_compiled(unit, f"{package}.{leaf}" if package.strip(".") else leaf, node):
                        yield from self._extension(unit, alias, leaf)

    def _ffi(self, unit: Unit, node: ast.AST) -> Iterator[Finding]:
        """The way to compile extensions before torch 1.0; once a file, wherever something catches the failure."""
        if not unit.memo.get("native.ffi"):
            unit.memo["native.ffi"] = True
            yield self.found(unit, node, "ffi", safety=Safety.MANUAL)

    def _extension(self, unit: Unit, node: ast.AST, name: str) -> Iterator[Finding]:
        seen: set[str] = unit.memo.setdefault("native.extensions", set())  # type: ignore[assignment]
        if name not in seen:
            seen.add(name)
            yield self.found(unit, node, "extension", safety=Safety.MANUAL, severity=Severity.WARNING, module=name)

    @sieve.attributes(("CUDA_HOME", "CUDAExtension"))
    def visit_Attribute(self, node: ast.Attribute, unit: Unit) -> Iterator[Finding]:
        """`torch.utils.cpp_extension.CUDA_HOME`."""
        if node.attr == "CUDA_HOME" and unit.name(node) == f"{_BASE}.CUDA_HOME":
            yield from self._home(node, unit)
        elif node.attr == "CUDAExtension" and unit.name(node) == f"{_BASE}.CUDAExtension":
            yield from self._reference(node, unit)

    def visit_Name(self, node: ast.Name, unit: Unit) -> Iterator[Finding]:
        """`CUDA_HOME` imported from cpp_extension."""
        if node.id == "CUDA_HOME" and isinstance(node.ctx, ast.Load) and unit.name(node) == f"{_BASE}.CUDA_HOME":
            yield from self._home(node, unit)
        elif node.id == "CUDAExtension" and unit.name(node) == f"{_BASE}.CUDAExtension":
            yield from self._reference(node, unit)

    def _reference(self, node: ast.expr, unit: Unit) -> Iterator[Finding]:
        """`extension = CUDAExtension`, called under its other name below."""
        parent = unit.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        names = [unit.callee(call) for call in unit.index.nodes[ast.Call]]
        if isinstance(node.ctx, ast.Load) and not called and f"{_BASE}.CUDAExtension" not in names:  # type: ignore[attr-defined]
            yield self.found(unit, node, "unknown_sources", safety=Safety.MANUAL, call="CUDAExtension", files="-")

    def _home(self, node: ast.AST, unit: Unit) -> Iterator[Finding]:
        if not unit.memo.get("native.home"):
            unit.memo["native.home"] = True
            yield self.found(unit, node, "home", safety=Safety.MANUAL, severity=Severity.WARNING)

    @sieve.texts(lambda text: len(text) > 60 or _LIBRARY.fullmatch(text) is not None)
    def visit_Constant(self, node: ast.Constant, unit: Unit) -> Iterator[Finding]:
        """CUDA source text in a string, and libraries of the toolkit that are opened by name."""
        if isinstance(node.value, str) and len(node.value) < 60 and _LIBRARY.fullmatch(node.value):
            call = unit.parent(node)
            func = call.func if isinstance(call, ast.Call) else None
            leaf = last_word(func)
            if leaf in ("CDLL", "LoadLibrary", "PyDLL", "find_library", "load_library", "WinDLL"):
                text = node.value
                yield self.found(unit, node, "library", safety=Safety.MANUAL, severity=Severity.WARNING, library=text)
            return
        if (
            isinstance(node.value, str)
            and len(node.value) > 60
            and _KERNEL.search(node.value)
            and not unit.is_docstring(node)
        ):
            start = unit.start(node)
            line_end = unit.source.starts[node.lineno] if node.lineno < len(unit.source.starts) else len(unit.data)
            span = (start, min(unit.end(node), line_end - 1))
            yield self.found(unit, span, "text", safety=Safety.MANUAL)


def _is_compiled(unit: Unit, name: str, statement: ast.stmt) -> bool:
    """Whether an import of such a name is of no Python module of the project, and nothing catches its failure."""
    if name == "cuda" or has_fallback(unit, statement) or unit.names.exports.get(name) is not None:
        return False
    known = set(unit.facts.modules.values())
    if any(m == name or m.endswith("." + name) for m in known):
        return False
    return not any(isinstance(a, ast.If) and _is_checking(a.test) for a in unit.ancestors(statement))


def _is_checking(test: ast.expr) -> bool:
    return ast.unparse(test).endswith("TYPE_CHECKING")


def _to_mlu_extension(unit: Unit, node: ast.Call) -> tuple[Edit, ...]:
    """Rename the call and its import, where the name comes from one plain from-import on a line of its own."""
    func = node.func
    if not isinstance(func, ast.Name) or func.id != "CUDAExtension":
        return ()
    for statement in unit.index.nodes[ast.ImportFrom]:
        if statement.module != _BASE or statement.level:
            continue
        for alias in statement.names:
            if alias.name == "CUDAExtension" and alias.asname is None:
                others = [a for a in statement.names if a is not alias and a.name != "BuildExtension"]
                if others or b"#" in unit.data[unit.start(statement) : unit.end(statement)]:
                    return ()
                names = ", ".join("MLUExtension" if a is alias else unit.text(a) for a in statement.names)
                text = f"from torch_mlu.utils.cpp_extension import {names}"
                return (unit.replace(statement, text), unit.replace(func, "MLUExtension"))
    return ()
