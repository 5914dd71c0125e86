"""The verdict for machines: JSON (version 1), which ``--evidence`` reads too, and JUnit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from mlu_backend.parity import report
from mlu_backend.parity.findings import Difference, Status, Verdict

VERSION = 1


def as_dict(v: Verdict) -> dict[str, Any]:
    """JSON values only; numbers that JSON has no spelling for become text."""
    return {
        "version": VERSION,
        "tool": "mlu-migrate parity",
        "title": v.title,
        "status": v.status.value,
        "reasons": v.reasons,
        "notes": v.notes,
        "reference": v.reference or "emulated-cuda",
        "profile": v.profile,
        "summary": {
            "compared": v.compared,
            "equal": v.equal,
            "within": v.within,
            "unreadable": v.unreadable,
            "differences": v.total_differences,
            "categories": report.categories(v),
            "calls": v.calls,
            "steps": v.steps,
            "ranks": v.ranks,
        },
        "first_divergence": _difference(v.first) if v.first else None,
        "differences": [_difference(d) for d in v.differences],
        "first_step": v.first_step,
        "loss_curve": v.loss_curve,
        "control": _plain(v.control),
        "losses": [_plain(row) for row in v.losses],
        "layers": {path: {str(step): _number(e) for step, e in steps.items()} for path, steps in v.layers.items()},
        "worst": [_plain(row) for row in v.worst],
        "coverage": {k: x for k, x in v.coverage.items() if k != "proven"} if v.coverage else None,
        "device_strings": (v.coverage or {}).get("proven", []),
        "runs": v.runs,
    }


def to_json(verdicts: Sequence[Verdict]) -> str:
    """One verdict as itself, several as ``{"version": 1, "entries": [...]}`` with the device strings of all."""
    if len(verdicts) == 1:
        return json.dumps(as_dict(verdicts[0]), indent=1) + "\n"
    entries = [as_dict(v) for v in verdicts]
    strings = [row for entry in entries for row in entry["device_strings"]]
    return json.dumps({"version": VERSION, "entries": entries, "device_strings": strings}, indent=1) + "\n"


def _difference(d: Difference) -> dict[str, Any]:
    return {
        "category": d.category.value,
        "what": d.what,
        "module": d.path,
        "type": d.type,
        "step": d.step,
        "rank": d.rank,
        "call": d.nth,
        "reference": d.reference,
        "candidate": d.candidate,
        "file": d.site[0] if d.site else None,
        "line": d.site[1] if d.site else None,
        "function": d.site[2] if d.site else None,
        "source": list(d.source) if d.source else None,
        "inputs": _plain(d.inputs),
        "outputs": _plain(d.outputs),
        "limit": _plain(d.limit),
        "operator": _plain(d.operator),
        "edits": d.edits,
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def junit(verdicts: Sequence[Verdict]) -> str:
    """One suite, one case for each verdict. Not judged is an error, a mismatch a failure."""
    counts = (
        f'tests="{len(verdicts)}" failures="{sum(v.status is Status.MISMATCH for v in verdicts)}" '
        f'errors="{sum(v.status is Status.NOT_JUDGED for v in verdicts)}" '
        f'time="{sum(map(_seconds, verdicts)):.2f}"'
    )
    out = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites name="mlu-migrate parity" {counts}>']
    out.append(f'<testsuite name="mlu-migrate parity" {counts} skipped="0">')
    for number, v in enumerate(verdicts, 1):
        name = v.title or f"parity {number}"
        out.append(f'<testcase classname="parity" name={quoteattr(_xml(name))} time="{_seconds(v):.2f}">')
        text = escape(_xml(report.terminal(v)))
        if v.status is Status.MISMATCH:
            message = f"first divergence: {v.first.what}" if v.first else report.headline(v)
            out.append(f'<failure type="mismatch" message={quoteattr(_xml(message))}>{text}</failure>')
        elif v.status is Status.NOT_JUDGED:
            message = "not judged: " + "; ".join(v.reasons)
            out.append(f'<error type="not judged" message={quoteattr(_xml(message))}>{text}</error>')
        else:
            out.append(f"<system-out>{text}</system-out>")
        out.append("</testcase>")
    out += ["</testsuite>", "</testsuites>"]
    return "\n".join(out) + "\n"


def _seconds(v: Verdict) -> float:
    return sum(float(r.get("seconds") or 0) for r in v.runs)


def _xml(text: str) -> str:
    """Without characters XML 1.0 cannot hold."""
    return "".join(
        c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000" else "?"
        for c in text
    )
