"""
Facts from the whole tree, gathered in one cheap read-only pass: what one file alone cannot know.

Only top-level statements and class bodies are looked at with `ast`; where values flow is taken from a few patterns
over the bytes. The result is plain data: it is sent to workers and cached.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from mlu_migrate.collecting import held_back
from mlu_migrate.names import dotted
from mlu_migrate.source import Source, SourceError

INTERESTING = (b"torch", b"cuda", b"nccl", b"device")
# What stands at a device sink. One pattern a sink, each beginning with plain letters, which `re` finds fast.
_NAME = rb"\s*((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*)(\()?"
_SINKS = tuple(
    re.compile(head + _NAME)
    for head in (
        rb"\.to\(",
        rb"device\s*=",
        rb"torch\.device\(",
        rb"torch\.device\(\s*f[\"']\{",
        rb"map_location\s*=",
        rb"device_type\s*=",
        rb"set_device\(",
    )
)


def _sinks(data: bytes) -> Iterator[re.Match[bytes]]:
    """Names handed to a device sink: group 1 the dotted prefix, 2 the last name, 3 an opening parenthesis of a call."""
    for pattern in _SINKS:
        for match in pattern.finditer(data):
            before = data[match.start() - 1 : match.start()]
            if not (before.isalnum() or before == b"_") or pattern is _SINKS[0]:
                yield match


# What only the tree can tell: own methods of these names, aliases of torch modules, star imports.
_NEEDS_TREE = re.compile(
    rb"def (?:cuda|is_cuda|mlu|is_mlu)\b|import \*|^\w+\s*=\s*(?:\w+\.)*(?:torch|cuda)\b", re.MULTILINE
)
_IMPORTS = re.compile(
    rb"^(?:from[ \t]+[.\w]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\r\n(]+)|import[ \t]+[^\r\n]+)", re.MULTILINE
)
# Imports that can lead to a torch module: what else a module imports is of no interest.
_WORTH = (b"torch", b"cuda", b"amp", b"nvtx", b"nccl", b"cudnn", b"dist")
_CLASS = re.compile(rb"^class[ \t]+(\w+)[ \t]*\(([^()]*)\)[ \t]*:", re.MULTILINE)
_MODULE_BASES = frozenset(
    "Module Sequential ModuleList ModuleDict LightningModule ScriptModule DataParallel DistributedDataParallel "
    "PreTrainedModel "
    "Parameter Tensor Function".split()
)
# Top names that a project's own file of the same name must not take over, unless it lies at the root of the run.
_EXTERNAL = frozenset(
    "torch numpy typing collections abc types logging json random copy io enum math time os sys".split()
)


@dataclass(frozen=True, slots=True)
class ClassFact:
    """A class of the project that defines ``cuda``, ``is_cuda`` or ``to``. ``kind``: module, plain or unknown."""

    module: str
    name: str
    kind: str
    methods: frozenset[str]
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """What rules may ask about the project around a file. Empty facts mean: nothing is known."""

    modules: Mapping[str, str] = field(default_factory=dict)  # path -> module
    exports: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # module -> name -> canonical torch name
    classes: Mapping[str, tuple[ClassFact, ...]] = field(default_factory=dict)  # class name -> facts
    functions: Mapping[str, Mapping[str, tuple[str, ...]]] = field(
        default_factory=dict
    )  # module -> function -> parameters
    device_params: frozenset[tuple[str, str]] = (
        frozenset()
    )  # (function or class name, parameter) that reaches a device sink
    device_names: frozenset[str] = frozenset()  # variable and attribute names that reach a device sink somewhere
    unknown_cuda_calls: int = 0  # `.cuda()` calls in the tree
    entry_points: tuple[str, ...] = ()  # files run as programs that import torch
    native: tuple[str, ...] = ()  # folders with .cu sources
    provides_import: frozenset[str] = frozenset()  # modules of the project that already import torch_mlu

    def module_of(self, path: str) -> str:
        """Dotted module name of a path of this run, "" where unknown."""
        return self.modules.get(path, "")

    def is_module(self, name: str) -> bool:
        """Whether a dotted name is a module of the project."""
        return name in self.exports

    def own_class(self, name: str) -> ClassFact | None:
        """
        The project's class of that name that defines one of the methods above; None if there is none, or several
        differ.
        """
        found = self.classes.get(name.rpartition(".")[2], ())
        exact = [c for c in found if f"{c.module}.{c.name}" == name]
        if exact:
            return exact[0]
        return found[0] if len(found) == 1 else None


def scan(root: Path, files: Iterable[Path]) -> ProjectFacts:
    """
    Read the Python files of a tree once. ``root`` is what their module names and report paths are relative to.

    Files that cannot be read or parsed are passed over here; the run itself reports them.
    """
    collector = Collector()
    with held_back():
        for path in files:
            try:
                relative = path.relative_to(root).as_posix()
                collector.add(relative, path.read_bytes())
            except (OSError, ValueError):
                continue
    return collector.facts()


class Collector:
    """Gathers facts file by file."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.bound: dict[str, dict[str, str]] = {}
        self.raw_classes: list[tuple[str, str, tuple[str, ...], frozenset[str]]] = []
        self.functions: dict[str, dict[str, tuple[str, ...]]] = {}
        self.device_params: set[tuple[str, str]] = set()
        self.device_names: set[str] = set()
        self.unknown = 0
        self.entries: list[str] = []
        self.provides: set[str] = set()

    def add(self, path: str, data: bytes) -> None:
        """Take one file into account; ``path`` relative to the root, POSIX separators."""
        pure = PurePosixPath(path)
        parts = list(pure.with_suffix("").parts)
        if parts and parts[-1] == "__init__":
            parts.pop()
        module = ".".join(parts)
        self.modules[path] = module
        self.bound.setdefault(module, {})
        if not any(word in data for word in INTERESTING):
            return
        self.unknown += data.count(b".cuda(")
        if b"__main__" in data and b"torch" in data:
            self.entries.append(path)
        if b"torch_mlu" in data:
            self.provides.add(module)
        package = path.endswith("__init__.py")
        if not _NEEDS_TREE.search(data) and not any(not m[1] and not m[3] for m in _sinks(data)):
            self._by_pattern(data, module, package)
            return
        try:
            source = Source(data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source.data if source.encoding == "utf-8" else source.text)
        except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
            return
        spans: list[tuple[int, int, str, tuple[str, ...]]] = []
        self._body(tree.body, module, package, spans)
        self._sinks(source, spans)

    def _by_pattern(self, data: bytes, module: str, package: bool) -> None:
        """Imports and class headers of a file whose functions are of no interest, without parsing it."""
        bound = self.bound[module]
        for match in _IMPORTS.finditer(data):
            if not any(word in match[0] for word in _WORTH):
                continue
            text = match[0].decode("utf-8", "replace")
            try:
                statement = ast.parse(text.strip()).body[0]
            except (SyntaxError, ValueError, IndexError):
                continue
            self._body([statement], module, package, [])
        for match in _CLASS.finditer(data):
            bases = tuple(
                b.strip() for b in match[2].decode("utf-8", "replace").split(",") if "=" not in b and b.strip()
            )
            resolved = []
            for base in bases:
                head, _, rest = base.partition(".")
                resolved.append((bound[head] + (f".{rest}" if rest else "")) if head in bound else base)
            self.raw_classes.append((module, match[1].decode("utf-8", "replace"), tuple(resolved), frozenset()))
        for match in _sinks(data):
            if match[1] and not match[3]:
                self.device_names.add(match[2].decode("ascii", "replace"))

    def _body(
        self, body: list[ast.stmt], module: str, package: bool, spans: list[tuple[int, int, str, tuple[str, ...]]]
    ) -> None:
        bound = self.bound[module]
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    bound[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(module, node.module or "", node.level, package)
                for alias in node.names:
                    if alias.name == "*":
                        bound[f"*{len(bound)}"] = base
                    else:
                        bound[alias.asname or alias.name] = f"{base}.{alias.name}"
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                spelled = dotted(node.value)
                if spelled:
                    head, _, rest = spelled.partition(".")
                    if head in bound:
                        bound[node.targets[0].id] = bound[head] + (f".{rest}" if rest else "")
                else:
                    bound.pop(node.targets[0].id, None)
            elif isinstance(node, (ast.Try, ast.If)):
                self._body([*node.body, *node.orelse], module, package, spans)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bound.pop(node.name, None)
                self._function(node, module, node.name, spans)
            elif isinstance(node, ast.ClassDef):
                bound.pop(node.name, None)
                self._class(node, module, spans)

    def _function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        module: str,
        name: str,
        spans: list[tuple[int, int, str, tuple[str, ...]]],
    ) -> None:
        a = node.args
        params = tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))
        self.functions.setdefault(module, {})[name] = params
        spans.append((node.lineno, node.end_lineno or node.lineno, name, params))

    def _class(self, node: ast.ClassDef, module: str, spans: list[tuple[int, int, str, tuple[str, ...]]]) -> None:
        methods: set[str] = set()
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                methods.add(item.name)
                self._function(
                    item, module, node.name if item.name == "__init__" else f"{node.name}.{item.name}", spans
                )
            elif isinstance(item, ast.Assign):
                methods |= {t.id for t in item.targets if isinstance(t, ast.Name)}
        bound = self.bound[module]
        bases: list[str] = []
        for base in node.bases:
            spelled = dotted(base) or "?"
            head, _, rest = spelled.partition(".")
            bases.append((bound[head] + (f".{rest}" if rest else "")) if head in bound else spelled)
        self.raw_classes.append((module, node.name, tuple(bases), frozenset(methods)))

    def _sinks(self, source: Source, spans: list[tuple[int, int, str, tuple[str, ...]]]) -> None:
        for match in _sinks(source.data):
            if match[3]:
                continue
            name = match[2].decode("ascii", "replace")
            if name in ("self", "None", "True", "False", "torch", "str", "int"):
                continue
            if match[1]:
                self.device_names.add(name)
                continue
            line = source.line_of(match.start())
            inner = [s for s in spans if s[0] <= line <= s[1]]
            owner = min(inner, key=lambda s: s[1] - s[0], default=None)
            if owner is not None and name in owner[3]:
                self.device_params.add((owner[2], name))
            else:
                self.device_names.add(name)

    def facts(self) -> ProjectFacts:
        """Everything gathered, with re-exports and base classes followed."""
        exports = _exports(self.bound)
        return ProjectFacts(
            modules=self.modules,
            exports=exports,
            classes=_classes(self.raw_classes),
            functions=self.functions,
            device_params=frozenset(self.device_params),
            device_names=frozenset(self.device_names),
            unknown_cuda_calls=self.unknown,
            entry_points=tuple(sorted(self.entries)),
            provides_import=frozenset(self.provides),
        )


