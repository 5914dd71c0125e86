"""The terminal side of a review: shows a hunk, reads a key, and ends with the bytes to write or with none."""

from __future__ import annotations

import atexit
import os
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mlu_migrate.messages import catalogue
from mlu_migrate.messages import render as words
from mlu_migrate.model import RunResult, Safety
from mlu_migrate.report import printable
from mlu_migrate.report.layout import Paper
from mlu_migrate.report.sidebyside import shown
from mlu_migrate.review import Decision, Ending, Hunk, State, hunks_of, left, load, outputs, press, save, start

CONTEXT = 3


def session(
    run: RunResult,
    keys: Callable[[], str],
    write: Callable[[str], None],
    *,
    lang: str = "en",
    width: int = 80,
    colour: bool = False,
    saved: Path | None = None,
    page: Callable[[str], str] | None = None,
) -> dict[str, bytes] | None:
    """
    Run a review. ``keys`` gives one key a call and an empty text at the end of input; ``page`` gives a rule's page by
    code. Decisions are kept in ``saved`` when the review is left, and the file is removed when it was written out.

    Returns the files to write by path (possibly none of them), or None when the review was left.
    """
    hunks = hunks_of(run)
    state = start(hunks, load(saved) if saved else None)
    try:
        while hunks and state.ending is None:
            paper = Paper(width, colour)
            if left(hunks, state) or state.explain or state.help:
                _screen(paper, run, hunks, state, lang, page)
            else:
                _all_decided(paper, hunks, state, lang)
            write(paper.text())
            key = keys()
            state = press(hunks, state, key) if key else replace(state, ending=Ending.QUIT)
    finally:  # also when a signal ends the program: decisions are work
        if state.ending is not Ending.WRITE and saved and any(d is not Decision.OPEN for d in state.decisions):
            save(saved, hunks, state)
    if state.ending is Ending.QUIT:
        return None
    if saved:
        saved.unlink(missing_ok=True)
    return outputs(run, hunks, state)


def _label(key: str, lang: str, **fields: object) -> str:
    template = catalogue(lang, "review").get(key) or catalogue("en", "review")[key]
    return str(template).format(**fields)


def _screen(
    paper: Paper,
    run: RunResult,
    hunks: Sequence[Hunk],
    state: State,
    lang: str,
    page: Callable[[str], str] | None,
) -> None:
    hunk = hunks[state.cursor]
    asked = [n for n, h in enumerate(hunks) if not h.follows]
    where = _label("where", lang, number=asked.index(state.cursor) + 1, all=len(asked), open=left(hunks, state))
    paper.line()
    paper.wrapped(f"{where} {printable(hunk.path)}", style="bold")
    old = [shown(line.rstrip("\r\n")) for line in _text_lines(run.files[hunk.file].source)]
    new = [shown(line.rstrip("\r\n")) for line in _text_lines(run.files[hunk.file].output or b"")]
    for span in hunk.spans:
        paper.line(f"@@ {span.old_start + 1}", "cyan")
        for line in old[max(0, span.old_start - CONTEXT) : span.old_start]:
            paper.line(f"  {line}", "dim")
        for line in old[span.old_start : span.old_end]:
            paper.raw(paper.style(f"- {line}", "red"))
        for line in new[span.new_start : span.new_end]:
            paper.raw(paper.style(f"+ {line}", "green"))
        for line in old[span.old_end : span.old_end + CONTEXT]:
            paper.line(f"  {line}", "dim")
    for finding in hunk.findings:
        message, hint = words(finding, lang)
        mark = f" {_label('unsafe', lang)}" if finding.safety is Safety.UNSAFE else ""
        paper.wrapped(f"{finding.code} {printable(message)}{mark}", hanging=8)
        if state.explain and hint:
            paper.wrapped(printable(hint), indent=8)
    if state.explain and page is not None:
        for code in sorted(hunk.codes):
            paper.line()
            for line in page(code).splitlines():
                paper.line(line)
    decision = state.decisions[state.cursor]
    if decision is not Decision.OPEN:
        paper.line(_label(decision.value, lang), "yellow")
    if state.help:
        for key in ("y", "n", "a", "d", "f", "x", "u", "j", "k", "e", "w", "q"):
            paper.line(f"  {key}  {_label(f'key_{key}', lang)}")
    paper.wrapped(_label("prompt", lang), style="bold")


def _all_decided(paper: Paper, hunks: Sequence[Hunk], state: State, lang: str) -> None:
    accepted = state.decisions.count(Decision.ACCEPT)
    rejected = state.decisions.count(Decision.REJECT)
    files = len({h.file for h, d in zip(hunks, state.decisions, strict=True) if d is Decision.ACCEPT})
    paper.line()
    paper.line(_label("decided", lang, accepted=accepted, rejected=rejected, files=files), "bold")
    paper.wrapped(_label("end_prompt", lang), style="bold")


def _text_lines(data: bytes) -> list[str]:
    return [line.decode("utf-8", "replace") for line in data.splitlines(keepends=True)]


def terminal_keys() -> Callable[[], str]:
    """
    Reads single keys where standard input is a terminal, else the first character of each line. Gives an empty text
    at the end of input and on Ctrl-C or Ctrl-D. The terminal is set back when the program ends.
    """

    def from_lines() -> str:
        line = sys.stdin.readline()
        return (line.strip() or " ")[0] if line else ""

    if not sys.stdin.isatty():
        return from_lines
    try:
        import termios
        import tty
    except ImportError:  # no terminal modes on this system
        return from_lines

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    # For the whole review, not key by key: what is typed ahead must neither be lost nor read as lines.
    tty.setcbreak(number, termios.TCSADRAIN)
    atexit.register(termios.tcsetattr, number, termios.TCSADRAIN, before)

    def from_terminal() -> str:
        try:
            key = os.read(number, 1)
            if key >= b"\x80" or key == b"\x1b":
                key += os.read(number, 8) if select.select([number], [], [], 0)[0] else b""
        except KeyboardInterrupt:
            return ""
        if key in (b"", b"\x03", b"\x04"):
            return ""
        return key.decode("ascii") if len(key) == 1 and key.isascii() else " "

    return from_terminal
