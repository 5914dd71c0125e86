"""
The verdict for people: text for a terminal of 80 columns and Markdown. The verdict comes first, then why, then the
rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from mlu_backend.parity import coverage
from mlu_backend.parity.findings import Category, Difference, Status, Verdict

SHOWN = 10
LISTED = 20  # functions with edits that were not reached
UNUSED = 6  # files of which nothing ran


def headline(v: Verdict) -> str:
    """One line: the verdict."""
    name = f"{v.title}: " if v.title else ""
    if v.status is Status.NOT_JUDGED:
        return f"{name}PARITY NOT JUDGED"
    if v.status is Status.MATCH:
        bits = ", bit for bit" if v.compared and v.equal == v.compared else ""
        return f"{name}PARITY: match{bits}"
    return f"{name}PARITY: mismatch"


def figures(v: Verdict) -> str:
    """What the verdict rests on."""
    parts = [f"{_count(v.compared, 'tensor')} compared", f"{v.equal} equal bit for bit", f"{v.within} within limits"]
    beyond = v.compared - v.equal - v.within
    if beyond:
        parts.append(f"{beyond} beyond")
    where = ", ".join(_count(*x) for x in ((v.calls, "module call"), (v.steps, "step"), (v.ranks, "process")))
    text = f"{', '.join(parts)} ({where})"
    if v.unreadable:
        text += f"; {v.unreadable} more could not be read on either side and were not compared"
    return text


def _count(number: int, what: str) -> str:
    many = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{number} {what if number == 1 else many}"


def control_line(v: Verdict) -> str:
    """What the rounding control found and what it was used for; empty without one."""
    c = v.control
    if c is None:
        return ""
    times = f"{c.runs} time{'s' if c.runs != 1 else ''}"
    text = f"rounding control: the reference ran {times} more with the inputs of "
    if not c.products:
        return f"{text}products rounded as the profile does, and has no such products: the table alone judged"
    text += f"{c.products} products rounded to {c.bits} bits on another grid"
    if c.loss_largest:
        text += f", which moved its losses by up to {c.loss_largest:.1e} ({c.loss_mean:.1e} mean)"
    if not c.admitted:
        return f"{text}; nothing beyond the table is within {c.factor:g} times what that moved"
    one = c.admitted == 1
    beyond = "1 quantity beyond the table is" if one else f"{c.admitted} quantities beyond the table are"
    return (
        f"{text}; {beyond} within {c.factor:g} times what that moved {'it and passes' if one else 'them and pass'} "
        f"(at most {c.largest:.1f} times: {c.what}). A fault smaller than that is seen with profile exact only"
    )


def facts(v: Verdict) -> list[str]:
    """What the verdict rests on, a sentence each."""
    return [text for text in (figures(v), v.first_step, v.loss_curve, control_line(v)) if text]


def place(site: Any) -> str:
    """``file:line in function``."""
    return f"{site[0]}:{site[1]} in {site[2]}" if site else "unknown"


def edit_sentences(d: Difference) -> Iterator[str]:
    """What is known about the edits behind a difference."""
    if not d.edits:
        yield "no edit of ours is on or near this line"
        return
    first = d.edits[0]
    if first["where"] == "on this line":
        yield f"the last edit on this line was {first['code']} ({first['before']} -> {first['after']})"
    else:
        for edit in d.edits[:3]:
            yield f"{edit['code']} edited {edit['path']}:{edit['line']}, {edit['where']}"


def operator_lines(operator: dict[str, Any]) -> Iterator[str]:
    """The operator inside the call."""
    if operator.get("instead"):
        yield f"operator   {operator['name']} in the reference, {operator['instead']} in the candidate"
    else:
        yield f"operator   {operator['name']}"
        yield f"  inputs   {operator['inputs']['mean']:.1e} mean, {operator['inputs']['single']:.1e} single"
        yield f"  outputs  {operator['outputs']['mean']:.1e} mean, {operator['outputs']['single']:.1e} single"
    if operator.get("structure"):
        yield f"  {operator['structure']}"
    if operator.get("site"):
        yield f"  at       {place(operator['site'])}"
    truth = operator.get("truth")
    if truth:
        ours, theirs = truth["reference"]["mean"], truth["candidate"]["mean"]
        yield f"  float64  reference is {ours:.1e} from it, candidate {theirs:.1e}"


def first_lines(d: Difference) -> Iterator[str]:
    yield f"category   {d.category.value}"
    if d.path:
        yield f"module     {d.path}" + (f" ({d.type})" if d.type else "")
    yield (
        f"step       {d.step}"
        + (f", rank {d.rank}" if d.rank else "")
        + (f", call {d.nth + 1}" if d.kind == "call" else "")
    )
    if d.reference or d.candidate:
        yield f"reference  {d.reference}"
        yield f"candidate  {d.candidate}"
    if d.inputs is not None and d.outputs is not None:
        yield f"inputs     {d.inputs}"
    if d.outputs is not None:
        yield f"outputs    {d.outputs}"
    if d.limit is not None:
        yield f"limit      {d.limit.mean:.0e} mean, {d.limit.single:.0e} single"
    if d.site:
        yield f"at         {place(d.site)}"
    if d.source:
        yield f"forward    {d.source[0]}:{d.source[1]}"
    if d.operator:
        yield from operator_lines(d.operator)
    if d.site or d.source:
        for sentence in edit_sentences(d):
            yield f"edit       {sentence}"


def terminal(v: Verdict, width: int = 80) -> str:
    """Plain text, no line over ``width`` columns but for long names."""
    lines = [headline(v)]
    for reason in v.reasons:
        lines += textwrap.wrap(reason, width, initial_indent="  ", subsequent_indent="  ")
    if v.status is not Status.NOT_JUDGED or v.compared:
        for text in facts(v):
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")
        against = f"reference {v.reference or 'emulated-cuda'}, profile {v.profile}"
        lines += textwrap.wrap(against, width, initial_indent="  ", subsequent_indent="  ")
    if v.first is not None:
        lines += ["", *textwrap.wrap(f"First divergence: {v.first.what}", width, subsequent_indent="  ")]
        for text in first_lines(v.first):
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent=" " * 13)
    others = [d for d in v.differences if d is not v.first]
    if others:
        lines += ["", f"{v.total_differences - 1} more differences; the first of them:"]
        for d in others[:SHOWN]:
            text = (
                f"step {d.step}  {d.what}: {d.reference} | {d.candidate}"
                if not d.outputs
                else f"step {d.step}  {d.what}: {d.outputs}"
            )
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ")
    if v.coverage is not None:
        lines += ["", *_coverage(v, width)]
    if v.notes:
        lines += ["", "Notes"]
        for note in v.notes:
            lines += (
                textwrap.wrap(note, width, initial_indent="  ", subsequent_indent="  ", drop_whitespace=False)
                if note
                else []
            )
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines) + "\n"


def _coverage(v: Verdict, width: int) -> Iterator[str]:
    report = v.coverage or {}
    matched = " and matched" if v.status is Status.MATCH else ""
    text = coverage.summary(report).replace("edits ran", f"edits ran{matched}")
    yield from textwrap.wrap(text, width)
    unreached = coverage.unreached_functions(report)
    for where, rows in list(unreached.items())[:LISTED]:
        listed = ", ".join(f"line {r['line']} {r['code']}" for r in rows[:6]) + (" ..." if len(rows) > 6 else "")
        yield from textwrap.wrap(
            f"{where} would reach {listed}", width, initial_indent="  ", subsequent_indent="      "
        )
    if len(unreached) > LISTED:
        yield f"  and {len(unreached) - LISTED} more places, all in the JSON report"
    idle = coverage.unused_files(report)
    if idle:
        first = ", ".join(f"{path} ({count})" for path, count in list(idle.items())[:UNUSED])
        more = f" and {len(idle) - UNUSED} more" if len(idle) > UNUSED else ""
        text = f"files (with their number of edits) of which no edit ran: {first}{more}"
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ")
    if report.get("proven"):
        text = f"unsafe findings seen reaching a device: {len(report['proven'])}; pass the JSON report to --evidence"
        yield from textwrap.wrap(text, width)


def markdown(v: Verdict) -> str:
    """The same as a Markdown document, with the loss curve and the ten worst as tables."""
    out = [f"# {headline(v)}", ""]
    out += [f"- {_md(reason)}" for reason in v.reasons]
    out += [f"- {_md(text)}" for text in facts(v)]
    out += [f"- reference `{v.reference or 'emulated-cuda'}`, profile `{v.profile}`", ""]
    if v.first is not None:
        out += ["## First divergence", "", _md(v.first.what), ""]
        out += ["```", *first_lines(v.first), "```", ""]
    if len(v.differences) > 1:
        out += [
            "## Differences in order",
            "",
            "| step | what | reference | candidate | inputs | outputs |",
            "|---|---|---|---|---|---|",
        ]
        for d in v.differences[:50]:
            cells = (d.step, d.what, d.reference, d.candidate, d.inputs or "", d.outputs or "")
            out.append("| " + " | ".join(_md(str(c)) for c in cells) + " |")
        if v.total_differences > 50:
            out.append(f"\n{v.total_differences - 50} more.")
        out.append("")
    if v.losses:
        out += ["## Loss", "", "| step | reference | candidate | relative difference |", "|---|---|---|---|"]
        out += [f"| {r.step} | {r.reference:.8g} | {r.candidate:.8g} | {r.error:.1e} |" for r in v.losses[:100]]
        out.append("")
    if v.worst:
        out += ["## Worst ten", "", "| what | step | mean | single | inputs | limit |", "|---|---|---|---|---|---|"]
        for w in v.worst:
            out.append(
                f"| {_md(w['what'])} | {w['step']} | {w['mean']:.1e} | {w['single']:.1e} "
                f"| {w['inputs']:.1e} | {w['limit']:.0e} |"
            )
        out.append("")
    if v.coverage is not None:
        out += ["## Edit coverage", "", *_coverage(v, 10_000), ""]
    if v.notes:
        out += ["## Notes", "", *(f"- {_md(n)}" for n in v.notes), ""]
    return "\n".join(out)


def _md(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def categories(v: Verdict) -> dict[str, int]:
    """Number of kept differences by category, in the order of judgement."""
    return {c.value: sum(d.category is c for d in v.differences) for c in Category}
