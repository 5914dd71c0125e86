"""
Facts from the whole tree, gathered in one cheap read-only pass: what one file alone cannot know.

filefacts.py looks at each file, this module follows re-exports and base classes across them. The result is plain data:
it is sent to workers, and rules ask it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlu_migrate import frameworks
from mlu_migrate.collecting import held_back
from mlu_migrate.filefacts import FileFacts, look, module_of

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
    device_methods: Mapping[str, frozenset[int | str]] = field(
        default_factory=dict
    )  # method -> positions and keywords that reach a device sink in every class that has it
    unknown_cuda_calls: int = 0  # `.cuda()` calls in the tree
    entry_points: tuple[str, ...] = ()  # files run as programs that import torch
    native: tuple[str, ...] = ()  # folders with .cu sources
    provides_import: frozenset[str] = frozenset()  # modules of the project that already import torch_mlu
    registers_nccl: bool = False  # whether a file keeps something of its own under the name "nccl"
    speaks_of_cuda: bool = False  # whether a file of it names CUDA or NCCL, and so may come to import torch_mlu
    frameworks: Mapping[str, str] = field(default_factory=dict)  # path -> framework other than torch it works for
    config_groups: frozenset[str] = frozenset()  # files that a word of a command line chooses; see configs/groups.py

    def module_of(self, path: str) -> str:
        """Dotted module name of a path of this run, "" where unknown."""
        return self.modules.get(path, "")

    def is_module(self, name: str) -> bool:
        """Whether a dotted name is a module of the project."""
        return name in self.exports

    def functions_of(self, module: str, near: str = "") -> Mapping[str, tuple[str, ...]]:
        """The functions of a module, by the name an import in the module ``near`` gives it; empty where unknown."""
        head = near
        while module not in self.functions and head:
            head = head.rpartition(".")[0]
            if f"{head}.{module}" in self.functions:
                return self.functions[f"{head}.{module}"]
        return self.functions.get(module, {})

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


def look_at(root: Path, files: Iterable[str]) -> dict[str, FileFacts]:
    """
    The facts of each file; paths are relative to ``root``, POSIX separators.

    Files that cannot be read or parsed are passed over here; the run itself reports them.
    """
    found = {}
    with held_back():
        for rel in files:
            try:
                found[rel] = look(rel, (root / rel).read_bytes())
            except (OSError, ValueError):
                continue
    return found


def scan(root: Path, files: Iterable[Path]) -> ProjectFacts:
    """The facts of a tree. ``root`` is what module names and report paths are relative to."""
    return join(look_at(root, [path.relative_to(root).as_posix() for path in files]))


class Collector:
    """Gathers facts file by file."""

    def __init__(self) -> None:
        self.files: dict[str, FileFacts] = {}

    def add(self, path: str, data: bytes) -> None:
        """Take one file into account; ``path`` relative to the root, POSIX separators."""
        self.files[path] = look(path, data)

    def facts(self) -> ProjectFacts:
        """Everything gathered, put together."""
        return join(self.files)


def join(files: Mapping[str, FileFacts]) -> ProjectFacts:
    """The facts of a project from those of its files (path -> facts), with re-exports and base classes followed."""
    bound: dict[str, dict[str, str]] = {}
    functions: dict[str, dict[str, tuple[str, ...]]] = {}
    classes = []
    modules = {path: module_of(path) for path in files}
    for path, file in files.items():
        module = modules[path]
        bound.setdefault(module, {}).update(file.bound)
        if file.functions:
            functions.setdefault(module, {}).update(file.functions)
        classes += [(module, *row) for row in file.classes]
    device_names = frozenset().union(*(file.device_names for file in files.values()))
    device_params = _reaching(files.values(), functions, device_names)
    return ProjectFacts(
        modules=modules,
        exports=_exports(bound),
        classes=_classes(classes),
        functions=_with_short_names(functions),
        device_params=device_params,
        device_names=device_names,
        device_methods=_methods(functions, device_params),
        unknown_cuda_calls=sum(file.cuda_calls for file in files.values()),
        entry_points=tuple(sorted(path for path, file in files.items() if file.entry_point)),
        provides_import=frozenset(modules[path] for path, file in files.items() if file.provides_import),
        registers_nccl=any(file.registers_nccl for file in files.values()),
        speaks_of_cuda=any(file.speaks_of_cuda for file in files.values()),
        frameworks=frameworks.others({path: (f.framework, f.imports) for path, f in files.items()}, modules),
    )


def _with_short_names(
    functions: dict[str, dict[str, tuple[str, ...]]],
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Modules also under the shorter names that programs below `src/` or beside them use, where those are unique."""
    short: dict[str, list[str]] = {}
    for module in functions:
        parts = module.split(".")
        for cut in range(1, len(parts)):
            if parts[cut] not in _EXTERNAL:
                short.setdefault(".".join(parts[cut:]), []).append(module)
    return {**{name: functions[full[0]] for name, full in short.items() if len(full) == 1}, **functions}


def _reaching(
    files: Iterable[FileFacts],
    functions: Mapping[str, Mapping[str, tuple[str, ...]]],
    device_names: frozenset[str],
) -> frozenset[tuple[str, str]]:
    """Parameters at a device sink, and those that are handed on to one of them, through any number of functions."""
    every = list(files)
    found: set[tuple[str, str]] = set().union(*(file.device_params for file in every))
    found |= {(owner, name) for file in every for owner, name, attribute in file.stored if attribute in device_names}
    handed = [row for file in every for row in file.handed_on]
    functions_of: dict[str, list[tuple[str, ...]]] = {}
    for known in functions.values():
        for key, params in known.items():
            functions_of.setdefault(key, []).append(_given(params))
    places: set[tuple[str, int | str]] = set()  # of arguments that reach a device: last word of the function, place
    new = found
    for _ in range(_HOPS):
        for key, name in new:
            leaf = key.rpartition(".")[2]
            for params in functions_of.get(key, ()):
                if name in params:
                    places |= {(leaf, name), (leaf, params.index(name))}
        new = {(owner, name) for owner, name, leaf, place in handed if (leaf, place) in places} - found
        if not new:
            break
        found |= new
    return frozenset(found)


_HOPS = 6  # functions a parameter is followed through


def _given(params: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters that a caller fills."""
    return params[1:] if params[:1] in (("self",), ("cls",)) else params


def _methods(
    functions: Mapping[str, Mapping[str, tuple[str, ...]]], device_params: frozenset[tuple[str, str]]
) -> dict[str, frozenset[int | str]]:
    """What is surely a device where a method is called on an object of a class that is not known."""
    out: dict[str, frozenset[int | str]] = {}
    for known in functions.values():
        for key, params in known.items():
            if "." not in key:
                continue
            given = _given(params)
            places: set[int | str] = set()
            for position, name in enumerate(given):
                if (key, name) in device_params:
                    places |= {position, name}
            leaf = key.rpartition(".")[2]
            out[leaf] = out[leaf] & places if leaf in out else frozenset(places)
    return {leaf: places for leaf, places in out.items() if places}


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
