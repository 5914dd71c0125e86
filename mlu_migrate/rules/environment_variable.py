"""MLU601: environment variables of CUDA and NCCL in Python; configs/checks.py does the same for other files."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlu_migrate import commandtexts, environ, sinks, strings
from mlu_migrate.callargs import keyword_name
from mlu_migrate.configs import vocabulary
from mlu_migrate.configs.vocabulary import EnvironmentRow
from mlu_migrate.model import Confidence, Edit, Finding, Safety, Severity
from mlu_migrate.names import last_word
from mlu_migrate.rule import Rule
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import is_kept

_GPU_ID = re.compile(r"(?:GPU|MIG)-", re.IGNORECASE)
_NCCL = re.compile(r"NCCL_[A-Z0-9_]+")
# Frameworks that read the CUDA names themselves and have no MLU back end here.
_OTHERS = frozenset(
    ("tensorflow", "jax", "paddle", "mxnet", "cudf", "dask_cuda", "cupy", "onnxruntime", "tensorrt", "nvtabular")
)


@dataclass(slots=True)
class Place:
    """One place that names a variable. ``use``: set, read, command, or "" where the use is unknown."""

    name: str
    use: str
    node: ast.AST
    span: tuple[int, int]
    edits: tuple[Edit, ...] = ()
    value: str | None = None
    safe: bool = True


class EnvironmentVariable(Rule):
    """
    Environment variables that torch_mlu reads under another name.

    ## What it changes
    The name, wherever Python sets, reads, deletes or passes it: `os.environ`, `os.getenv`, `putenv`, dictionaries and
    keywords that become the environment of a process, command lines in strings, `monkeypatch.setenv`. A name that
    torch_mlu does not read is told once a file, with what to do instead. Launch scripts, Dockerfiles and configuration
    files are judged by the same table; what is written there is chosen with `--configs`.

    ## Before
        import os
        import subprocess

        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        subprocess.run(["python", "run.py"], env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64"))

    ## After
        import os
        import subprocess

        os.environ["MLU_VISIBLE_DEVICES"] = "0"
        subprocess.run(["python", "run.py"], env=dict(os.environ, PYTORCH_MLU_ALLOC_CONF="max_split_size_mb:64"))

    ## Left alone
    Longer names that only contain a known one, messages, keywords of other libraries, files that use another framework
    and not torch, and variables whose value would have to change too (`CUDA_HOME`, `TORCH_CUDA_ARCH_LIST`).

    ## Source
    torch_mlu r2.4_develop, torch_mlu/mlu/__init__.py:332-376 and torch_mlu/utils/gpu_migration/env_migration.py; one
    source a row in mlu_migrate/tables/environment.toml.
    """

    code = "MLU601"
    name = "environment-variable"
    severity = Severity.WARNING
    safety = Safety.SAFE
    topics = ("environment",)

    def visit_file(self, unit: Unit) -> Iterable[Finding]:
        """All places of a file are weighed together: a twin or an MLU name anywhere in it changes the answer."""
        if not re.search(rb"CUDA|NCCL|CUDNN|CUBLAS|NVIDIA|CUPTI|NVCC|NVSHMEM|CUSOLVER", unit.data):
            return
        groups: dict[str, list[Place]] = {}
        for place in sorted(_places(unit), key=lambda p: p.span):
            if not is_kept(unit, place.node):
                groups.setdefault(place.name, []).append(place)
        taken: dict[str, str] = {}
        other = _other_framework(unit)
        for name, places in groups.items():
            if other:
                yield self.found(unit, places[0].span, "framework", severity=Severity.INFO, name=name, framework=other)
                continue
            yield from self._name(unit, name, places, taken)

    def _name(self, unit: Unit, name: str, places: list[Place], taken: dict[str, str]) -> Iterator[Finding]:
        row = vocabulary.environment().get(name)
        known = [p for p in places if p.use]
        first = next((p for p in known if p.use != "read"), known[0] if known else None)
        if row is None:
            if first is not None and first.use == "set":
                yield self._told(unit, first, "unlisted", Severity.INFO, Confidence.LOW)
            return
        if row.mlu is None:
            if first is not None:
                message = "missing" if row.advice else "missing-plain"
                severity = Severity.INFO if first.use == "read" else Severity(row.severity)  # reading it does no harm
                yield self._told(unit, first, message, severity, advice=row.advice, advice_zh=row.advice_zh)
            return
        why = self._not_renamed(unit, row, taken)
        if why is not None:
            if first is not None:
                message, severity = why
                yield self._told(unit, first, message, severity, mlu=row.mlu)
            return
        taken[row.mlu] = name
        for place in places:
            yield self._renamed(unit, row, place)

    def _not_renamed(self, unit: Unit, row: EnvironmentRow, taken: dict[str, str]) -> tuple[str, Severity] | None:
        assert row.mlu is not None
        if unit.settings.torch_mlu not in row.releases:
            return "release", Severity.WARNING
        if row.value in ("path", "architectures"):
            return row.value, Severity.WARNING
        if re.search(rb"(?<![A-Za-z0-9_])" + row.mlu.encode() + rb"(?![A-Za-z0-9_])", unit.data):
            return "sibling", Severity.INFO
        if row.mlu in taken:
            return "twin", Severity.WARNING
        return None

    def _renamed(self, unit: Unit, row: EnvironmentRow, place: Place) -> Finding:
        assert row.mlu is not None
        if row.value == "devices" and place.value and _GPU_ID.search(place.value):
            return self.found(unit, place.span, "device-id", severity=Severity.WARNING, name=row.name, mlu=row.mlu)
        if row.value == "allocator" and place.value:
            given = [part.partition(":")[0].strip() for part in re.split(r",(?![^\[]*\])", place.value) if part.strip()]
            unknown = [k for k in given if k not in vocabulary.ALLOCATOR_KEYS]
            if unknown:
                keys = ", ".join(unknown)
                return self.found(
                    unit, place.span, "allocator", severity=Severity.ERROR, keys=keys, name=row.name, mlu=row.mlu
                )
        sure = bool(place.use) and place.safe
        return self.found(
            unit,
            place.span,
            "renamed",
            place.edits,
            safety=Safety.SAFE if sure else Safety.UNSAFE,
            severity=Severity.INFO if sure else Severity.WARNING,
            confidence=Confidence.HIGH if sure else Confidence.LOW,
            name=row.name,
            mlu=row.mlu,
        )

    def _told(
        self,
        unit: Unit,
        place: Place,
        message: str,
        severity: Severity,
        confidence: Confidence = Confidence.HIGH,
        *,
        advice: str = "",
        advice_zh: str = "",
        mlu: str = "",
    ) -> Finding:
        return self.found(
            unit,
            place.span,
            message,
            severity=severity,
            confidence=confidence,
            name=place.name,
            advice=advice,
            advice_zh=advice_zh,
            mlu=mlu,
            release=unit.settings.torch_mlu,
        )


def _other_framework(unit: Unit) -> str:
    """The other framework of a file that does not use torch: the names are that framework's. "" where there is none."""
    if unit.uses_torch:
        return ""
    roots = {a.name.partition(".")[0] for n in unit.index.nodes[ast.Import] for a in n.names}
    roots |= {n.module.partition(".")[0] for n in unit.index.nodes[ast.ImportFrom] if n.module and not n.level}
    return min(roots & _OTHERS, default="")


def _places(unit: Unit) -> Iterator[Place]:
    whole = vocabulary.environment()
    for node in unit.index.nodes[ast.Constant]:
        text = node.value
        if not isinstance(text, str) or isinstance(unit.parent(node), (ast.JoinedStr, ast.Expr)):
            continue
        if text in whole or _NCCL.fullmatch(text):
            yield from _exact(unit, node, text)
        elif "=" in text:
            yield from _command(unit, node)
    for node in unit.index.nodes[ast.JoinedStr]:
        if any(isinstance(v, ast.Constant) and "=" in str(v.value) for v in node.values):
            yield from _command(unit, node)
    for word in unit.index.nodes[ast.keyword]:
        if word.arg in whole:
            call = unit.parent(word)
            if isinstance(call, ast.Call) and environ.is_environment_call(unit, call):
                start = unit.start(word)
                row = whole[word.arg]
                edits = (keyword_name(unit, word, row.mlu),) if row.mlu else ()
                yield Place(word.arg, "set", word, (start, start + len(word.arg)), edits, environ.value_of(unit, word))


def _exact(unit: Unit, node: ast.Constant, text: str) -> Iterator[Place]:
    row = vocabulary.environment().get(text)
    use = environ.use_of(unit, node)
    if not use and (row is None or row.mlu is None or _is_prose(unit, node)):
        return
    edits = unit.replace_in_string(node, text, row.mlu) if row is not None and row.mlu else ()
    yield Place(text, use, node, unit.span(node), edits or (), environ.value_of(unit, node), edits is not None)


def _is_prose(unit: Unit, node: ast.AST) -> bool:
    """A bare mention in a message."""
    parent = unit.parent(node)
    if isinstance(parent, ast.Call):
        leaf = last_word(parent.func)
        return leaf in sinks.PROSE
    return isinstance(parent, (ast.Raise, ast.Assert, ast.FormattedValue))


def _command(unit: Unit, node: ast.Constant | ast.JoinedStr) -> Iterator[Place]:
    """`f"CUDA_VISIBLE_DEVICES={g} python run.py"` handed to a shell."""
    pattern = _assignment()
    if not pattern.search(unit.text(node)):
        return
    sure = commandtexts.is_command(unit, node)
    for piece in strings.pieces(unit.data, *unit.span(node)) or ():
        for match in pattern.finditer(piece.raw):
            if not sure and piece.raw[: match.start("name")].strip() not in ("", "export", "env"):
                continue
            row = vocabulary.environment()[match["name"]]
            if not sure and row.mlu is None:
                continue
            start = piece.start + len(piece.raw[: match.start("name")].encode("utf-8"))
            end = start + len(row.name)
            edits = (Edit(start, end, row.mlu.encode()),) if row.mlu else ()
            yield Place(row.name, "command" if sure else "", node, (start, end), edits, match["value"], sure)


@functools.cache
def _assignment() -> re.Pattern[str]:
    names = "|".join(sorted(vocabulary.environment(), key=len, reverse=True))
    return re.compile(rf"(?:^|(?<=[\s;&|(\"'])|(?<=-x)|(?<=-e))(?P<name>{names})=(?P<value>[\w,:.-]*)")
