"""
What one file of a project says of the whole: imports, classes, functions and what reaches a device sink in it.

Read without the tree where it can be: only top-level statements and class bodies are looked at with `ast`, where values
flow is taken from a few patterns over the bytes. The result is plain data, kept in the cache for as long as the file
stays as it is; project.py puts those of all files together.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from mlu_migrate import frameworks, sinks
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
# Patterns that begin with plain text, which `re` looks for without trying each place.
_NEEDS_TREE = (
    re.compile(rb"def (?:cuda|is_cuda|mlu|is_mlu)\b"),
    re.compile(rb"import \*"),
    re.compile(rb"\n\w+\s*=\s*(?:\w+\.)*(?:torch|cuda)\b"),
)
_IMPORTS = re.compile(
    rb"^(?:from[ \t]+[.\w]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\r\n(]+)|import[ \t]+[^\r\n]+)", re.MULTILINE
)
# Imports that can lead to a torch module: what else a module imports is of no interest.
_WORTH = (b"torch", b"cuda", b"amp", b"nvtx", b"nccl", b"cudnn", b"dist")
_CLASS = re.compile(rb"^class[ \t]+(\w+)[ \t]*\(([^()]*)\)[ \t]*:", re.MULTILINE)

_REGISTERED = re.compile(rb"register\w*\(\s*(?:name\s*=\s*)?[\"']nccl[\"']")
_ARGUMENTS = re.compile(rb"\(([^()]+)\)")
_NAME_BACKWARDS = re.compile(rb"\w*[A-Za-z_]")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_KEPT = re.compile(rb"self\.(\w+)[ \t]*=[ \t]*(\w+)[ \t]*$", re.MULTILINE)
_NEVER = frozenset(b"self cls x y input inputs model config cfg args kwargs batch hidden_states attention_mask".split())
_NO_TAKERS = frozenset(
    b"print isinstance len str int float bool super getattr hasattr range zip enumerate list tuple dict set min max "
    b"sum append extend format join device to size view reshape".split()
)


def _asks_for_tree(match: re.Match[bytes]) -> bool:
    """A sink that takes a plain name, or an attribute of self that is not called a device."""
    if match[3]:
        return False
    return not match[1] or match[1] == b"self." and b"dev" not in match[2] and match[2] not in (b"dtype", b"_dtype")


Spans = list[tuple[int, int, str, tuple[str, ...]]]  # first line, last line, name, parameters of functions


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What ``look`` found. A class is (name, bases as spelled from torch or the project, methods)."""

    bound: Mapping[str, str] = field(default_factory=dict)  # name -> dotted name it stands for, "*N" -> module
    classes: tuple[tuple[str, tuple[str, ...], frozenset[str]], ...] = ()
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # function -> parameters
    device_params: frozenset[tuple[str, str]] = frozenset()  # (function or class, parameter) at a device sink
    device_names: frozenset[str] = frozenset()  # variables and attributes at a device sink
    handed_on: frozenset[tuple[str, str, str, int | str]] = (
        frozenset()
    )  # (function or class, parameter, what it is handed to, position or keyword there)
    stored: frozenset[tuple[str, str, str]] = frozenset()  # (class, parameter, attribute of self that keeps it)
    cuda_calls: int = 0
    entry_point: bool = False
    provides_import: bool = False
    speaks_of_cuda: bool = False
    registers_nccl: bool = False
    framework: str = ""  # "torch", or the other framework that the file works for
    imports: tuple[str, ...] = ()  # of a file of another framework: the modules it imports


