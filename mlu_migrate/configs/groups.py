"""
Files of a configuration that a word chooses: with hydra `device=cuda` means device/cuda.yaml where there is one.

Such a word stays as long as the file keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlu_migrate.configs.document import Document

FILE = re.compile(r"(?:cuda|nccl)\.ya?ml")  # names of files that such a word chooses
_KEY = re.compile(r"(?<![\w./@$-])(?:[+~]{1,2})?([A-Za-z_][\w/]*)(?:@[\w.]*)?=\\?['\"]?$")


def of(paths: Iterable[str]) -> frozenset[str]:
    """Those of some paths that a word may choose, without their ending: ``conf/device/cuda``."""
    return frozenset(
        path.rpartition(".")[0] for path in paths if "/" in path and FILE.fullmatch(PurePosixPath(path).name)
    )


def chosen(groups: frozenset[str], key: str, value: str) -> str:
    """
    The file that ``key=value`` on the command line of a program chooses (``device/cuda``), also as one of several
    (``device=cuda,cpu``); empty for none.
    """
    group = key.lstrip("+~").partition("@")[0].strip("/")
    names = [f"{group}/{one}" for one in value.split(",")]
    return next((name for name in names if any(f"/{path}".endswith(f"/{name}") for path in groups)), "")


def chosen_in(doc: Document, start: int, end: int, key: str | None) -> str:
    """
    The file that the value ``doc.text[start:end]`` chooses: behind ``key=``, or in a variable that is put there
    (``device=$device``). Empty for none.
    """
    before = _KEY.search(doc.text, doc.line_start(start), start)
    name = before[1] if before else key or ""
    if not re.fullmatch(r"[A-Za-z_][\w/@]*", name):
        return ""
    used = re.search(rf"([A-Za-z_][\w/@]*)=\\?['\"]?\$\{{?{re.escape(name)}\b", doc.text)
    if used is None and (before is None or re.search(rf"\$\{{?{re.escape(name)}\b", doc.text)):
        return ""
    return chosen(doc.groups, used[1] if used else name, doc.text[start:end])
