"""
What runs of the migrated program add to the HTML page: the operator support table (``mlu-migrate run --support-json``)
and the outcome of comparisons (``mlu-migrate parity --report FILE.json``), both read from their files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mlu_migrate.messages import catalogue

_TONE = {"match": "info", "mismatch": "error", "not judged": "warning"}


class RunFileError(ValueError):
    """A file that holds no such thing. The text is one line for the user."""


def support(path: Path, lang: str) -> list[dict[str, str]]:
    """Rows of the operator support table, headings as keys. Raises RunFileError."""
    labels = {**catalogue("en", "html"), **catalogue(lang, "html")}
    try:
        rows = []
        for row in _read(path)["operators"]:
            remarks = [text for text in (row["reason"], row["limit"] or "") if text]
            if row["answer"] != "composite" or row["limit"]:
                cells = (row["operator"], ", ".join(row["dtypes"]), row["calls"], row["answer"], "; ".join(remarks))
                rows.append(dict(zip(str(labels["support_columns"]).split("|"), map(str, cells), strict=True)))
        return rows
    except (KeyError, TypeError):
        raise RunFileError(f"{path}: not a table of mlu-migrate run --support-json") from None


def parity(path: Path, lang: str) -> str:
    """The comparisons of a JSON report of ``parity`` as HTML, the file's text escaped. Raises RunFileError."""
    labels = {**catalogue("en", "html"), **catalogue(lang, "html")}
    data = _read(path)
    try:
        return "".join(_verdict(entry, labels) for entry in data.get("entries", [data]))
    except (AttributeError, KeyError, TypeError):
        raise RunFileError(f"{path}: not a JSON report of mlu-migrate parity") from None


def _verdict(entry: Mapping[str, Any], labels: Mapping[str, Any]) -> str:
    tone = _TONE.get(entry["status"], "warning")
    title = f"{entry['title']}: " if entry["title"] else ""
    figures = str(labels["parity_figures"]).format(**entry["summary"])
    facts: Sequence[str] = [*entry["reasons"], figures, entry["first_step"], entry["loss_curve"]]
    status = str(entry["status"])
    headline = title + str(labels[f"parity_{status.replace(' ', '_')}"])
    out = [f'<div class="parity {tone}"><p class="{tone}"><strong class="tag">{escape(headline)}</strong></p><ul>']
    out += [f"<li>{escape(str(fact))}</li>" for fact in facts if fact]
    out.append("</ul>")
    first = entry["first_divergence"]
    if first:
        where = f"{first['file']}:{first['line']}" if first["file"] else str(first["module"])
        out.append(f"<h3>{escape(str(labels['parity_first']))}</h3>")
        out.append(f"<p><code>{escape(where)}</code> {escape(str(first['what']))}</p>")
    out.append("</div>")
    return "".join(out)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RunFileError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise RunFileError(f"{path}: not JSON") from None
    if not isinstance(data, dict):
        raise RunFileError(f"{path}: not JSON of mlu-migrate")
    return data
