"""``mlu-migrate PATH...``: the copy, in place, a diff, a check, or from stdin to stdout."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlu_migrate import atomic, copying, copystate, diffs, gathering, gitinfo, pipeline, report, tree
from mlu_migrate.cliopts import Shared
from mlu_migrate.commands import common
from mlu_migrate.messages import text
from mlu_migrate.model import ExitStatus, FileResult, FileStatus, RunResult
from mlu_migrate.outcome import next_steps, part, status_of
from mlu_migrate.output import Output
from mlu_migrate.report import printable

STDIN_NAME = Path("stdin.py")


@dataclass(frozen=True, slots=True)
class How:
    """What is to become of the result."""

    output: Path | None = None
    write: bool = False
    diff: bool = False
    check: bool = False
    force: bool = False
    merge: bool = False
    allow_dirty: bool = False
    stdin_filename: Path = STDIN_NAME


@dataclass(frozen=True, slots=True)
class _Unit:
    """
    One output: a folder that holds some targets, or a single file. ``prefixes`` go before the paths of each target.
    """

    place: Path
    targets: tuple[gathering.Target, ...]
    prefixes: tuple[str, ...]
    folder: bool = True


def migrate(arguments: Sequence[str], how: How, shared: Shared, out: Output) -> int:
    """Carry out one command line; returns the exit status."""
    try:
        _refuse_mixtures(arguments, how)
        if list(arguments) == ["-"]:
            return _stdin(how, shared, out)
        setup = common.prepare(arguments, shared, out)
        if how.diff or how.check:
            return _dry(setup, how)
        if how.write:
            return _in_place(setup, how)
        return _copies(setup, how)
    except common.Refused as refused:
        for line in refused.lines:
            out.error(line)
    except (copying.CopyError, atomic.WriteError) as error:
        out.error(str(error))
    return ExitStatus.FAILURE


def _refuse_mixtures(arguments: Sequence[str], how: How) -> None:
    if "-" in arguments and len(arguments) > 1:
        raise common.Refused("-: stdin cannot be mixed with other paths")
    if how.write and how.output:
        raise common.Refused("-w changes files in place and -o copies them; choose one")
    if "-" not in arguments and how.stdin_filename != STDIN_NAME:
        raise common.Refused("--stdin-filename is the name of what comes from stdin; give - as the path")
    if how.output and len(arguments) == 1 and _names_a_file(how.output, Path(arguments[0])):
        raise common.Refused(f"{how.output}: -o names a folder; the file goes into it under its own name")
    if (how.diff or how.check) and (how.write or how.output):
        raise common.Refused("--diff and --check write nothing; they cannot be used with -w or -o")
    if "-" in arguments and (how.write or how.output):
        raise common.Refused("-: what comes from stdin goes to stdout; -w and -o need a path")


def _names_a_file(output: Path, argument: Path) -> bool:
    """Whether ``a.py -o b.py`` was meant to name the new file."""
    return argument.is_file() and not output.exists() and output.suffix != "" and output.suffix == argument.suffix


def _stdin(how: How, shared: Shared, out: Output) -> int:
    """Source from stdin, result on stdout, findings on stderr."""
    settings, options = common.settings_for_text(shared, how.stdin_filename, out)
    source = sys.stdin.buffer.read()
    file = pipeline.migrate_text(source, how.stdin_filename, settings, options, out.talk)
    result = RunResult((file,), torch_mlu=settings.torch_mlu)
    setup = common.Setup((how.stdin_filename,), settings, options, shared, out)
    if how.diff:
        out.result_bytes(diffs.unified(file))
    elif not how.check:
        out.result_bytes(file.result)
    elif options.format:
        common.show(setup, result, options.format, would=True)
    if file.status is FileStatus.FAILED:
        out.error(f"{printable(file.path)}: {file.reason}")
    told = how.check and bool(options.format)
    left = "" if told else report.render("concise", _left_of(result), settings, settings.lang)
    if left:
        out.talk(left.rstrip("\n"))
    common.write_reports(setup, result)
    return status_of(
        result, options.fail_level, judge=how.check or options.strict, changes_matter=how.check or how.diff
    )


def _dry(setup: common.Setup, how: How) -> int:
    """--diff and --check: nothing is written."""
    run = common.look(setup)
    out, kind = setup.out, setup.options.format or "summary"
    if how.diff:
        out.result_bytes(diffs.unified_all(run.result.files))
        if setup.options.format:
            common.show(setup, run.result, kind, would=True, baselined=run.baselined)
        for file in report.troubled(run.result):
            if file.status is FileStatus.FAILED:
                out.error(f"{printable(file.path)}: {file.reason}")
    else:
        common.show(setup, run.result, kind, would=True, baselined=run.baselined)
    common.finish(setup, run, run.result)
    judge = how.check or setup.options.strict
    return status_of(run.result, setup.options.fail_level, judge=judge, changes_matter=True)


def _in_place(setup: common.Setup, how: How) -> int:
    """-w: all files or none, and only where git can undo it."""
    common.finish_interrupted(setup)
    if not how.allow_dirty:
        for path in setup.paths:
            _refuse_dirty(path)
    run = common.look(setup)
    changed = [
        (job, file) for job, file in zip(run.jobs, run.result.files, strict=True) if file.status is FileStatus.CHANGED
    ]
    if not how.allow_dirty:
        for path in setup.paths:
            loose = gitinfo.untracked(path, [job.path for job, _ in changed if job.target.path == path])
            if loose:
                names = ", ".join(printable(str(item)) for item in loose[:3])
                raise common.Refused(
                    f"git does not track {len(loose)} of the files that would change ({names}) and could not undo it; "
                    "commit them, or use --allow-dirty"
                )
    problems = [problem for job, file in changed if (problem := _not_writable(job, file)) is not None]
    if problems:
        raise common.Refused(*problems, f"nothing was written ({len(changed)} files would change)")
    by_root: dict[Path, list[tuple[Path, bytes]]] = {}
    for job, file in changed:
        by_root.setdefault(job.root, []).append((job.path, file.result))
    for root, items in by_root.items():
        atomic.write_all(items, root=root)
    lang = setup.settings.lang
    steps = [(text("next.undo", lang), _undo(setup.paths))] if changed else []
    common.show(setup, run.result, setup.options.format or "summary", steps=steps, baselined=run.baselined)
    if changed and setup.options.format:
        setup.out.talk(f"{text('next.undo', lang)}: {_undo(setup.paths)}")
    common.finish(setup, run, run.result)
    return status_of(run.result, setup.options.fail_level, judge=setup.options.strict, changes_matter=False)


def _refuse_dirty(path: Path) -> None:
    try:
        dirty = gitinfo.uncommitted(path)
    except gitinfo.GitError:
        raise common.Refused(
            f"{path}: -w outside git cannot be undone; use --allow-dirty, or leave out -w for a copy"
        ) from None
    if dirty:
        raise common.Refused(
            f"{path}: git has {len(dirty)} files with uncommitted changes ({', '.join(map(printable, dirty[:3]))}); "
            "commit them first, or use --allow-dirty"
        )


def _not_writable(job: gathering.Job, file: FileResult) -> str | None:
    """Why a file must not be replaced now, or None."""
    try:
        if not stat.S_IMODE(job.path.stat().st_mode) & 0o222:
            return f"{printable(str(job.path))}: read-only, not written"
        atomic.resolve_inside(job.path, job.root)
        if job.path.read_bytes() != file.source:
            return f"{printable(str(job.path))}: changed by someone else during the run, not written"
    except atomic.WriteError as error:
        return str(error)
    except OSError as error:
        return f"{printable(str(job.path))}: {error.strerror or error}"
    return None


def _undo(paths: Sequence[Path]) -> str:
    tops = sorted({str(top) for path in paths if (top := gitinfo.toplevel(path)) is not None})
    return "; ".join(f"git -C {top} restore ." for top in tops) or "from a backup: this is no git checkout"


def _copies(setup: common.Setup, how: How) -> int:
    """The default: a copy of each folder and file, or of all of them in one place."""
    out = setup.out
    targets = gathering.targets_of(setup.paths)
    units = _units(targets, how.output)
    for unit in units:
        for target in unit.targets:
            copying.refuse_overlap(target.path, unit.place)
        if unit.folder:
            copying.check(unit.place, force=how.force, merge=how.merge)
    if setup.shared.since:
        out.talk(f"only files changed since {setup.shared.since} are migrated; the others are copied as they are")
    run = common.look(setup, left_out=True)
    status = status_of(run.result, setup.options.fail_level, judge=setup.options.strict, changes_matter=False)
    shown: list[tuple[str, str]] = []
    for unit in units:
        worst = _copy_folder(setup, how, run, unit) if unit.folder else _copy_file(setup, how, run, unit)
        status = ExitStatus(max(status, worst))
        if unit.folder and not shown:
            inside = part(run, _jobs(run, unit), lambda job, unit=unit: _path_in(job, unit))  # type: ignore[misc]
            shown = next_steps(inside, unit.place, unit.targets[0].path, setup.settings.lang)
    for unit in units:
        out.talk(f"written to {unit.place}")
    kind = setup.options.format or "summary"
    common.show(setup, run.result, kind, steps=shown, baselined=run.baselined)
    common.finish(setup, run, run.result)
    return status


def _units(targets: Sequence[gathering.Target], output: Path | None) -> list[_Unit]:
    if output is None:
        return [
            _Unit(copying.default_place(target.path), (target,), ("",), folder=target.directory) for target in targets
        ]
    if len(targets) == 1 and targets[0].directory:
        return [_Unit(output, (targets[0],), ("",))]
    if output.exists() and not output.is_dir():
        raise common.Refused(f"{output} exists and is no folder; -o takes a folder")
    names = [os.path.basename(os.path.abspath(target.path)) for target in targets]
    for name in names:
        if names.count(name) > 1:
            raise common.Refused(f"two paths are called {name}; they cannot both go into {output}")
    prefixes = tuple(f"{name}/" if target.directory else "" for name, target in zip(names, targets, strict=True))
    return [_Unit(output, tuple(targets), prefixes)]


def _path_in(job: gathering.Job, unit: _Unit) -> str:
    return unit.prefixes[unit.targets.index(job.target)] + job.rel


def _jobs(run: pipeline.Run, unit: _Unit) -> list[tuple[gathering.Job, FileResult]]:
    return [pair for target in unit.targets for pair in run.of(target)]


def _copy_folder(setup: common.Setup, how: How, run: pipeline.Run, unit: _Unit) -> int:
    out, lang = setup.out, setup.settings.lang
    jobs = _jobs(run, unit)
    inside = part(run, jobs, lambda job: _path_in(job, unit))
    wanted: list[tree.Entry] = []
    problems: list[str] = []
    for target, prefix in zip(unit.targets, unit.prefixes, strict=True):
        if target.directory:
            if prefix:
                wanted.append(tree.folder_entry(target.path, prefix.rstrip("/")))
            found, missed = tree.entries_of(target.path, prefix)
            wanted += found
            problems += missed
        else:
            wanted.append(tree.single_entry(target.path))
    reports = {
        f"{copystate.REPORT}{suffix}": report.render(kind, inside, setup.settings, lang).encode(
            "utf-8", "backslashreplace"
        )
        for suffix, kind in ((".md", "markdown"), (".json", "json"))
    }
    results = {file.path: file for file in inside.files}
    done = copying.copy(wanted, unit.place, results, reports, force=how.force, merge=how.merge, talk=out.talk)
    for key, names in (("kept", done.kept), ("merged", done.merged), ("removed", done.removed)):
        for name in names:
            out.talk(text(f"copy.{key}", lang, path=printable(name)))
    for name in done.conflicts:
        out.error(text("copy.conflict", lang, path=printable(name)))
    for problem in problems + done.problems:
        out.error(printable(problem))
    readable = all("not copied" in problem for problem in problems + done.problems)
    if not readable:
        return ExitStatus.FAILURE
    return ExitStatus.LEFT if done.conflicts else ExitStatus.OK


def _copy_file(setup: common.Setup, how: How, run: pipeline.Run, unit: _Unit) -> int:
    pairs = _jobs(run, unit)
    if not pairs:
        setup.out.talk(f"{unit.targets[0].path}: left out, not copied")
        return ExitStatus.OK
    (job, file), place = pairs[0], unit.place
    if not file.source and file.status in (FileStatus.FAILED, FileStatus.SKIPPED):
        raise common.Refused(f"{printable(str(job.path))}: {file.reason}")
    if (place.exists() or place.is_symlink()) and not how.force:
        if not place.is_file() or place.read_bytes() != file.result:
            raise common.Refused(f"{place} exists and is not what would be written; move it away or use --force")
    atomic.write(place, file.result, root=place.parent, mode=stat.S_IMODE(job.path.stat().st_mode))
    return ExitStatus.OK


def _left_of(result: RunResult) -> RunResult:
    """The result with only the findings that are left."""
    (file,) = result.files
    left = tuple(finding for finding in file.findings if not finding.applied)
    kept = dataclasses.replace(file, status=FileStatus.UNCHANGED, reason=None, output=None, findings=left)
    return dataclasses.replace(result, files=(kept,))
