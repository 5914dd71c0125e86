"""MLU605: what a requirement asks for, wherever it is written (pip, conda, apt, pyproject, setup.cfg)."""

from __future__ import annotations

import re

from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.model import Confidence, Safety, Severity

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_BOUND = re.compile(r"(?P<sign>[<>~!=]=|===|[<>=^@])\s*v?(?P<version>\d+\.\d+)")
_CHANNEL = re.compile(r"^[\w./-]+::")
_REPOSITORY = re.compile(r"/([\w.+%-]+?)(?:\.git)?(?:[@#?].*)?$")
_REPOSITORY_NAMES = {"flash-attention": "flash-attn", "transformerengine": "transformer-engine", "mamba": "mamba-ssm"}
_SEVERITY = {"nvidia": Severity.WARNING, "kernel": Severity.ERROR, "engine": Severity.WARNING}


def requirement(
    doc: Document, start: int, end: int, *, comment_at: int | None = None, system: bool = False
) -> str | None:
    """
    Judge one requirement, ``doc.text[start:end]``. ``comment_at`` is where ``# `` would take its line out, for files
    where that leaves a valid file; ``system`` is for apt and yum, whose ``torch`` is another thing.

    Returns the kind of package when something was said, else None.
    """
    text = doc.text[start:end]
    skip = _CHANNEL.match(text)
    offset = skip.end() if skip else 0
    if re.match(r"(?:git\+)?(?:https?|ssh|file)://", text) or text.startswith("git+"):
        return _address(doc, start, end, text)
    match = _NAME.match(text, offset)
    if match is None:
        return None
    at = re.match(r"(?:\[[^\]]*\])?\s*@\s*", text[match.end() :])
    row = words.package(match[0])
    tag = words.WHEEL_TAG.search(text)
    extras = re.match(r"\[([^\]]*)\]", text[match.end() :])
    extra = next((e.strip() for e in extras[1].split(",") if words.EXTRA.fullmatch(e.strip())), "") if extras else ""
    if extra and (row is None or row.kind == "torch"):
        doc.add("MLU605", "extra", start, end, args={"package": match[0], "extra": extra})
        return "extra"
    if row is None or (system and row.kind not in ("nvidia", "monitor")):
        if tag and (at or "+" in text):
            _wheel_tag(doc, start + tag.start(), start + tag.end(), match[0], cpu=False)
            return "wheel"
        return None
    name_end = start + match.end()
    if row.kind == "torch":
        if tag:
            _wheel_tag(
                doc,
                start + tag.start(),
                start + tag.end(),
                match[0],
                cpu=_right_torch(doc, text) and "+" + tag[0] in text,
            )
        else:
            _torch(doc, start, name_end, end, match[0], row)
        return row.kind
    removable = row.kind == "nvidia" and comment_at is not None
    doc.add(
        "MLU605",
        row.kind,
        start,
        name_end,
        severity=_SEVERITY.get(row.kind, Severity.WARNING),
        safety=Safety.UNSAFE if removable else Safety.MANUAL,
        confidence=Confidence.HIGH,
        args={"package": match[0], "instead": row.instead, "instead_zh": row.instead_zh},
        replace=((comment_at, comment_at, "# "),) if removable and comment_at is not None else (),
    )
    return row.kind


def index(doc: Document, start: int, end: int) -> bool:
    """A package index or wheel list whose address names a CUDA build. True when something was said."""
    text = doc.text[start:end]
    tag = words.WHEEL_TAG.search(text)
    if tag is None:
        host = re.match(r"https?://[\w.-]*\bnvidia\.com", text)
        if host is not None:
            doc.add("MLU605", "nvidia-index", start, end, args={"address": host[0]})
        return host is not None
    safe_place = "/whl/" in text and tag.start() > 0 and text[tag.start() - 1] == "/"
    replaced = safe_place and doc.settings.torch_mlu == "2.4"
    doc.add(
        "MLU605",
        "index",
        start,
        end,
        safety=Safety.UNSAFE if replaced else Safety.MANUAL,
        args={"tag": tag[0], "release": doc.settings.torch_mlu},
        replace=((start + tag.start(), start + tag.end(), "cpu"),) if replaced else (),
    )
    return True


def _torch(doc: Document, start: int, name_end: int, end: int, name: str, row: words.PackageRow) -> None:
    release = doc.settings.torch_mlu
    args = {"package": name, "release": release, "instead": row.instead, "instead_zh": row.instead_zh}
    if name.lower() not in ("torch", "pytorch"):
        doc.add("MLU605", "torch-family", start, name_end, severity=Severity.INFO, args=args)
        return
    asked = doc.text[name_end:end]
    bounds = [(m["sign"], m["version"]) for m in _BOUND.finditer(asked)]
    if not _allows(bounds, release):
        doc.add("MLU605", "torch-pinned", start, end, args={**args, "asked": asked.strip()})
    elif not any(sign in ("=", "==", "===", "@") for sign, _ in bounds):
        doc.add("MLU605", "torch-open", start, name_end, severity=Severity.INFO, args=args)


def _allows(bounds: list[tuple[str, str]], release: str) -> bool:
    """Whether some version of the release series ``2.4`` can satisfy the bounds; signs that are not known do."""
    wanted = tuple(int(part) for part in release.split("."))
    for sign, text in bounds:
        version = tuple(int(part) for part in text.split("."))
        if sign in ("=", "==", "===", "@") and version != wanted:
            return False
        if sign in (">=", ">") and version > wanted or sign in ("<", "<=") and version < wanted:
            return False
        if sign == "<" and version == wanted or sign in ("~=", "^") and version[0] != wanted[0]:
            return False
    return True


def _right_torch(doc: Document, text: str) -> bool:
    """Whether the version that is asked for is the one the release needs, or none is."""
    return _allows([(m["sign"], m["version"]) for m in _BOUND.finditer(text)], doc.settings.torch_mlu)


def _wheel_tag(doc: Document, start: int, end: int, package: str, *, cpu: bool) -> None:
    release = doc.settings.torch_mlu
    replaced = cpu and release == "2.4"
    doc.add(
        "MLU605",
        "wheel",
        start,
        end,
        safety=Safety.UNSAFE if replaced else Safety.MANUAL,
        args={"package": package, "tag": doc.text[start:end], "release": release},
        replace=((start, end, "cpu"),) if replaced else (),
    )


def _address(doc: Document, start: int, end: int, text: str) -> str | None:
    if index(doc, start, end):
        return "index"
    match = _REPOSITORY.search(text)
    if match is None:
        return None
    name = match[1].lower()
    if name.endswith((".whl", ".tar.gz")):
        name = name.split("-")[0].replace("_", "-")
    row = words.package(_REPOSITORY_NAMES.get(name, name))
    if row is None or row.kind in ("torch", "nvidia"):
        return None
    severity = _SEVERITY.get(row.kind, Severity.WARNING)
    doc.add(
        "MLU605",
        row.kind,
        start,
        end,
        severity=severity,
        args={"package": match[1], "instead": row.instead, "instead_zh": row.instead_zh},
    )
    return row.kind
