"""
The verdict for people: text for a terminal of 80 columns and Markdown. The verdict comes first, then why, then the
rest.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from mlu_backend.parity import coverage
from mlu_backend.parity.findings import Category, Difference, Status, Verdict
from mlu_backend.parity.wording import counted

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
    if not v.compared and not v.unreadable:
        return "no tensor was compared"
    parts = [f"{counted(v.compared, 'tensor')} compared", f"{v.equal} equal bit for bit"]
    parts.append(f"{v.within} within limits given their inputs")
    beyond = v.compared - v.equal - v.within
    if v.compared and v.equal == v.compared:
        parts[1:] = ["all equal bit for bit"] if v.compared > 1 else ["equal bit for bit"]
    elif beyond:
        parts.append(f"{beyond} beyond")
    where = ", ".join(counted(*x) for x in ((v.calls, "module call"), (v.steps, "step"), (v.ranks, "process")))
    text = f"{', '.join(parts)} ({where})"
    if v.unreadable:
        text += f"; {v.unreadable} more could not be read on either side and were not compared"
    return text


def control_line(v: Verdict) -> str:
    """What the rounding control found and what it was used for; empty without one."""
    c = v.control
    if c is None:
        return ""
    text = f"rounding control: the reference ran {counted(c.runs, 'time')} more with the inputs of "
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


def differences_line(v: Verdict) -> str:
    """How many differences of which category; a tensor may have several, and not every difference is in a tensor."""
    if not v.total_differences:
        return ""
    counts = ", ".join(f"{number} of {category}" for category, number in categories(v).items() if number)
    text = f"{counted(v.total_differences, 'difference')}: {counts}"
    both = categories(v)[Category.STRUCTURE.value] and categories(v)[Category.NUMBERS.value]
    return f"{text}, where the structure does not differ" if both else text


def facts(v: Verdict) -> list[str]:
    """What the verdict rests on, a sentence each."""
    return [t for t in (figures(v), differences_line(v), v.first_step, v.loss_curve, control_line(v)) if t]


def left_for_people(v: Verdict) -> list[str]:
    """Findings that the migration left to be decided, whose line this run went through."""
    return [f"{r['code']} {r['path']}:{r['source']} {r['message']}" for r in (v.coverage or {}).get("left", ())]


def next_steps(v: Verdict) -> Iterator[str]:
    """What to do now, a sentence each."""
    report = v.coverage or {}
    if v.status is Status.NOT_JUDGED:
        if any(reason.startswith("no mlu device") for reason in v.reasons):
            yield "see what is missing: mlu-migrate doctor"
        return
    if v.status is Status.MISMATCH:
        if report.get("left"):
            yield "decide first on what the migration left for you and this run went through; it may be the cause"
        if v.profile != "exact":
            yield "compare with --profile exact, which does not round: what differs there is a fault"
        yield "keep both programs and their records to look into: --keep DIR"
    elif report.get("exercised", 0) < report.get("edits", 0):
        yield (
            "nothing is known of the edits that were not reached: compare commands that call these places too, for "
            "example as further entries of pyproject.toml"
        )
    if report.get("proven"):
        number = len(report["proven"])
        guesses = f"{counted(number, 'guess')} of the migration {'was' if number == 1 else 'were'}"
        yield (
            f"{guesses} seen reaching a device: have them made with --evidence and the JSON report "
            "(--report parity.json)"
        )


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
        yield f"at         {place(d.site)} (line of the candidate)"
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
        more = max(v.total_differences - (v.first is not None), len(others))
        first = "; the first of them" if more > SHOWN else ""
        lines += ["", f"{counted(more, 'more difference')}{first}:"]
        for d in others[:SHOWN]:
            text = (
                f"step {d.step}  {d.what}: {d.reference} | {d.candidate}"
                if not d.outputs
                else f"step {d.step}  {d.what}: {d.outputs}"
            )
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ")
    left = left_for_people(v)
    if left:
        lines += ["", *textwrap.wrap(_left_title(v, len(left)), width)]
        for text in left[:LISTED]:
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="      ")
        if len(left) > LISTED:
            lines.append(f"  and {len(left) - LISTED} more, all in the JSON report")
    if v.coverage is not None:
        lines += ["", *textwrap.wrap(coverage_line(v), width)]
        for number, text in enumerate(unreached(v)):
            lines += textwrap.wrap(text, width, initial_indent="    " if number else "  ", subsequent_indent="      ")
    if v.notes:
        lines += ["", "Notes"]
        for note in v.notes:
            indent = "  " + " " * (len(note) - len(note.lstrip()))
            lines += textwrap.wrap(note.strip(), width, initial_indent=indent, subsequent_indent=indent)
    steps = list(next_steps(v))
    if steps:
        lines += ["", "Next"]
        for text in steps:
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines) + "\n"


def _left_title(v: Verdict, number: int) -> str:
    text = f"{counted(number, 'finding')} left for you by the migration, which this run went through"
    return f"{text} without a difference:" if v.status is Status.MATCH else f"{text}:"


def coverage_line(v: Verdict) -> str:
    """How many edits ran and, in a match, that they matched."""
    report = v.coverage or {}
    text = coverage.summary(report)
    if v.status is Status.MATCH and report["exercised"]:
        text = re.sub(r"^(\d+ of \d+ edits?) ran", r"\1 ran and matched", text)
    return text


def unreached(v: Verdict) -> Iterator[str]:
    """The places of edits that were not reached, with the lines of the original; nothing where all were."""
    report = v.coverage or {}
    places = coverage.unreached_functions(report)
    idle = coverage.unused_files(report)
    if places or idle:
        yield "Not reached (lines of the original):"
    for where, rows in list(places.items())[:LISTED]:
        listed = ", ".join(f"line {r.get('source', r['line'])} {r['code']}" for r in rows[:6])
        yield f"{where}: {listed}{' ...' if len(rows) > 6 else ''}"
    if len(places) > LISTED:
        yield f"and {len(places) - LISTED} more places, all in the JSON report"
    if idle:
        first = ", ".join(f"{path} ({counted(count, 'edit')})" for path, count in list(idle.items())[:UNUSED])
        more = f" and {counted(len(idle) - UNUSED, 'more file')}" if len(idle) > UNUSED else ""
        yield f"nothing of {first}{more}"


def markdown(v: Verdict) -> str:
    """The same as a Markdown document, with the loss curve and the ten worst as tables."""
    out = [f"# {headline(v)}", ""]
    out += [f"- {_md(reason)}" for reason in v.reasons]
    out += [f"- {_md(text)}" for text in facts(v)]
    out += [f"- reference `{v.reference or 'emulated-cuda'}`, profile `{v.profile}`", ""]
    if v.first is not None:
        out += ["## First divergence", "", _md(v.first.what), ""]
        out += ["```", *first_lines(v.first), "```", ""]
    left = left_for_people(v)
    if left:
        out += ["## Left for you", "", _md(_left_title(v, len(left))), "", *(f"- {_md(t)}" for t in left), ""]
    steps = list(next_steps(v))
    if steps:
        out += ["## Next", "", *(f"- {_md(text)}" for text in steps), ""]
    if len(v.differences) > 1:
        out += [
            "## Differences in order",
            "",
            "| step | what | reference | candidate | error of inputs | error of outputs |",
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
        out += [
            "## Worst ten",
            "",
            "| what | step | mean error | largest single error | mean error of inputs | limit of the mean |",
            "|---|---|---|---|---|---|",
        ]
        for w in v.worst:
            out.append(
                f"| {_md(w['what'])} | {w['step']} | {w['mean']:.1e} | {w['single']:.1e} "
                f"| {w['inputs']:.1e} | {w['limit']:.0e} |"
            )
        out.append("")
    if v.coverage is not None:
        title, *places = list(unreached(v)) or [""]
        out += ["## Edit coverage", "", coverage_line(v), "", *([title, ""] if title else [])]
        out += [*(f"- {_md(text)}" for text in places), ""] if places else []
    if v.notes:
        out += ["## Notes", "", *_notes(v.notes), ""]
    return "\n".join(out)


def _notes(notes: Iterable[str]) -> Iterator[str]:
    """A list; notes that are indented are a program's output and stand in a block below the one before."""
    for is_output, group in itertools.groupby(notes, lambda note: note.startswith("    ")):
        if is_output:
            yield from ("", "````", *(note[4:].replace("````", "'" * 4) for note in group), "````", "")
        else:
            yield from (f"- {_md(note)}" for note in group)


def _md(text: str) -> str:
    """Text as Markdown that reads as it is written, in a table too; words between backticks stay code."""
    parts = re.split(r"(`[^`]+`)", text.replace("\n", " "))
    return "".join(part if n % 2 else _escaped(part) for n, part in enumerate(parts)).replace("|", "\\|")


def _escaped(text: str) -> str:
    return re.sub(r"__|[\\*`\[]", lambda found: "".join(f"\\{c}" for c in found[0]), text).replace("<", "&lt;")


def categories(v: Verdict) -> dict[str, int]:
    """Number of all differences by category, in the order of judgement."""
    kept = {c: sum(d.category is c for d in v.differences) for c in Category}
    return {c.value: max(kept[c], v.totals.get(c, 0)) for c in Category}
