"""How the programs of two traces ended: what comes after the end of a record was not compared."""

from __future__ import annotations

from collections.abc import Iterator

from mlu_backend.parity import align
from mlu_backend.parity.trace import Trace


def failures(reference: Trace, candidate: Trace) -> Iterator[str]:
    """The programs that did not end by themselves with exit status 0."""
    for name, run in (("reference", reference), ("candidate", candidate)):
        status = run.meta.get("status", 0)
        if status is None:
            yield f"the {name} program did not end in the time it was given"
        elif status < 0:
            yield f"the {name} program was killed by signal {-status}"
        elif status > 0:
            yield f"the {name} program ended with exit status {status}"


def cut_off(reference: Trace, candidate: Trace) -> Iterator[str]:
    """Processes whose records have no end: they were killed, and what they did in their last seconds is missing."""
    for name, run in (("reference", reference), ("candidate", candidate)):
        for process in run.processes:
            if process.first("end") is not None:
                continue
            numeric = [e for e in process.events if e["k"] in align.NUMERIC]
            pid = (process.first("process") or {}).get("pid", process.name)
            if not numeric:
                yield f"the {name}'s process {pid} was killed before anything it computed was written: not compared"
            else:
                yield (
                    f"the records of the {name}'s process {pid} break off in step {numeric[-1].get('step', 0)}: it was "
                    "killed, or still ran when the trace was read. What it did after that, and in the last two "
                    "seconds before, is not in the trace"
                )
