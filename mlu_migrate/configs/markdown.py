"""
Markdown and reStructuredText: fenced code blocks, each by the rules of its language. Prose is not looked at.

Edits in documentation are told and made with ``--configs write`` only: a README also explains the CUDA way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mlu_migrate.configs import commandline, dockerfile, ini, inside, jsonfile, pythoncode, shell, tomlconfig, yamlfile
from mlu_migrate.configs.document import Document

_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<fence>`{3,40}|~{3,40})[ \t]*(?:\{(?:code-block|code-cell|sourcecode|code)\}[ \t]*)?\{?\.?"
    r"(?P<language>[\w+#.-]*)[^\n]*\n",
    re.MULTILINE,
)
_PROMPT = re.compile(r"^[ \t>]*(?:\([\w.-]+\)[ \t]*)?[$%][ \t]+(?P<command>(?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_LAUNCHES = re.compile(
    r"\s*(?:[A-Z_]+=\S+[ \t]+)*(?:python[\d.]*|torchrun|accelerate|deepspeed|pip3?|conda|docker|bash|sh|export|sudo"
    r"|nvidia-smi|srun|sbatch|mpirun|git|cd|CUDA_VISIBLE_DEVICES=)\b"
)
_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "shellscript", "terminal", "cmd"})
_PYTHON = frozenset({"python", "py", "python3", "ipython"})
_FORMATS: Mapping[str, Callable[[Document], None]] = {
    "yaml": yamlfile.check,
    "yml": yamlfile.check,
    "json": jsonfile.check,
    "jsonc": jsonfile.check,
    "toml": tomlconfig.check,
    "ini": ini.check,
    "cfg": ini.check,
    "dockerfile": dockerfile.check,
    "docker": dockerfile.check,
    "slurm": shell.check,
}


def check(doc: Document) -> None:
    """Look at the code blocks of one file."""
    for start, end, language in blocks(doc.text):
        if language in _SHELLS or (not language and _LAUNCHES.match(doc.text, start, end)):
            _shell(doc, start, end)
        elif language in _FORMATS:
            inside.embed(doc, start, end, _FORMATS[language])
        elif language in _PYTHON and "cuda" in doc.text[start:end].lower():
            _python(doc, start, end)


def blocks(text: str) -> list[tuple[int, int, str]]:
    """Span and language (lower case, may be empty) of each fenced block; one that never ends is left out."""
    found, position = [], 0
    while match := _FENCE.search(text, position):
        close = re.compile(rf"^[ \t>]*{re.escape(match['fence'])}[`~]*[ \t\r]*$", re.MULTILINE).search(
            text, match.end()
        )
        if close is None:
            break
        found.append((match.end(), close.start(), match["language"].lower()))
        position = close.end()
    return found


def _shell(doc: Document, start: int, end: int) -> None:
    prompts = list(_PROMPT.finditer(doc.text, start, end))
    for match in prompts:
        commandline.check(doc, match.start("command"), min(match.end("command"), end))
    if not prompts:
        commandline.check(doc, start, end)


def _python(doc: Document, start: int, end: int) -> None:
    if doc.engine is not None and doc.encoding == "utf-8":
        result = doc.engine(doc.text[start:end].encode("utf-8"))
        pythoncode.take(doc, start, pythoncode.worth_telling(result))
