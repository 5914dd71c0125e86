"""
The one catalogue of texts for people: ``<lang>/<CODE>.toml``, one table per ``message_id`` with ``message`` and
``hint``.

Both are ``str.format`` templates over ``Finding.args``. A file is read when its first message is asked for. What a
language lacks comes from English, so that a new rule is never silent in Chinese. ``<lang>/ui.toml`` holds the words
of summaries and reports.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from mlu_migrate import tomlfile
from mlu_migrate.model import Finding

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).parent


@cache
def catalogue(lang: str, name: str) -> dict[str, Any]:
    """One file of the catalogue as a mapping, empty when there is none. ``name`` is a code or ``ui``."""
    try:
        return tomlfile.read(_FOLDER / lang / f"{name}.toml")
    except FileNotFoundError:
        return {}


def render(finding: Finding, lang: str = "en") -> tuple[str, str]:
    """The message and the hint (may be empty) of a finding in one language, else in English, else the rule's name."""
    for language in (lang, "en"):
        entry = catalogue(language, finding.code).get(finding.message_id)
        if isinstance(entry, dict) and "message" in entry:
            return _fill(entry["message"], finding.args), _fill(entry.get("hint", ""), finding.args)
    return f"{finding.name}: {finding.message_id}", ""


def text(key: str, lang: str = "en", **fields: object) -> str:
    """
    A word or sentence of the user interface. Raises KeyError for a key that English lacks: that is a fault of ours.
    """
    template = catalogue(lang, "ui").get(key)
    if template is None:
        template = catalogue("en", "ui")[key]
    endings = {f"{name}_s": "" if value == 1 else "s" for name, value in fields.items() if isinstance(value, int)}
    return _fill(template, {**fields, **endings})


def codes(lang: str = "en") -> list[str]:
    """Codes that have a file in this language."""
    return sorted(path.stem for path in (_FOLDER / lang).glob("MLU*.toml"))


def _fill(template: str, fields: Any) -> str:
    """
    Fill in a template. One with a wrong field is shown as it is: a fault in a text must not cost the user the run.
    """
    try:
        return str(template).format(**fields)
    except (KeyError, IndexError, ValueError):
        return str(template)
