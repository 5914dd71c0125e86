"""
From files to results: learn about the project around them, migrate each in a worker, keep what was learnt.

Reads; writes only to the cache. What becomes of the results (a copy, a diff, a report) is decided by the callers.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlu_migrate import baseline, cache, pool, walk
from mlu_migrate.configs import groups
from mlu_migrate.gathering import Job, Target, gather, read
from mlu_migrate.model import FileResult, FileStatus, Finding, RunResult
from mlu_migrate.settings import Options, Settings, is_project, project_root

FACT_FILES = 50_000  # Python files of a project that are scanned for facts; beyond that only those of the run

Talk = Callable[[str], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. ``jobs`` and ``result.files`` run in parallel."""

    targets: tuple[Target, ...]
    jobs: tuple[Job, ...]
    result: RunResult
    baselined: int = 0

    def of(self, target: Target) -> list[tuple[Job, FileResult]]:
        """The files of one target."""
        return [(job, file) for job, file in zip(self.jobs, self.result.files, strict=True) if job.target == target]


@dataclass(frozen=True, slots=True)
class _Item:
    source: bytes
    path: str
    root: int
    python: bool
    kept: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Context:
    settings: Settings
    facts: tuple[Any, ...]


@dataclass(slots=True)
class _Work:
    """State of a run while it goes on."""

    settings: Settings
    options: Options
    talk: Talk
    store: cache.Cache | None
    facts: list[Any] = field(default_factory=list)
    facts_key: list[str] = field(default_factory=list)
    roots: list[Path] = field(default_factory=list)


def run(
    targets: Sequence[Target],
    settings: Settings,
    options: Options,
    *,
    since: str | None = None,
    left_out: bool = False,
    talk: Talk = lambda text: None,
    progress: Progress = lambda done, total: None,
) -> Run:
    """
    Migrate the files of all targets in memory.

    ``since`` limits the run to files that git says have changed. ``left_out`` also lists files that hold something
    to migrate but that an ignore file or a glob leaves out, for a caller that copies them. Raises GitError or
    BaselineError for settings that do not fit; whatever a single file does becomes its result.
    """
    begun = time.perf_counter()
    store = cache.Cache() if options.cache else None
    work = _Work(settings, options, talk, store)
    held_by = baseline.read(Path(options.baseline)) if options.baseline else None
    jobs, results, work.roots = gather(targets, settings, options, since, left_out)
    pending: list[tuple[int, _Item]] = []
    for index, job in enumerate(jobs):
        if results[index] is None:
            data = read(job.path)
            if isinstance(data, str):
                results[index] = FileResult(job.shown, FileStatus.FAILED, data)
            else:
                pending.append((index, _Item(data, job.rooted, work.roots.index(job.root), job.python)))
    if pending:
        whole = [target.path.resolve() for target in targets if target.directory and since is None]
        _learn(work, [jobs[index] for index, _ in pending], whole)
    _migrate(work, jobs, pending, results, progress)
    baselined = _hold(work, jobs, pending, results, held_by) if held_by else 0
    if store is not None:
        store.tidy_sometimes()
    files = tuple(result for result in results if result is not None)
    result = RunResult(files, torch_mlu=settings.torch_mlu, seconds=round(time.perf_counter() - begun, 3))
    return Run(tuple(targets), tuple(jobs), result, baselined)


def migrate_text(
    source: bytes, path: Path, settings: Settings, options: Options, talk: Talk = lambda text: None
) -> FileResult:
    """Migrate bytes that came from elsewhere as if they were the file at ``path``, which need not exist."""
    root = project_root(Path(os.path.abspath(path)).parent)
    rooted = baseline.relative(path, root)
    work = _Work(settings, options, talk, cache.Cache() if options.cache else None, roots=[root])
    target = Target(path, False, "")
    job = Job(target, path, path.as_posix(), root, rooted, True)
    if path.parent.is_dir():
        _learn(work, [job], [])
    else:
        work.facts, work.facts_key = [None], [""]
    python = path.suffix.lower() in walk.PYTHON_SUFFIXES or not _is_script(path, source, settings)
    results: list[FileResult | None] = [None]
    _migrate(work, [job], [(0, _Item(source, rooted, 0, python))], results, lambda done, total: None)
    assert results[0] is not None
    return results[0]


def _learn(work: _Work, jobs: Sequence[Job], whole: Sequence[Path]) -> None:
    """
    Facts of each project the run touches. Roots and files are absolute here.

    ``jobs`` are those whose files could be read; ``whole`` are the folders of which they are all there is.
    """
    from mlu_migrate import learning

    for root in work.roots:
        files, chosen = _fact_files(work, root, jobs, root.resolve() in whole)
        facts, key = learning.learn(root, files, work.store, work.talk)
        config_groups = groups.of(chosen)
        if facts is not None and config_groups:
            facts = dataclasses.replace(facts, config_groups=config_groups)
            key = cache.key(key, cache.encode(config_groups))
        work.facts.append(facts)
        work.facts_key.append(key)


