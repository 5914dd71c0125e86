"""
What is said about one word once a format has found out what the word is: the only place where severity, safety and
edits of the MLU60x findings are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlu_migrate import apimap
from mlu_migrate.configs import groups, launched
from mlu_migrate.configs import vocabulary as words
from mlu_migrate.configs.document import Document
from mlu_migrate.model import Confidence, Safety, Severity

_LITERAL = re.compile(r"[\w.,:;\[\]>~-]*")
_ATTENTION = re.compile(r"(?i)att(?:entio)?n")
# Keys whose value is the dotted name of what to call or to build (hydra, jsonargparse, mmengine, spock).
_NAMES_OBJECT = frozenset("target class_path class classname class_name callable func function fn factory type".split())
_LONGEST_IMAGE = 500
_DEFAULT_IMAGE = re.compile(r"\$\{\w+:?-(?P<image>[^${}\s]+)\}")
_GPU_ID = re.compile(r"(?:GPU|MIG)-", re.IGNORECASE)


def _rewritten(
    doc: Document,
    code: str,
    message_id: str,
    start: int,
    end: int,
    *,
    sure: bool,
    args: Mapping[str, str],
    replace: tuple[tuple[int, int, str], ...],
) -> None:
    """A word with its edit: safe where it is ``sure`` what the word means, a guess elsewhere."""
    doc.add(
        code,
        message_id,
        start,
        end,
        severity=Severity.INFO if sure else Severity.WARNING,
        safety=Safety.SAFE if sure else Safety.UNSAFE,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        args=args,
        replace=replace,
    )


def _chooses_a_file(doc: Document, code: str, start: int, end: int, key: str | None) -> bool:
    """Told, and left: the word chooses a file of the configuration (groups.py)."""
    chosen = groups.chosen_in(doc, start, end, key) if doc.groups else ""
    if chosen:
        args = {"key": chosen.rpartition("/")[0], "value": doc.text[start:end]}
        doc.add(code, "config-group", start, end, severity=Severity.INFO, args=args)
    return bool(chosen)


def environment_set(doc: Document, start: int, end: int, value: str | None, *, safe: bool = True) -> None:
    """
    MLU601 for a name that is given a value. ``value`` is None when it is passed on or its text is not known.

    ``safe`` is False where the name may be a key or a text of the project's own rather than the environment.
    """
    name = doc.text[start:end]
    row = words.environment().get(name)
    if row is None:
        if name.startswith("NCCL_"):
            args = {"name": name}
            doc.add("MLU601", "unlisted", start, end, severity=Severity.INFO, confidence=Confidence.LOW, args=args)
        return
    doc.reads.pop(name, None)
    doc.told.add(name)
    if row.mlu is None:
        severity = Severity(row.severity)
        message = "missing" if row.advice else "missing-plain"
        doc.add(
            "MLU601",
            message,
            start,
            end,
            severity=severity,
            args={"name": name, "advice": row.advice, "advice_zh": row.advice_zh},
        )
        return
    args = {"name": name, "mlu": row.mlu, "release": doc.settings.torch_mlu}
    if doc.settings.torch_mlu not in row.releases:
        doc.add("MLU601", "release", start, end, args=args)
        return
    framework = launched.framework(doc, start)
    if framework:
        doc.add("MLU601", "framework", start, end, severity=Severity.INFO, args={**args, "framework": framework})
        return
    if _is_set_too(doc, row.mlu):
        doc.add("MLU601", "sibling", start, end, severity=Severity.INFO, args=args)
        return
    if doc.renamed.get(row.mlu, name) != name:
        doc.add("MLU601", "twin", start, end, args=args)
        return
    if row.value in ("path", "architectures"):
        doc.add("MLU601", row.value, start, end, args=args)
        return
    if row.value == "devices" and value is not None and _GPU_ID.search(value):
        doc.add("MLU601", "device-id", start, end, args=args)
        return
    if row.value == "allocator" and value is not None:
        unknown = _unknown_allocator_keys(value)
        if unknown:
            doc.add("MLU601", "allocator", start, end, severity=Severity.ERROR, args={**args, "keys": unknown})
            return
    doc.renamed[row.mlu] = name
    _rewritten(doc, "MLU601", "renamed", start, end, sure=safe, args=args, replace=((start, end, row.mlu),))


def environment_read(doc: Document, start: int, end: int) -> None:
    """MLU601 for a name that is read. One that has no counterpart is told once a file, unless it is also set there."""
    name = doc.text[start:end]
    row = words.environment().get(name)
    if row is None:
        return
    if row.mlu is not None and row.value not in ("path", "architectures"):
        environment_set(doc, start, end, None)
    elif name not in doc.told:
        doc.reads.setdefault(name, (start, end))


def finish_reads(doc: Document) -> None:
    """Tell the names without a counterpart that were read and never set."""
    for start, end in list(doc.reads.values()):
        environment_set(doc, start, end, None)
    doc.reads.clear()


def device(doc: Document, start: int, end: int, key: str | None) -> None:
    """MLU602 for a value that is exactly a CUDA device, under a key (option, variable) or none."""
    if doc.program is not None and launched.framework(doc, start):
        args = {"key": key or "", "value": doc.text[start:end]}
        doc.add("MLU602", "other-library", start, end, severity=Severity.INFO, args=args)
        return
    if _chooses_a_file(doc, "MLU602", start, end, key):
        return
    sure = doc.sure and key is not None and words.names_device(key)
    spans = tuple((start + m.start(), start + m.start() + 4, "mlu") for m in words.DEVICE.finditer(doc.text[start:end]))
    _rewritten(
        doc,
        "MLU602",
        "device" if sure else "unknown-key",
        start,
        end,
        sure=sure,
        args={"key": key or "", "value": doc.text[start:end]},
        replace=spans,
    )


def backend(doc: Document, start: int, end: int, key: str | None) -> None:
    """MLU603 for a value that names NCCL, under a key (option, variable) or none."""
    if _chooses_a_file(doc, "MLU603", start, end, key):
        return
    sure = bool(
        doc.sure
        and key is not None
        and (words.names_backend(key) or {"dist", "distributed"} & set(words.key_words(key)))
    )
    value = doc.text[start:end]
    spans = [(start + m.start(), start + m.end(), "cncl") for m in re.finditer("nccl", value, re.IGNORECASE)]
    spans += [(start + m.start(), start + m.start() + 4, "mlu") for m in re.finditer(r"cuda(?=:nccl)", value)]
    _rewritten(
        doc,
        "MLU603",
        "backend" if sure else "unknown-key",
        start,
        end,
        sure=sure,
        args={"key": key or "", "value": value},
        replace=tuple(spans),
    )


def trainer(doc: Document, start: int, end: int, key: str) -> None:
    """MLU602 for ``accelerator: gpu`` and the like: a word of another library, which decides what it means."""
    doc.add("MLU602", "trainer", start, end, args={"key": key, "value": doc.text[start:end]})


def value(doc: Document, start: int, end: int, key: str | None) -> bool:
    """The value of an option or key. True when something was said about it."""
    text = doc.text[start:end]
    if key is not None and words.key_words(key)[-1:] == ("accelerator",) and text in words.TRAINER_GPU:
        trainer(doc, start, end, key)
    elif key is not None and words.names_thing(key) and ":gloo" not in text and ":nccl" not in text:
        return False
    elif key is not None and _ATTENTION.search(key) and words.FLASH_ATTENTION.fullmatch(text):
        attention(doc, start, end)
    elif words.is_device(text):
        device(doc, start, end, key)
    elif words.is_backend(text):
        backend(doc, start, end, key)
    else:
        return False
    return True


def pattern(doc: Document, start: int, end: int, key: str | None) -> bool:
    """MLU602 for a pattern that stands for CUDA devices (``cuda*``) and is compared with ``key``."""
    match = words.DEVICE_PATTERN.fullmatch(doc.text, start, end)
    if match is not None:
        device(doc, *match.span("device"), key)
    return match is not None


def attention(doc: Document, start: int, end: int) -> None:
    """MLU605 for a configuration that asks for the attention kernels of a CUDA-only package."""
    row = words.package("flash-attn")
    if row is not None:
        args = {"value": doc.text[start:end], "instead": row.instead, "instead_zh": row.instead_zh}
        doc.add("MLU605", "attention", start, end, severity=Severity.ERROR, args=args)


def torch_name(doc: Document, start: int, end: int, key: str | None) -> bool:
    """MLU602 for a dotted name below ``torch.cuda`` as the value of a key. True when it is one."""
    name = doc.text[start:end]
    if not name.startswith("torch.cuda."):
        return False
    row = apimap.lookup(name)
    args = {"key": key or "", "value": name, "mlu": row.mlu if row else ""}
    known = row is not None and (row.status in ("same", "renamed") or row.policy == "edit")
    if row is None or not known or not row.exists_in(doc.settings.torch_mlu):
        doc.add("MLU602", "name-left", start, end, severity=Severity.ERROR if row else Severity.WARNING, args=args)
        return True
    sure = doc.sure and key is not None and key.lower().strip("_") in _NAMES_OBJECT
    _rewritten(doc, "MLU602", "name", start, end, sure=sure, args=args, replace=((start, end, row.mlu),))
    return True


def image(doc: Document, start: int, end: int, *, loose: bool = False) -> bool:
    """
    MLU604 for a container image that holds CUDA. True when it is one. ``loose`` is for places that hold an image and
    nothing else, where the word in its name is enough.
    """
    if end - start > _LONGEST_IMAGE:
        return False
    default = _DEFAULT_IMAGE.fullmatch(doc.text, start, end)
    if default is not None:
        start, end = default.span("image")
    text = doc.text[start:end]
    if loose and "cuda" in text.lower() and re.fullmatch(r"[\w./:@-]+", text):
        doc.add("MLU604", "image", start, end, severity=Severity.ERROR, args={"image": text})
        return True
    if not words.IMAGE.fullmatch(re.sub(r"\$(?:\{[^}]*\}|\w+)", "x", text)):  # a tag is often put together
        return False
    doc.add("MLU604", "image", start, end, severity=Severity.ERROR, args={"image": text})
    return True


def container_option(doc: Document, start: int, end: int) -> None:
    """MLU604 for an option that hands GPUs to a container."""
    doc.add("MLU604", "option", start, end, severity=Severity.ERROR, args={"option": doc.text[start:end]})


def resource(doc: Document, start: int, end: int, *, replacement: str | None = None) -> None:
    """MLU604 for a scheduler's request for GPUs; ``replacement`` where the MLU name is public."""
    doc.add(
        "MLU604",
        "kubernetes" if replacement else "scheduler",
        start,
        end,
        severity=Severity.ERROR,
        safety=Safety.UNSAFE if replacement else Safety.MANUAL,
        args={"resource": doc.text[start:end], "mlu": replacement or ""},
        replace=((start, end, replacement),) if replacement else (),
    )


