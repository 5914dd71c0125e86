"""The parity section of the HTML report: a fragment without scripts that fits the page it is put into."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from mlu_backend.parity import plots, report
from mlu_backend.parity.findings import Status, Verdict

_TONE = {Status.MATCH: "info", Status.MISMATCH: "error", Status.NOT_JUDGED: "warning"}


def fragment(v: Verdict) -> str:
    """HTML of one verdict; all text from programs is escaped."""
    out = [f'<div class="parity {_TONE[v.status]}">']
    out.append(f'<p class="{_TONE[v.status]}"><strong class="tag">{escape(report.headline(v))}</strong></p>')
    facts = [*v.reasons, *(report.facts(v) if v.compared else ())]
    if v.status is not Status.NOT_JUDGED or v.compared:
        facts.append(f"reference {v.reference or 'emulated-cuda'}, profile {v.profile}")
    out.append(_list(facts))
    if v.first is not None:
        text = "\n".join([v.first.what, "", *report.first_lines(v.first)])
        out.append(f"<h3>First divergence</h3>{_scrolling(f'<pre>{escape(text)}</pre>')}")
    left = report.left_for_people(v)
    if left:
        out.append("<h3>Left for you, and this run went through it</h3>" + _list(left))
    steps = list(report.next_steps(v))
    if steps:
        out.append("<h3>Next</h3>" + _list(steps))
    grid = plots.layer_plot(v.layers, (v.first.path, v.first.step) if v.first is not None else None)
    if grid:
        out.append(f"<h3>Error by layer and step</h3>{_scrolling(grid)}")
    curve = plots.loss_plot(v.losses, v.loss_limit.single if v.loss_limit is not None else None)
    if curve:
        out.append(f"<h3>Loss</h3>{_scrolling(curve)}")
    if v.losses:
        rows = [(r.step, f"{r.reference:.8g}", f"{r.candidate:.8g}", f"{r.error:.1e}") for r in v.losses[:200]]
        out.append(
            "<details><summary>Losses in numbers</summary>"
            + _table(("step", "reference", "candidate", "relative difference"), rows)
            + "</details>"
        )
    if v.worst:
        rows = [
            (w["what"], w["step"], f"{w['mean']:.1e}", f"{w['single']:.1e}", f"{w['inputs']:.1e}", f"{w['limit']:.0e}")
            for w in v.worst
        ]
        out.append(
            "<h3>Worst ten</h3>"
            + _table(
                ("what", "step", "mean error", "largest single error", "mean error of inputs", "limit of the mean"),
                rows,
            )
        )
    if v.coverage is not None:
        out.append(f"<h3>Edit coverage</h3><p>{escape(report.coverage_line(v))}</p>")
        places = list(report.unreached(v))
        if places:
            out.append(f"<details><summary>{escape(places[0].rstrip(':'))}</summary>{_list(places[1:])}</details>")
    if v.notes:
        out.append("<h3>Notes</h3>" + _list(v.notes))
    out.append("</div>")
    return "".join(out)


def _list(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f'<li style="overflow-wrap:anywhere">{escape(text)}</li>' for text in texts) + "</ul>"


def _scrolling(markup: str) -> str:
    return f'<div style="overflow-x:auto">{markup}</div>'


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    cells = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return _scrolling(f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>")
