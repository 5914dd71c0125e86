"""
Jupyter notebooks: code cells migrated as one module, in order, so that they share imports; everything else stays.

The file is never written by a JSON or notebook library, which would reorder and reindent it: edits are spans inside
the strings of cell sources. nbformat only checks that what could be read before can be read after. Lines that are
no Python (``%``, ``!``, ``?``) are shown to the rules as ``pass`` and stay as they are; shell lines and ``%%bash``
cells go through the rules for scripts, as ``settings.configs`` says.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from mlu_migrate import magics
from mlu_migrate.configs import apply, checks, commandline, inside, vocabulary
from mlu_migrate.configs.document import Document
from mlu_migrate.configs.jsonfile import NotJson
from mlu_migrate.magics import Reading
from mlu_migrate.model import Confidence, Edit, FileResult, FileStatus, Finding, Safety, Severity
from mlu_migrate.notebook_source import Cell, cells, language
from mlu_migrate.settings import Settings

Engine = Callable[[bytes], FileResult]
CheckerOf = Callable[[str, bytes], Callable[[Document], None] | None]
_PYTHON_WORDS = re.compile(r"(?i)cuda|nccl|nvtx|torch|gpu|mlu")


class Unplaced(Exception):
    """A change of the module that belongs to no cell."""


@dataclass(slots=True)
class Module:
    """The Python of some cells as one text, and which cell each part of it comes from."""

    text: str = ""
    parts: list[tuple[int, int, Cell, int]] = field(default_factory=list)  # start, end, cell, offset in the cell
    cell_ends: dict[int, Cell] = field(default_factory=dict)  # where the line after a cell starts
    line_starts: dict[int, tuple[Cell, int]] = field(default_factory=dict)
    indents: dict[int, str] = field(default_factory=dict)  # what was taken away at the start of a line

    def append(self, cell: Cell, lines: tuple[magics.Line, ...]) -> None:
        """Add a cell with its lines, and a comment line behind it that keeps it apart from the next."""
        out = [self.text]
        size = len(self.text)
        for line in lines:
            shown = magics.replacement(cell.text, line)
            self.line_starts[size] = (cell, line.start)
            lead_text = cell.text[line.start : line.code]
            if line.kind == "statement" and not lead_text.strip():
                self.indents[size] = lead_text
            if line.kind in ("python", "statement"):
                code = cell.text[line.code : line.end]
                lead = len(shown) - len(code)
                self.parts.append((size + lead, size + len(shown), cell, line.code))
            out += [shown, "\n"]
            size += len(shown) + 1
        self.cell_ends[size] = cell
        out.append(f"# end of cell {cell.number}\n")
        self.text = "".join(out)

    def place(self, offset: int) -> tuple[Cell, int]:
        """The cell and the offset in it of a place in the module. Raises Unplaced."""
        for start, end, cell, at in self.parts:
            if start <= offset <= end:
                return cell, at + offset - start
        raise Unplaced(f"offset {offset}")

    def span(self, start: int, end: int) -> tuple[Cell, int, int]:
        """The cell and the span in it. A line end belongs to the line before it. Raises Unplaced."""
        if start == end and start in self.line_starts:
            cell, first = self.line_starts[start]
            return cell, first, first
        cell, first = self.place(start)
        if end in self.line_starts and end > start and self.line_starts[end][0] is cell:
            return cell, first, self.line_starts[end][1]
        other, last = self.place(end)
        if other is not cell or last < first:
            raise Unplaced(f"offsets {start} to {end}")
        return cell, first, last


def migrate(
    source: bytes,
    path: str,
    settings: Settings,
    facts: object = None,
    engine: Engine | None = None,
    checker_of: CheckerOf = lambda name, text: None,
) -> FileResult:
    """
    Migrate one notebook. ``engine`` migrates Python source; without one the rewriter's own is used. ``checker_of``
    says what looks at a file of that name and text, for cells that write files.

    FAILED with a reason for a file that is no notebook, UNCHANGED for one whose kernel is not Python.
    """
    unchanged = FileResult(path, FileStatus.UNCHANGED, source=source)
    if not vocabulary.trigger().search(source):
        return unchanged
    doc = Document(source, path, settings)
    doc.groups = getattr(facts, "config_groups", doc.groups)
    try:
        all_cells = [cell for cell in cells(doc) if cell.kind == "code" and not cell.empty]
        if language(doc) not in ("python", "python3", "ipython"):
            return unchanged
    except (NotJson, ValueError, IndexError) as error:
        return FileResult(path, FileStatus.FAILED, f"not a notebook: {error}", source)
    run = engine or _own_engine(path, settings, facts)
    work = _Notebook(doc, settings, run, checker_of)
    try:
        work.read(all_cells)
    except EngineFailed as failure:
        return FileResult(path, FileStatus.FAILED, str(failure), source)
    except Unplaced as failure:
        reason = f"left as it was: a change could not be placed in a cell ({failure})"
        return FileResult(path, FileStatus.FAILED, reason, source)
    return work.result()


class EngineFailed(Exception):
    """The engine refused the Python of a notebook; the message says why."""


def _own_engine(path: str, settings: Settings, facts: object) -> Engine:
    from mlu_migrate import engine

    known = replace(settings, kept=()) if settings.kept else settings  # places of the baseline are cell lines
    return lambda source: engine.migrate(source, path, known, facts)  # type: ignore[arg-type]


class _Notebook:
    def __init__(self, doc: Document, settings: Settings, engine: Engine, checker_of: CheckerOf) -> None:
        self.checker_of = checker_of
        self.doc = doc
        self.settings = settings
        self.engine = engine
        self.findings: list[Finding] = []
        self.changes: set[Edit] = set()

    def read(self, all_cells: list[Cell]) -> None:
        """Look at every cell. Raises EngineFailed or Unplaced."""
        module = Module()
        for cell in all_cells:
            reading = magics.read(cell.text)
            if reading.kind == "python":
                module.append(cell, reading.lines)
                self._commands(cell, reading)
            elif reading.kind == "shell":
                self._shell(cell, reading.body)
            elif reading.kind == "file":
                self._file(cell, reading)
            elif reading.kind == "broken" and re.search(r"(?i)cuda|nccl", cell.text):
                self._broken(cell, reading.reason)
        if _PYTHON_WORDS.search(module.text):
            self._python(module)

    def result(self) -> FileResult:
        """What became of the notebook."""
        doc = self.doc
        held = set(self.settings.kept)
        found = sorted(self.findings, key=lambda f: (f.cell or 0, f.line, f.column, f.code))
        if any((f.code, f.line, f.column) in held and f.applied for f in found):
            kept = {e for f in found if (f.code, f.line, f.column) in held for e in f.edits}
            found = [f.with_(applied=False) if kept & set(f.edits) else f for f in found]
            self.changes -= kept
        output = apply.splice(doc.source, sorted(self.changes))
        if output == doc.source:
            still = tuple(f.with_(applied=False) if f.applied else f for f in found)
            return FileResult(doc.path, FileStatus.UNCHANGED, source=doc.source, findings=still)
        problem = _problem(doc.source, output)
        if problem:
            return FileResult(doc.path, FileStatus.FAILED, f"left as it was: {problem}", doc.source)
        return FileResult(doc.path, FileStatus.CHANGED, source=doc.source, output=output, findings=tuple(found))

    def _python(self, module: Module) -> None:
        source = module.text.encode("utf-8", "surrogatepass")
        outcome = self.engine(source)
        if outcome.status is FileStatus.FAILED:
            raise EngineFailed(outcome.reason or "could not be read")
        applied = {edit for f in outcome.findings if f.applied for edit in f.edits}
        output = source if outcome.output is None else outcome.output
        edits = sorted(applied)
        if apply.splice(source, edits) != output:
            edits = list(line_edits(source, output))
        for edit in edits:
            self.changes.add(self._moved(module, source, edit))
        for f in outcome.findings:
            self.findings.append(self._moved_finding(module, source, f))

    def _moved(self, module: Module, source: bytes, edit: Edit) -> Edit:
        start = len(source[: edit.start].decode("utf-8", "surrogatepass"))
        end = start + len(source[edit.start : edit.end].decode("utf-8", "surrogatepass"))
        text = edit.text.decode("utf-8", "surrogatepass")
        if start == end and start in module.cell_ends:
            cell = module.cell_ends[start]
            body = text.removesuffix("\n")
            if cell.text and not cell.text.endswith("\n"):
                body = f"\n{body}"
            return self._edit(cell, len(cell.text), len(cell.text), body)
        if end in module.cell_ends and end > start and text.endswith("\n"):
            end, text = end - 1, text[:-1]  # the line end behind a cell is ours
        cell, first, last = module.span(start, end)
        if start == end and start in module.indents and text.endswith("\n"):
            text = "".join(module.indents[start] + line for line in text.splitlines(keepends=True))
        return self._edit(cell, first, last, text)

    def _edit(self, cell: Cell, first: int, last: int, text: str) -> Edit:
        start, end, escaped = cell.edit(self.doc, first, last, text)
        return self.doc.edit(start, end, escaped)

    def _moved_finding(self, module: Module, source: bytes, finding: Finding) -> Finding:
        cell, line, column = _in_cell(module, finding.line, finding.column)
        _, end_line, end_column = _in_cell(module, finding.end_line, finding.end_column)
        edits: tuple[Edit, ...] = ()
        try:
            edits = tuple(sorted({self._moved(module, source, edit) for edit in finding.edits}))
        except (Unplaced, IndexError, UnicodeDecodeError):
            pass  # an edit of a later round speaks of other bytes; what was written comes from the comparison
        return finding.with_(
            path=self.doc.path,
            cell=cell.number if cell else None,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            edits=edits,
        )

    def _commands(self, cell: Cell, reading: Reading) -> None:
        spans = [line for line in reading.lines if line.kind in ("command", "environment")]
        if not spans:
            return

        def look(inner: Document) -> None:
            for line in spans:
                end = _continued(reading, line)
                if line.kind == "command":
                    commandline.check(inner, line.code, end)
                else:
                    _environment(inner, line.code, end)

        self._script(cell, look)

    def _shell(self, cell: Cell, body: int) -> None:
        self._script(cell, lambda inner: commandline.check(inner, body, len(inner.text)))

    def _script(self, cell: Cell, look: Callable[[Document], None]) -> None:
        """Judge shell text in a cell and take over what was found and is to be written."""
        if self.settings.configs == "off":
            return
        quiet = replace(self.settings, audit=False)  # words of a cell are listed with its Python
        inner = Document(cell.text.encode("utf-8", "surrogatepass"), self.doc.path, quiet)
        if inner.encoding != "utf-8":
            return
        inner.engine, inner.free_lines, inner.groups = self.engine, True, self.doc.groups
        look(inner)
        result = apply.finish(inner)
        source = inner.source
        for f in result.findings:
            edits = []
            for edit in f.edits:
                start = len(source[: edit.start].decode("utf-8"))
                end = start + len(source[edit.start : edit.end].decode("utf-8"))
                edits.append(self._edit(cell, start, end, edit.text.decode("utf-8")))
            self.findings.append(f.with_(cell=cell.number, edits=tuple(edits)))
            if f.applied:
                self.changes.update(edits)

    def _file(self, cell: Cell, reading: Reading) -> None:
        """``%%writefile``: a program, a script or a configuration of its own."""
        if reading.name.endswith(".py"):
            module = Module()
            body = cell.text[reading.body :]
            lines, start = [], reading.body
            for text in body.split("\n"):
                lines.append(magics.Line("python", start, start + len(text), start))
                start += len(text) + 1
            module.append(cell, tuple(lines))
            try:
                self._python(module)
            except EngineFailed as failure:
                self._broken(cell, str(failure))
        elif checker := self.checker_of(reading.name, cell.text[reading.body :].encode("utf-8", "surrogatepass")):
            found = checker
            self._script(cell, lambda doc: inside.embed(doc, reading.body, len(doc.text), found, reading.name))

    def _broken(self, cell: Cell, reason: str) -> None:
        if not self.settings.wants("MLU607"):
            return
        first = cell.text.split("\n", 1)[0]
        self.findings.append(
            Finding(
                code="MLU607",
                name="notebook-cell",
                severity=Severity.WARNING,
                safety=Safety.MANUAL,
                confidence=Confidence.HIGH,
                path=self.doc.path,
                line=1,
                column=1,
                end_line=1,
                end_column=len(first) + 1,
                message_id="unreadable",
                args={"cell": str(cell.number), "reason": reason},
                before=first,
                cell=cell.number,
            )
        )


def _continued(reading: Reading, line: magics.Line) -> int:
    end = line.end
    for other in reading.lines:
        if other.kind == "continued" and other.start == end + 1:
            end = other.end
    return end


def _environment(inner: Document, start: int, end: int) -> None:
    """``%env NAME=value`` and ``%env NAME value``."""
    match = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)?(\S*)").match(inner.text, start, end)
    if match is not None and match[1]:
        if match[1] in vocabulary.environment() or match[1].startswith("NCCL_"):
            checks.environment_set(inner, *match.span(1), match[2] or None)
        elif match[2]:
            checks.value(inner, *match.span(2), match[1])


def _in_cell(module: Module, line: int, column: int) -> tuple[Cell | None, int, int]:
    """The cell, line and column of a place in the module. A place behind a cell is the cell's end."""
    offset = 0
    for _ in range(line - 1):
        found = module.text.find("\n", offset)
        if found < 0:
            break
        offset = found + 1
    offset += column - 1
    try:
        cell, at = module.place(offset)
    except Unplaced:
        before = [item for start, item in sorted(module.line_starts.items()) if start <= offset]
        if not before:
            return None, line, column
        cell, at = before[-1]
    return cell, *cell.position(at)