def tool(doc: Document, start: int, end: int, name: str) -> None:
    """MLU606 for a command of NVIDIA's."""
    instead = words.TOOLS[name]
    message = "tool" if instead else "tool-without"
    doc.add("MLU606", message, start, end, args={"tool": name, "instead": instead or ""})


def toolkit_path(doc: Document, start: int, end: int) -> None:
    """MLU606, once a file, for a path into the CUDA toolkit."""
    if "toolkit path" not in doc.told:
        doc.told.add("toolkit path")
        doc.add("MLU606", "path", start, end, severity=Severity.INFO, args={"path": doc.text[start:end]})


def embedded_python(doc: Document, start: int, end: int) -> None:
    """MLU602 for Python code that stands inside a command line."""
    doc.add("MLU602", "embedded-python", start, end, args={"code": doc.text[start:end]})


def _is_set_too(doc: Document, mlu: str) -> bool:
    """Whether the file names the MLU variable already."""
    if mlu not in doc.named:
        doc.named[mlu] = re.search(rf"(?<![A-Za-z0-9_]){mlu}(?![A-Za-z0-9_])", doc.text) is not None
    return doc.named[mlu]


def _unknown_allocator_keys(value: str) -> str:
    """Allocator options that torch_mlu refuses, as a comma list; empty when all are known or the text is not plain."""
    if not _LITERAL.fullmatch(value):
        return ""
    flat = re.sub(r"\[[^\]]*\]", "", value)
    keys = [part.split(":")[0].strip() for part in flat.split(",") if ":" in part]
    return ", ".join(key for key in keys if key not in words.ALLOCATOR_KEYS)
