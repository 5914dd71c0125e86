"""CMake: the CUDA language and packages, which have to be ported, and environment variables that are read."""

from __future__ import annotations

import re

from mlu_migrate.configs import checks
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.model import Severity

_COMMENT = re.compile(r"#\[(=*)\[.*?\]\1\]|#[^\n]*", re.DOTALL)
_CUDA = re.compile(
    r"find_package\s*\(\s*(?:CUDA(?:Toolkit)?|CUDNN|NCCL)\b|enable_language\s*\(\s*CUDA\b"
    r"|include\s*\(\s*FindCUDA\w*"
    r"|project\s*\([^)]*\bCUDA\b|cuda_add_(?:library|executable)\s*\(|CUDA_ARCHITECTURES|CMAKE_CUDA_\w+"
    r"|CUDA_NVCC_\w+|CUDA_TOOLKIT_ROOT_DIR|CUDA_SEPARABLE_COMPILATION|cuda_std_\d+|[\w${}./*-]+\.cuh?\b"
    r"|CUDA::\w+",
    re.IGNORECASE,
)


def check(doc: Document) -> None:
    """Look at one CMake file; each kind of thing is told once."""
    comments = [match.span() for match in _COMMENT.finditer(doc.text)]

    def outside(position: int) -> bool:
        return not any(first <= position < last for first, last in comments)

    told: set[str] = set()
    for match in _CUDA.finditer(doc.text):
        word = re.sub(r"\s+", " ", match[0]).split("(")[0].strip().lower().rstrip(":")
        word = ".cu" if word.endswith((".cu", ".cuh")) else word
        if outside(match.start()) and word not in told:
            told.add(word)
            end = match.end() if "\n" not in match[0] else match.start() + match[0].index("\n")
            doc.add(
                "MLU606",
                "cmake",
                match.start(),
                end,
                severity=Severity.ERROR,
                args={"text": doc.text[match.start() : end]},
            )
    for match in words.environment_name().finditer(doc.text):
        if outside(match.start()) and doc.text[max(0, match.start() - 5) : match.start()].endswith("$ENV{"):
            checks.environment_read(doc, *match.span())
        elif outside(match.start()) and doc.text[max(0, match.start() - 4) : match.start()].endswith("ENV{"):
            checks.environment_set(doc, *match.span(), None)
    path = words.TOOLKIT_PATH.search(doc.text)
    if path and outside(path.start()):
        checks.toolkit_path(doc, *path.span())