def line_edits(source: bytes, output: bytes) -> Iterator[Edit]:
    """Edits that lead from one text to another, line by line and no longer than the difference in a line."""
    old, new = source.splitlines(keepends=True), output.splitlines(keepends=True)
    starts = [0]
    for text in old:
        starts.append(starts[-1] + len(text))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            continue
        if i2 - i1 > j2 - j1:
            yield Edit(starts[i1], starts[i2], b"".join(new[j1:j2]))
            continue
        for index in range(i1, i2):
            # Lines that were added stand before the line that is most like the old one.
            last = j2 - (i2 - index) + 1
            best = max(range(j1, last), key=lambda j: difflib.SequenceMatcher(None, old[index], new[j]).ratio())
            if best > j1:
                yield Edit(starts[index], starts[index], b"".join(new[j1:best]))
            yield from _trimmed(starts[index], old[index], new[best])
            j1 = best + 1
        if j1 < j2:
            yield Edit(starts[i2], starts[i2], b"".join(new[j1:j2]))


def _trimmed(start: int, old: bytes, new: bytes) -> Iterator[Edit]:
    if old == new:
        return
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    while head and (old[head : head + 1] or b" ")[0] & 0xC0 == 0x80:
        head -= 1  # not inside a character
    while tail and old[len(old) - tail] & 0xC0 == 0x80:
        tail -= 1
    yield Edit(start + head, start + len(old) - tail, new[head : len(new) - tail])


def _problem(source: bytes, output: bytes) -> str:
    """Why nbformat refuses an output although it takes the input; empty when all is well."""
    import nbformat
    from nbformat.reader import NotJSONError
    from nbformat.validator import ValidationError

    def refuses(data: bytes) -> str:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                notebook = nbformat.reads(data.decode("utf-8-sig"), as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
                nbformat.validate(notebook)
        except (ValidationError, NotJSONError, ValueError, KeyError, AttributeError) as error:
            return str(error).splitlines()[0] if str(error) else type(error).__name__
        return ""

    after = refuses(output)
    return "" if not after or refuses(source) else f"the result is no valid notebook ({after})"
