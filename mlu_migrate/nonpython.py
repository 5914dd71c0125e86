"""
Files other than Python: which ones are looked at, and by which rules.

The kind of a file is decided by its name, and for a file without a suffix by its first line. What is written is
decided in :mod:`mlu_migrate.configs.apply`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from mlu_migrate import frameworks, notebooks
from mlu_migrate.configs import (
    apply,
    cmake,
    dockerfile,
    dotenv,
    ini,
    inside,
    jsonfile,
    makefile,
    markdown,
    quoted,
    requirements,
    shell,
    tomlconfig,
    vocabulary,
    windows,
    yamlfile,
)
from mlu_migrate.configs.document import Document
from mlu_migrate.model import FileResult, FileStatus
from mlu_migrate.settings import Settings

_SUFFIXES = {
    ".ipynb": "notebook",
    ".sh": "shell",
    ".bash": "shell",
    ".zsh": "shell",
    ".ksh": "shell",
    ".csh": "shell",
    ".slurm": "shell",
    ".sbatch": "shell",
    ".sub": "shell",
    ".pbs": "shell",
    ".lsf": "shell",
    ".fish": "shell",
    ".tcsh": "shell",
    ".bat": "batch",
    ".cmd": "batch",
    ".ps1": "powershell",
    ".just": "just",
    ".groovy": "quoted",
    ".tf": "quoted",
    ".tfvars": "quoted",
    ".hcl": "quoted",
    ".mk": "makefile",
    ".dockerfile": "dockerfile",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".jsonc": "json",
    ".json5": "json",
    ".ini": "ini",
    ".cfg": "ini",
    ".conf": "ini",
    ".service": "ini",
    ".properties": "ini",
    ".env": "dotenv",
    ".cmake": "cmake",
    ".md": "markdown",
    ".markdown": "markdown",
    ".qmd": "markdown",
    ".rmd": "markdown",
    ".mdx": "markdown",
}
_NAMES = (
    (re.compile(r"(?i)(?:gnu)?makefile(?:\..+)?"), "makefile"),
    (re.compile(r"(?i)(?:docker|container)file(?:[._-].*)?"), "dockerfile"),
    (re.compile(r"(?i)cmakelists\.txt"), "cmake"),
    (re.compile(r"\.env(?:\..+)?|\.envrc|\.deepspeed_env"), "dotenv"),
    (re.compile(r"(?i)jenkinsfile(?:[._-].*)?"), "quoted"),
    (re.compile(r"(?i)\.?justfile"), "just"),
    (re.compile(r"\.(?:bash|zsh|ksh)rc|\.(?:bash_|z)?profile|\.bash_aliases"), "shell"),
    (re.compile(r"(?i)(?:.*[-_.])?(?:requirements?|constraints?|deps)(?:[-_.].*)?\.(?:txt|in)"), "requirements"),
    (re.compile(r"Pipfile"), "toml"),
    (re.compile(r"\.condarc|\.clang-format"), ""),
)
# Written by tools, or data under a configuration's suffix.
_LOCKS = re.compile(
    r"(?i)package(?:-lock)?\.json|.*\.lock|.*[-.]lock\.(?:json|ya?ml|toml)|tokenizer(?:_config)?\.json|vocab\.json"
    r"|mlu-migrate-(?:report|baseline)\..*|.*\.(?:index|bin\.index|safetensors\.index)\.json|special_tokens_map\.json|merges\.txt"
)
_FOLDER_REQUIREMENTS = re.compile(r"(?i)(?:^|/)requirements/[^/]+\.(?:txt|in)$")
_SHEBANG = re.compile(rb"#![^\n]*\b(?:ba|z|da|k|c|tc|fi)?sh\b")
# Endings of files from which another is made; the name without it says what they are.
_MADE_FROM = frozenset(".j2 .jinja .jinja2 .tmpl .tpl .template .tera .example .sample .dist .default .in".split())
_CONTAINER = re.compile(rb"(?i)\s*(?:#[^\n]*\s+)*bootstrap[ \t]*:")
_PEEKED = frozenset({"", ".def"})  # suffixes that say nothing without the first bytes

_CHECKERS: Mapping[str, Callable[[Document], None]] = {
    "shell": shell.check,
    "container": shell.container,
    "batch": windows.batch,
    "powershell": windows.powershell,
    "quoted": quoted.check,
    "just": quoted.just,
    "makefile": makefile.check,
    "dockerfile": dockerfile.check,
    "yaml": yamlfile.check,
    "toml": tomlconfig.check,
    "json": jsonfile.check,
    "ini": ini.check,
    "dotenv": dotenv.check,
    "requirements": requirements.check,
    "cmake": cmake.check,
    "markdown": markdown.check,
}
_COMMENTS: Mapping[str, str] = {
    "json": "//",
    "quoted": "//|#",
    "ini": "[#;]",
    "batch": r"\b(?i:rem)\b|::",
    "markdown": "#|<!--",
}
_VALIDATORS: Mapping[str, Callable[[str], bool]] = {
    "yaml": yamlfile.valid,
    "toml": tomlconfig.valid,
    "json": jsonfile.valid,
}


def handles(path: Path) -> bool:
    """Whether a file is one of ours. A file without a suffix is opened for its first line, if it can be."""
    return kind_of(path.as_posix(), _first_bytes(path) if path.suffix in _PEEKED else b"") is not None


def kind_of(path: str, source: bytes) -> str | None:
    """The kind of a file from its name and first line, None when it is not looked at."""
    name = PurePosixPath(path).name
    if _LOCKS.fullmatch(name):
        return None
    for pattern, kind in _NAMES:
        if pattern.fullmatch(name):
            return kind or None
    if _FOLDER_REQUIREMENTS.search(path):
        return "requirements"
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in _MADE_FROM:
        inner = kind_of(path[: -len(suffix)], source)
        return None if inner == "notebook" else inner
    if suffix == ".def":
        return "container" if _CONTAINER.match(source) else None
    return "shell" if not suffix and _SHEBANG.match(source) else None


def migrate(source: bytes, path: str, settings: Settings, facts: object = None) -> FileResult:
    """
    Migrate one file. A notebook's Python is always migrated; scripts and configurations as ``settings.configs`` says.
    """
    kind = kind_of(path, source[:200])
    if kind == "notebook":
        return notebooks.migrate(source, path, settings, facts, checker_of=checker_of)
    unchanged = FileResult(path, FileStatus.UNCHANGED, source=source)
    if kind is None or settings.configs == "off":
        return unchanged
    if b"\0" in source:
        if vocabulary.trigger().search(source.replace(b"\0", b"")) is None:
            return unchanged
        wide = source.startswith((b"\xff\xfe", b"\xfe\xff")) or source.count(b"\0") * 3 > len(source)
        reason = "UTF-16 text, which is not read: look at it by hand, or make it UTF-8" if wide else "holds a null byte"
        return FileResult(path, FileStatus.SKIPPED, reason, source)
    if not settings.audit and not vocabulary.trigger().search(source):
        return unchanged
    doc = Document(source, path, settings, prose=kind == "markdown")
    doc.engine = _engine(path, settings, facts)
    doc.embed = _embedder(doc)
    others = getattr(facts, "frameworks", None)
    if others:
        doc.program = frameworks.finder(facts.modules, others)  # type: ignore[attr-defined]
    doc.groups = getattr(facts, "config_groups", doc.groups)
    doc.comment = _COMMENTS.get(kind, "#")
    doc.free_lines = kind in ("shell", "markdown")
    try:
        _CHECKERS[kind](doc)
        return apply.finish(doc, _VALIDATORS.get(kind))
    except RecursionError:
        return FileResult(path, FileStatus.FAILED, "nests too deeply to be read", source)


def checker_of(name: str, source: bytes) -> Callable[[Document], None] | None:
    """What looks at a file of that name with these first bytes; None for Python, notebooks and what is not known."""
    return _CHECKERS.get(kind_of(name, source[:200]) or "")


def _embedder(doc: Document) -> Callable[[str, int, int], bool]:
    def embed(name: str, start: int, end: int) -> bool:
        checker = checker_of(name, doc.text[start : min(end, start + 200)].encode("utf-8", "surrogatepass"))
        if checker is not None:
            inside.embed(doc, start, end, checker, name)
        return checker is not None

    return embed


def _engine(path: str, settings: Settings, facts: object) -> Callable[[bytes], FileResult]:
    def migrate_python(source: bytes) -> FileResult:
        from mlu_migrate import engine

        known = replace(settings, kept=()) if settings.kept else settings  # places of the baseline are the file's
        return engine.migrate(source, path, known, facts)  # type: ignore[arg-type]

    return migrate_python


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(200)
    except OSError:
        return b""