def _exports(bound: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Module -> name -> canonical torch name; also under shorter names a script next to the module would use."""
    out: dict[str, dict[str, str]] = {}
    for module, names in bound.items():
        found: dict[str, str] = {}
        for name in names:
            if not name.startswith("*"):
                target = _follow(bound, module, name, 0)
                if target and (target == "torch" or target.startswith("torch.")):
                    found[name] = target
        out[module] = found
    for module, names in bound.items():
        for star, base in names.items():
            if star.startswith("*") and base in out:
                for name, target in out[base].items():
                    out[module].setdefault(name, target)
    for module in list(out):
        parts = module.split(".")
        for cut in range(1, len(parts)):
            short = ".".join(parts[cut:])
            if parts[cut] not in _EXTERNAL:
                out.setdefault(short, out[module])
    return out


def _follow(bound: dict[str, dict[str, str]], module: str, name: str, depth: int) -> str | None:
    target = bound.get(module, {}).get(name)
    if target is None or depth > 6:
        return None
    head, _, leaf = target.rpartition(".")
    if head in bound and head != module and leaf in bound[head]:
        return _follow(bound, head, leaf, depth + 1)
    return target


_OWN = frozenset(("cuda", "is_cuda", "mlu", "is_mlu", "to"))


def _classes(raw: list[tuple[str, str, tuple[str, ...], frozenset[str]]]) -> dict[str, tuple[ClassFact, ...]]:
    by_name: dict[str, list[tuple[str, str, tuple[str, ...], frozenset[str]]]] = {}
    for item in raw:
        by_name.setdefault(item[1], []).append(item)
    kinds: dict[str, str] = {}
    methods_of: dict[str, frozenset[str]] = {}

    def kind(name: str) -> str:
        leaf = name.rpartition(".")[2]
        if leaf in _MODULE_BASES or leaf.endswith("Module"):
            return "module"
        if leaf == "object":
            return "plain"
        if leaf not in by_name:
            return "plain" if leaf in _PLAIN else "unknown"
        if leaf not in kinds:
            kinds[leaf] = "unknown"  # what a cycle of bases sees
            kinds[leaf] = joined([b for k in by_name[leaf] for b in k[2]])
        return kinds[leaf]

    def joined(bases: list[str]) -> str:
        found = {kind(b) for b in bases} or {"plain"}
        return "module" if "module" in found else "unknown" if "unknown" in found else "plain"

    def inherited(leaf: str) -> frozenset[str]:
        if leaf not in methods_of:
            methods_of[leaf] = frozenset()
            own: frozenset[str] = frozenset()
            for _, _, bases, methods in by_name.get(leaf, ()):
                own |= methods & _OWN
                for base in bases:
                    own |= inherited(base.rpartition(".")[2])
            methods_of[leaf] = own
        return methods_of[leaf]

    out: dict[str, list[ClassFact]] = {}
    for module, name, bases, methods in raw:
        above: frozenset[str] = frozenset()
        for base in bases:
            above |= inherited(base.rpartition(".")[2])
        if (methods | above) & (_OWN - {"to"}):
            out.setdefault(name, []).append(ClassFact(module, name, joined(list(bases)), methods & _OWN | above, bases))
    return {n: tuple(f) for n, f in out.items()}


_PLAIN = frozenset(
    "Dataset IterableDataset Enum IntEnum NamedTuple ABC Protocol Generic dict list tuple str int UserDict".split()
)


def _absolute(module: str, target: str, level: int, package: bool) -> str:
    if not level:
        return target
    base = module.split(".") if module else []
    keep = len(base) - level + (1 if package else 0)
    return ".".join([*base[: max(keep, 0)], *([target] if target else [])])
