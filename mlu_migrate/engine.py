"""
Bytes in, bytes out: prefilter, parse, one walk, rules, byte edits, re-parse, repeat until nothing changes.

Pure: no file is read or written here, nothing is printed, nothing of the code under migration is run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from contextlib import closing

from mlu_migrate import audit, guard, rule, suppress
from mlu_migrate import edits as edit_tools
from mlu_migrate.collecting import held_back
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, Safety
from mlu_migrate.newer import parse as parse_newer
from mlu_migrate.prefilter import mentions
from mlu_migrate.project import ProjectFacts
from mlu_migrate.settings import Settings
from mlu_migrate.source import Source, SourceError
from mlu_migrate.unit import Unit
from mlu_migrate.vendors import supports_mlu

ROUNDS = 5


class ParseError(Exception):
    """Python's parser refuses the file; the message has line and reason."""


def migrate(source: bytes, path: str, settings: Settings, facts: ProjectFacts | None = None) -> FileResult:
    """
    Migrate one Python file.

    ``path`` is relative to the argument of the run, POSIX separators. ``facts`` is what is known of the project
    around it. The result is FAILED with a reason, and without output, for a file that cannot be read, parsed or
    edited safely.
    """
    if not mentions(source) and not settings.audit:
        return FileResult(path, FileStatus.UNCHANGED, source=source)
    with held_back():
        return _guarded(source, path, settings, facts or ProjectFacts())


def _guarded(source: bytes, path: str, settings: Settings, facts: ProjectFacts) -> FileResult:
    """Parse and migrate; what goes wrong becomes a failed file with a reason."""
    try:
        decoded = Source(source)
        result = _migrate(decoded, path, settings, facts)
        return audit.added(result, decoded.data) if settings.audit and settings.wants(audit.CODE) else result
    except (SourceError, ParseError) as error:
        return FileResult(path, FileStatus.FAILED, str(error), source)
    except guard.GuardError as error:
        return FileResult(path, FileStatus.FAILED, f"left as it was: {error}", source)
    except (RecursionError, MemoryError) as error:
        return FileResult(path, FileStatus.FAILED, f"left as it was: nests too deeply ({type(error).__name__})", source)


