"""``mlu-migrate review``: hunk by hunk, then the accepted ones are written in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlu_migrate import atomic, cache, explain, review_terminal
from mlu_migrate.cliopts import Shared
from mlu_migrate.commands import common
from mlu_migrate.messages import text
from mlu_migrate.model import ExitStatus, FileStatus
from mlu_migrate.output import Output
from mlu_migrate.report import printable


def review(arguments: Sequence[str], shared: Shared, out: Output) -> int:
    """Ask about each change; what was accepted is written when the review ends, nothing before."""
    try:
        setup = common.prepare(arguments, shared, out)
        common.finish_interrupted(setup)
        run = common.look(setup)
        saved = _place(setup.paths)
        outputs = review_terminal.session(
            run.result,
            review_terminal.terminal_keys(),
            out.result,
            lang=setup.settings.lang,
            width=out.width,
            colour=out.colour(),
            saved=saved,
            page=lambda code: explain.page(code) or "",
        )
        if outputs is None:
            out.talk(text("review.left", setup.settings.lang))
            return ExitStatus.OK
        sources = {job.shown: (job, file) for job, file in zip(run.jobs, run.result.files, strict=True)}
        by_root: dict[Path, list[tuple[Path, bytes]]] = {}
        for shown, data in outputs.items():
            job, file = sources[shown]
            if job.path.read_bytes() != file.source:
                raise common.Refused(f"{printable(shown)}: changed since the review began; nothing was written")
            by_root.setdefault(job.root, []).append((job.path, data))
        for root, items in by_root.items():
            atomic.write_all(items, root=root)
    except common.Refused as refused:
        for line in refused.lines:
            out.error(line)
        return ExitStatus.FAILURE
    except OSError as error:
        out.error(f"{error.filename}: {error.strerror or error}")
        return ExitStatus.FAILURE
    out.talk(text("review.written", setup.settings.lang, count=len(outputs)))
    failed = [file for file in run.result.files if file.status is FileStatus.FAILED]
    for file in failed:
        out.error(f"{printable(file.path)}: {file.reason}")
    return ExitStatus.FAILURE if failed else ExitStatus.OK


def _place(paths: Sequence[Path]) -> Path:
    """Where the decisions about these paths are kept between two sessions."""
    name = cache.key("review", *(str(path.resolve()) for path in paths))
    return cache.default_folder() / "reviews" / f"{name[:32]}.json"