def _fact_files(work: _Work, root: Path, jobs: Sequence[Job], whole: bool) -> tuple[list[Path], list[str]]:
    """The Python files that facts are taken from, and the paths of configurations that a word may choose."""
    own = [Path(os.path.abspath(job.path)) for job in jobs if job.root == root and job.python]
    chosen = [job.rooted for job in jobs if job.root == root and not job.python]
    if whole and work.options.exclude is None and not work.options.extend_exclude and work.options.gitignore:
        return own, chosen
    if not is_project(root):
        # A script that lies about, in a home folder perhaps: what it can import without more ado is beside it or one
        # folder down. All that lies below may be anything.
        beside = [path for pattern in ("*.py", "*/*.py") for path in root.glob(pattern)]
        places = {path for path in beside if not path.parent.name.startswith(".")}
        return sorted(places.union(own)), chosen
    found = walk.find(root, root, walk.Rules(), lambda path: groups.FILE.fullmatch(path.name) is not None).files
    around = [item for item in found if item.python]
    chosen += [item.rel for item in found if not item.python]
    if len(around) > FACT_FILES:
        work.talk(f"{root}: {len(around)} Python files; only those of this run are looked at for what they define")
        return own, chosen
    places = {item.path for item in around}
    return [item.path for item in around] + [path for path in own if path not in places], chosen


def _is_script(path: Path, source: bytes, settings: Settings) -> bool:
    from mlu_migrate import nonpython

    kind = nonpython.kind_of(path.as_posix(), source[:200])
    return kind == "notebook" or (kind is not None and settings.configs != "off")


def _migrate(
    work: _Work,
    jobs: Sequence[Job],
    pending: Sequence[tuple[int, _Item]],
    results: list[FileResult | None],
    progress: Progress,
) -> None:
    """Fill in the results of the pending items, from the cache or through workers."""
    settings_key = cache.fingerprint(work.settings)
    tool = cache.tool_fingerprint()
    missing: list[tuple[int, _Item, str]] = []
    for index, item in pending:
        facts = work.facts_key[item.root]
        name = cache.key("file", tool, settings_key, facts, item.path, cache.encode(item.kept), item.source)
        body = work.store.get(name) if work.store else None
        if body is not None:
            results[index] = _placed(cache.unpack(body, item.path, item.source), jobs[index], item.source)
        else:
            missing.append((index, item, name))
    total, done = len(pending), len(pending) - len(missing)
    progress(done, total)
    if not missing:
        return
    _import_rules()
    outcomes = pool.run(
        _one,
        _Context(work.settings, tuple(work.facts)),
        [item for _, item, _ in missing],
        [len(item.source) for _, item, _ in missing],
        jobs=work.options.jobs,
        seconds=work.options.file_timeout,
    )
    for (index, item, name), outcome in zip(missing, outcomes, strict=True):
        if outcome.value is None:
            results[index] = FileResult(jobs[index].shown, FileStatus.FAILED, outcome.reason, item.source)
        else:
            if work.store:
                work.store.put(name, cache.pack(outcome.value))
            results[index] = _placed(outcome.value, jobs[index], item.source)
        done += 1
        progress(done, total)


def _import_rules() -> None:
    """Import what workers need before they are forked, once for all of them."""
    from mlu_migrate import rule

    rule.all_rules()


def _one(context: _Context, item: _Item) -> FileResult:
    """Migrate one file. Runs in a worker; the source stays with the parent."""
    from mlu_migrate import engine, nonpython

    settings = dataclasses.replace(context.settings, kept=item.kept) if item.kept else context.settings
    migrate = engine.migrate if item.python else nonpython.migrate
    result = migrate(item.source, item.path, settings, context.facts[item.root])
    return dataclasses.replace(result, source=b"")


def _placed(result: FileResult, job: Job, source: bytes) -> FileResult:
    """A result with its source back and with the paths that reports show."""
    findings = result.findings
    if job.shown != job.rooted:
        findings = tuple(finding.with_(path=job.shown) for finding in findings)
    return dataclasses.replace(result, path=job.shown, source=source, findings=findings)


def _hold(
    work: _Work,
    jobs: Sequence[Job],
    pending: Sequence[tuple[int, _Item]],
    results: list[FileResult | None],
    held_by: baseline.Baseline,
) -> int:
    """
    Take findings that the baseline holds out of the results; returns how many.

    Code they are about must stay as it is, so a file in which one of them was applied is migrated again without it.
    """
    again: list[tuple[int, _Item]] = []
    count = 0
    for index, item in pending:
        result = results[index]
        assert result is not None
        new, held = held_by.split(result.findings, jobs[index].path)
        count += len(held)
        if any(finding.applied for finding in held):
            kept = tuple((finding.code, finding.line, finding.column) for finding in held)
            again.append((index, dataclasses.replace(item, kept=kept)))
        elif held:
            results[index] = dataclasses.replace(result, findings=tuple(new))
    if again:
        _migrate(work, jobs, again, results, lambda done, total: None)
        for index, item in again:
            result = results[index]
            assert result is not None
            places = set(item.kept)
            left = tuple(f for f in result.findings if not _is_at(f, places))
            results[index] = dataclasses.replace(result, findings=left)
    return count


def _is_at(finding: Finding, places: set[tuple[str, int, int]]) -> bool:
    return (finding.code, finding.line, finding.column) in places