def parse(source: Source) -> ast.Module:
    """Parse a file as the running Python does, or through libcst where its syntax is newer. Raises ParseError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Text where a coding line names another encoding: the bytes are UTF-8 by now, ast would believe the line.
            return ast.parse(source.data if source.encoding == "utf-8" else source.text)
    except SyntaxError as error:
        tree = parse_newer(source)
        if tree is not None:
            return tree
        raise ParseError(_reason(source, error)) from None
    except (RecursionError, MemoryError) as error:
        raise ParseError(f"nests too deeply for Python's parser ({type(error).__name__})") from None
    except ValueError as error:
        raise ParseError(str(error)) from None


def _reason(source: Source, error: SyntaxError) -> str:
    line = f"line {error.lineno}: " if error.lineno else ""
    text = error.msg
    words = source.line_bytes(error.lineno).split() if error.lineno and error.lineno <= len(source.starts) else []
    if words[:1] in ([b"print"], [b"exec"]) or b"except" in words[:1] and b"," in source.line_bytes(error.lineno or 1):
        text += " (this looks like Python 2; convert it to Python 3 first)"
    return line + text


def comments_of(source: Source) -> list[tuple[int, str]]:
    """(line, text) of the comments, if any could be one of ours."""
    if b"mlu:" not in source.data and b"mlu-migrate:" not in source.data:
        return []
    return suppress.comments_of(source.data)


def _migrate(source: Source, path: str, settings: Settings, facts: ProjectFacts) -> FileResult:
    tree: ast.Module | None = parse(source)
    report: list[Finding] = []
    current = source
    back: list[list[Edit]] = []  # edits of the rounds so far, to map places to the input
    for number in range(ROUNDS):
        assert tree is not None
        unit = Unit(current, tree, path, settings, facts)
        with closing(unit):
            shield = suppress.parse(current.data, comments_of(current))
            found = [f for f in _deduplicate(rule.run(unit)) if settings.wants(f.code)]
            if any(f.edits for f in found) and supports_mlu(unit):
                found = [f.with_(safety=Safety.UNSAFE) if f.safety is Safety.SAFE else f for f in found]
            kept = [f for f in found if not shield.covers(f.code, f.line, f.end_line)]
            if settings.kept:
                kept = [f for f in kept if not _is_held(f, settings, current, source, back)]
            if settings.proven:
                kept = [_with_evidence(f, settings, current, source, back) for f in kept]
            accepted, waiting = edit_tools.select(f for f in kept if _applies(f, settings))
            finishing = [f for r in rule.all_rules() for f in r.finish(unit, accepted) if settings.wants(f.code)]
            accepted += [f for f in finishing if _applies(f, settings)]
            changes = edit_tools.unique(accepted)
            applied = {id(f) for f in accepted}
            final = [f.with_(applied=True) if id(f) in applied else f for f in [*kept, *finishing]]
            if number == 0:
                report += [f for f in final if id(f) not in {id(w) for w in waiting}]
                report += rule.unused_ignores(unit, shield) if settings.wants("MLU003") else []
            else:
                report += [_moved(f, current, source, back) for f in final if f.applied]
            if not changes:
                if number:
                    report += [_moved(f, current, source, back) for f in waiting]
                break
            guard.check(unit, changes)
        result = _spliced(current, changes)
        back.append(changes)
        current = Source(result)
        del unit
        tree = None  # two trees of a large file at a time are too many
        try:
            tree = parse(current)
        except ParseError as error:
            raise guard.GuardError(f"internal error, please report it: the result does not parse ({error})") from None
        if not waiting:
            break
    report.sort(key=lambda f: (f.line, f.column, f.code))
    if current is source:
        return FileResult(path, FileStatus.UNCHANGED, source=source.original, findings=tuple(report))
    return FileResult(path, FileStatus.CHANGED, source=source.original, output=current.original, findings=tuple(report))


def _applies(finding: Finding, settings: Settings) -> bool:
    return bool(finding.edits) and (
        finding.safety is Safety.SAFE or (settings.unsafe and finding.safety is Safety.UNSAFE)
    )


def _is_held(finding: Finding, settings: Settings, current: Source, source: Source, back: list[list[Edit]]) -> bool:
    """Whether a baseline holds the finding, which is then neither reported nor rewritten."""
    place = finding if current is source else _moved(finding, current, source, back)
    return (place.code, place.line, place.column) in settings.kept


def _with_evidence(
    finding: Finding, settings: Settings, current: Source, source: Source, back: list[list[Edit]]
) -> Finding:
    """A guess that a parity run saw come true is safe."""
    place = finding if current is source else _moved(finding, current, source, back)
    if finding.safety is Safety.UNSAFE and (place.path, place.line, place.column) in settings.proven:
        return finding.with_(safety=Safety.SAFE, confidence=Confidence.HIGH)
    return finding


def _deduplicate(findings: Iterable[Finding]) -> list[Finding]:
    seen: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        seen.setdefault((f.code, f.line, f.column, f.end_line, f.end_column, f.message_id, f.edits), f)
    return list(seen.values())


def _spliced(source: Source, changes: list[Edit]) -> bytes:
    return edit_tools.apply(source.original, source.to_original(changes))


def _moved(finding: Finding, current: Source, source: Source, back: list[list[Edit]]) -> Finding:
    """A finding of a later round with its place given in the input."""

    def place(line: int, column: int) -> tuple[int, int]:
        start = current.starts[line - 1]
        text = current.line_bytes(line).decode("utf-8")
        offset = start + len(text[: column - 1].encode("utf-8"))
        for changes in reversed(back):
            offset = edit_tools.shift(offset, changes)
        return source.position(min(offset, len(source.data)))

    line, column = place(finding.line, finding.column)
    end_line, end_column = place(finding.end_line, finding.end_column)
    return finding.with_(line=line, column=column, end_line=end_line, end_column=end_column)
