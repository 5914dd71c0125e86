"""
The facts of a project for a run: what each file says is kept in the cache for as long as the file stays as it is, so a
hook looks again only at the files that changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mlu_migrate import cache, pool, project
from mlu_migrate.filefacts import FileFacts

SECONDS = 600.0  # limit for looking at the files of a project

Row = tuple[int, int, FileFacts | None]  # bytes and time of change in ns of a file, what it says
_NO_ROW: Row = (-1, -1, None)


def learn(
    root: Path, paths: Sequence[Path], store: cache.Cache | None, talk: Callable[[str], None]
) -> tuple[project.ProjectFacts | None, str]:
    """
    The facts that the files below ``root`` give together, and a key that changes with them. None and "" where they
    cannot be had, which ``talk`` is told. Files that vanished or lie elsewhere are passed over.
    """
    known = _known(root, store)
    present: dict[str, Row] = {}
    for path in paths:
        try:
            status = os.stat(path)
            rel = path.relative_to(root).as_posix()
        except (OSError, ValueError):
            continue
        present[rel] = (status.st_size, status.st_mtime_ns, None)
    stale = [rel for rel, row in present.items() if known.get(rel, _NO_ROW)[:2] != row[:2]]
    looked: dict[str, FileFacts] = {}
    if stale:
        size = sum(present[rel][0] for rel in stale)
        scanned = next(iter(pool.run(_scan, None, [(root, stale)], [size], jobs=1, seconds=SECONDS)))
        if scanned.value is None:
            talk(f"{root}: nothing is known of the project as a whole: {scanned.reason}")
            return None, ""
        looked = cache.decode(scanned.value, (FileFacts,))
    rows = {
        rel: (size, stamp, looked[rel] if rel in looked else known[rel][2])
        for rel, (size, stamp, _) in present.items()
        if rel in looked or rel not in stale
    }
    if store and rows != known:
        store.put(_name(root), cache.encode(rows))
    files = {rel: facts for rel, (_, _, facts) in rows.items() if facts is not None}
    return project.join(files), cache.key(cache.encode(files))


def _name(root: Path) -> str:
    return cache.key("facts", cache.tool_fingerprint(), str(root))


def _known(root: Path, store: cache.Cache | None) -> dict[str, Row]:
    body = store.get(_name(root)) if store else None
    try:
        return dict(cache.decode(body, (FileFacts,))) if body is not None else {}
    except ValueError:
        return {}


def _scan(context: object, item: tuple[Path, list[str]]) -> bytes:
    root, files = item
    return cache.encode(project.look_at(root, files))
