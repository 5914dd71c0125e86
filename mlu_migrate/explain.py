"""
Answers about rules and about single lines: ``rules``, ``rule CODE``, ``why FILE:LINE``.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlu_migrate import audit, suppress
from mlu_migrate.configs.catalogue import Page, pages
from mlu_migrate.model import FileResult, FileStatus, Finding, Safety
from mlu_migrate.report import flags
from mlu_migrate.report.places import file_line
from mlu_migrate.rule import Rule, all_rules
from mlu_migrate.settings import Settings

_IGNORE = re.compile(rb"(#[ \t]*mlu(?:-migrate)?):")
Migrate = Callable[[bytes, Settings], FileResult]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about one finding on the line, and the reason, as a key of the catalogue with its fields."""

    finding: Finding
    key: str
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """All there is to say about a line. ``failed`` is set where the file could not be migrated at all."""

    code: str
    verdicts: tuple[Verdict, ...] = ()
    mentions: tuple[audit.Mention, ...] = ()
    failed: str | None = None


def codes() -> list[str]:
    """Codes of all rules."""
    return [entry.code for entry in _entries()]


def catalogue() -> str:
    """All rules: code, name, safety, number of fixtures (in a checkout of this project), first sentence of the page."""
    rules = _entries()
    wide = max(len(rule.name) for rule in rules)
    lines = []
    for rule in rules:
        count = fixtures(rule.code)
        shown = "" if count is None else f"{count:4} "
        lines.append(f"{rule.code}  {rule.name:{wide}}  {rule.safety.value:6} {shown} {_first_line(rule)}")
    return "".join(f"{line}\n" for line in lines)


def page(code: str) -> str | None:
    """The page of a rule, or None where there is no such rule. A name does as well as a code."""
    for rule in _entries():
        if code.upper() == rule.code or code.lower() == rule.name:
            head = f"{rule.code} {rule.name} ({rule.safety.value}, {rule.severity.value})"
            topics = f"\nTopics: {', '.join(rule.topics)}\n" if rule.topics else ""
            text = inspect.getdoc(rule) or ""
            other = next((p for p in pages() if p.code == rule.code and p is not rule), None)
            if other is not None:
                text += f"\n\nIn scripts and configurations\n-----------------------------\n{inspect.getdoc(other)}"
            return f"{head}\n{'=' * len(head)}\n\n{text}\n{topics}"
    return None


def _entries() -> list[Rule | type[Page]]:
    """Rules, and the pages of what is judged outside Python; a code that has both is listed once."""
    known = {rule.code for rule in all_rules()}
    return sorted([*all_rules(), *(p for p in pages() if p.code not in known)], key=lambda entry: entry.code)


def fixtures(code: str) -> int | None:
    """How many cases the checkout has for a rule, or None where this is no checkout."""
    folder = Path(__file__).parent.parent / "fixtures" / "rules"
    if not folder.is_dir():
        return None
    own = folder / code
    if not own.is_dir():
        cases = folder.parent.glob("configs/*/findings.json")
        return sum(f'"{code}"' in path.read_text("utf-8") for path in cases)
    return sum(1 for path in own.rglob("*") if ".before." in path.name or ".noop." in path.name)


def why(source: bytes, line: int, settings: Settings, migrate: Migrate) -> Answer:
    """
    What was decided for one line and why.

    The file is migrated as the run would, and once more with everything switched on and ignore comments made inert,
    so that what held a rule back can be named. Raises ValueError when there is no such line.
    """
    lines = _lines(source)
    if not 1 <= line <= len(lines):
        raise ValueError(f"there is no line {line}, the file has {len(lines)}")
    real = migrate(source, settings)
    if real.status is FileStatus.FAILED:
        return Answer(lines[line - 1], failed=real.reason)
    everything = dataclasses.replace(settings, select=(), ignore=(), extend_select=(), audit=True, kept=())
    inert = migrate(_without_ignores(source), everything)
    shield = suppress.parse(source, suppress.comments_of(source))
    verdicts = [_verdict(f, settings) for f in real.findings if _touches(real, f, line) and f.code != audit.CODE]
    known = {_identity(finding) for finding in real.findings}
    for finding in inert.findings:
        if (
            not _touches(inert, finding, line)
            or _identity(finding) in known
            or finding.code in (suppress.CODE, audit.CODE)
        ):
            continue
        if not settings.wants(finding.code):
            verdicts.append(Verdict(finding, "why.off", {}))
        elif shield.covers(finding.code, finding.line, finding.end_line):
            verdicts.append(Verdict(finding, "why.comment", {}))
        elif (finding.code, finding.line, finding.column) in settings.kept:
            verdicts.append(Verdict(finding, "why.baseline", {}))
        else:
            verdicts.append(Verdict(finding, "why.audit", {}))
    told = [verdict.finding for verdict in verdicts]
    python = not any(finding.cell is not None for finding in (*real.findings, *inert.findings))
    mentions = tuple(item for item in audit.untold(source, told) if item.line == line) if python else ()
    return Answer(lines[line - 1], tuple(verdicts), mentions)


def _verdict(finding: Finding, settings: Settings) -> Verdict:
    if finding.applied:
        return Verdict(finding, "why.applied", {})
    wanted = flags([finding])
    if finding.safety is Safety.UNSAFE and finding.edits and (not settings.unsafe or _needs_configs(wanted, settings)):
        return Verdict(finding, "why.unsafe", {"flags": wanted})
    if finding.safety is Safety.MANUAL or not finding.edits:
        return Verdict(finding, "why.manual", {})
    if _needs_configs(wanted, settings):
        return Verdict(finding, "why.configs", {"flags": wanted})
    return Verdict(finding, "why.overlap", {})


def _needs_configs(wanted: str, settings: Settings) -> bool:
    return "--configs" in wanted and settings.configs != "write"


def _touches(file: FileResult, finding: Finding, line: int) -> bool:
    """Whether a finding is about a line of the file. In a notebook that is the line its cell's line stands on."""
    if finding.cell is not None:
        return file_line(file, finding) == line
    return finding.line <= line <= finding.end_line


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.line, finding.column, finding.end_line, finding.end_column, finding.message_id


def _without_ignores(source: bytes) -> bytes:
    """The source with our comments made inert, byte for byte as long."""
    return _IGNORE.sub(rb"\1;", source)


def _lines(source: bytes) -> list[str]:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        text = source.decode("utf-8", "replace")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _first_line(rule: Rule | type[Page]) -> str:
    return (inspect.getdoc(rule) or "").strip().split("\n\n", 1)[0].replace("\n", " ")