def module_of(path: str) -> str:
    """The dotted module name of a path relative to the root, POSIX separators."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def look(path: str, data: bytes) -> FileFacts:
    """The facts of one file; those of a file that cannot be parsed are what its bytes tell."""
    framework, imports = frameworks.look(data)
    if not any(word in data for word in INTERESTING):
        return FileFacts(framework=framework, imports=imports)
    looking = _Looking(path)
    looking.at(data)
    return FileFacts(
        bound=looking.bound,
        classes=tuple(looking.classes),
        functions=looking.functions,
        device_params=frozenset(looking.device_params),
        device_names=frozenset(looking.device_names),
        handed_on=frozenset(looking.handed_on),
        stored=frozenset(looking.stored),
        framework=framework,
        imports=imports,
        cuda_calls=data.count(b".cuda("),
        entry_point=b"__main__" in data and b"torch" in data,
        provides_import=b"torch_mlu" in data,
        speaks_of_cuda=b"cuda" in data or b"nccl" in data,
        registers_nccl=b"nccl" in data and _REGISTERED.search(data) is not None,
    )


class _Looking:
    def __init__(self, path: str) -> None:
        self.module = module_of(path)
        self.package = path.endswith("__init__.py")
        self.bound: dict[str, str] = {}
        self.classes: list[tuple[str, tuple[str, ...], frozenset[str]]] = []
        self.functions: dict[str, tuple[str, ...]] = {}
        self.device_params: set[tuple[str, str]] = set()
        self.device_names: set[str] = set()
        self.handed_on: set[tuple[str, str, str, int | str]] = set()
        self.stored: set[tuple[str, str, str]] = set()

    def at(self, data: bytes) -> None:
        lines = b"\n" + data
        if not any(pattern.search(lines) for pattern in _NEEDS_TREE) and not any(
            _asks_for_tree(m) for m in _sinks(data)
        ):
            self._by_pattern(data)
            return
        try:
            source = Source(data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source.data if source.encoding == "utf-8" else source.text)
        except (SourceError, SyntaxError, ValueError, RecursionError, MemoryError):
            return
        spans: Spans = []
        self._body(tree.body, spans)
        self._sinks(source, spans)
        if self.device_params or self.device_names:
            self._passing(source, spans)

    def _by_pattern(self, data: bytes) -> None:
        """Imports and class headers of a file whose functions are of no interest, without parsing it."""
        bound = self.bound
        for match in _IMPORTS.finditer(data):
            if not any(word in match[0] for word in _WORTH):
                continue
            text = match[0].decode("utf-8", "replace")
            try:
                statement = ast.parse(text.strip()).body[0]
            except (SyntaxError, ValueError, IndexError):
                continue
            self._body([statement], [])
        for match in _CLASS.finditer(data):
            bases = tuple(
                b.strip() for b in match[2].decode("utf-8", "replace").split(",") if "=" not in b and b.strip()
            )
            resolved = []
            for base in bases:
                head, _, rest = base.partition(".")
                resolved.append((bound[head] + (f".{rest}" if rest else "")) if head in bound else base)
            self.classes.append((match[1].decode("utf-8", "replace"), tuple(resolved), frozenset()))
        for match in _sinks(data):
            if match[1] and not match[3]:
                self.device_names.add(match[2].decode("ascii", "replace"))

    def _body(self, body: list[ast.stmt], spans: Spans) -> None:
        bound = self.bound
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    bound[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom):
                base = absolute(self.module, node.module or "", node.level, self.package)
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
                self._body([*node.body, *node.orelse], spans)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bound.pop(node.name, None)
                self._function(node, node.name, spans)
            elif isinstance(node, ast.ClassDef):
                bound.pop(node.name, None)
                self._class(node, spans)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, spans: Spans) -> None:
        a = node.args
        params = tuple(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))
        self.functions[name] = params
        spans.append((node.lineno, node.end_lineno or node.lineno, name, params))

    def _class(self, node: ast.ClassDef, spans: Spans) -> None:
        methods: set[str] = set()
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                methods.add(item.name)
                name = node.name if item.name == "__init__" else f"{node.name}.{item.name}"
                self._function(item, name, spans)
            elif isinstance(item, ast.Assign):
                methods |= {t.id for t in item.targets if isinstance(t, ast.Name)}
        bound = self.bound
        bases: list[str] = []
        for base in node.bases:
            spelled = dotted(base) or "?"
            head, _, rest = spelled.partition(".")
            bases.append((bound[head] + (f".{rest}" if rest else "")) if head in bound else spelled)
        self.classes.append((node.name, tuple(bases), frozenset(methods)))

    def _sinks(self, source: Source, spans: Spans) -> None:
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

    def _passing(self, source: Source, spans: Spans) -> None:
        """Parameters that are only handed on: to another function, or to an attribute of self."""
        params = {p.encode() for span in spans for p in span[3] if not sinks.says(sinks.DEVICE, p)} - _NEVER
        if not params:
            return
        for match in _ARGUMENTS.finditer(source.data):
            if params.isdisjoint(_WORD.findall(match[1])):
                continue
            called = _NAME_BACKWARDS.match(source.data[max(match.start() - 60, 0) : match.start()][::-1])
            if called is None or called[0][::-1] in _NO_TAKERS:
                continue
            owner = self._owner(source, match.start(), spans)
            if owner is None:
                continue
            for position, text in enumerate(match[1].split(b",")):
                word, _, value = text.rpartition(b"=")
                name = value.strip().decode("utf-8", "replace")
                if name in owner[3]:
                    place: int | str = word.strip().decode("utf-8", "replace") if word else position
                    self.handed_on.add((owner[2], name, called[0][::-1].decode("utf-8", "replace"), place))
        for match in _KEPT.finditer(source.data):
            if match[2] in params:
                owner = self._owner(source, match.start(), spans)
                name = match[2].decode("utf-8", "replace")
                if owner is not None and name in owner[3]:
                    self.stored.add((owner[2], name, match[1].decode("utf-8", "replace")))

    @staticmethod
    def _owner(source: Source, offset: int, spans: Spans) -> tuple[int, int, str, tuple[str, ...]] | None:
        line = source.line_of(offset)
        inner = [s for s in spans if s[0] < line <= s[1]]
        return min(inner, key=lambda s: s[1] - s[0], default=None)


def absolute(module: str, target: str, level: int, package: bool) -> str:
    """The module that an import of ``level`` dots means inside ``module``."""
    if not level:
        return target
    base = module.split(".") if module else []
    keep = len(base) - level + (1 if package else 0)
    return ".".join([*base[: max(keep, 0)], *([target] if target else [])])
