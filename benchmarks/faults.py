"""
What the rewriter does when the world fails: every fault is made to happen to a real process, and what it left on disk
is compared with what was there before.

    python benchmarks/faults.py [--out benchmarks/faults.md] [--only WORD]

Each row runs ``mlu-migrate`` on a small project, either into a copy (``copy``) or in place (``-w``). The column "left
on disk" is worked out from the files: as before, all migrated, or some of each; then whatever else lies there. "Run
again" is the same command once more without the fault. Exit status 1 if a row is half (only kill -9 between two renames
may be, until the next run), shows a traceback, or cannot be repaired by running again. Faults that need root (a full
disk, a read-only one) are left out, and named, without it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # also when a test loads this file by its path

import fault_kinds
from fault_kinds import ARGUMENTS, BETWEEN, CALL, DONE, FILES, ROOT, Fault, Place, Ran, ended, faults, start

SOURCES = fault_kinds.SOURCES


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    fault: str
    how: str
    happened: str
    left: str
    afterwards: str
    good: bool


def left_on_disk(place: Place, how: str, spared: str = "") -> tuple[str, bool]:
    """What the run left, in words, and whether no file is half and none is missing."""
    folder = place.top if how == "-w" else place.copy
    words: list[str] = []
    good = True
    if how == "copy":
        intact = all((place.top / name).read_bytes().startswith(CALL) for name in place.names())
        words.append("original as before" if intact else "original CHANGED")
        good = intact
        if not folder.exists():
            words.append("no copy")
    if folder.exists():
        texts = {name: (folder / name).read_bytes() if (folder / name).is_file() else b"" for name in place.names()}
        held = texts.pop(spared, None)
        new = [name for name, text in texts.items() if text.startswith(DONE)]
        old = [name for name, text in texts.items() if text.startswith(CALL)]
        broken = len(texts) - len(new) - len(old)
        if broken:
            good = False
            words.append(f"{broken} files broken or missing")
        if not old:
            words.append("all files migrated")
        elif not new:
            words.append("all files as before")
        else:
            words.append(f"{len(new)} files migrated, {len(old)} as before")
        if held is not None:
            state = "migrated" if held.startswith(DONE) else "as before" if held.startswith(CALL) else "not there"
            words.append(f"{spared} {state}")
        for name, data in place.extra.items():
            whole = (folder / name).read_bytes() if (folder / name).is_file() else b""
            shown = ascii(name)[1:-1]
            words.append(
                f"{shown} {'as before' if whole == data else 'migrated' if b'torch_mlu' in whole[:200] else 'BROKEN'}"
            )
            good = good and (whole == data or b"torch_mlu" in whole[:200])
    rests = [path for path in place.folder.iterdir() if path.name.startswith(".p_mlu")]
    rests += [path for path in place.folder.glob("p*/.mlu-migrate-*") if "-tmp-" in path.name or "pending" in path.name]
    if rests:
        words.append(f"{len(rests)} temporary files")
    return "; ".join(words), good


def said(ran: Ran, place: Place, fault: Fault) -> str:
    """The line that tells the user: the first error, else what the summary says of the file in question."""
    lines = [line for line in ran.err.splitlines() if "error" in line]
    if not lines and ran.status == 2:
        names = [*place.extra, *([fault.spared] if fault.spared else [])]
        lines = [line.strip() for line in ran.out.splitlines() if any(name in line for name in names)]
    lines = lines or ran.err.splitlines()[:1] or ["nothing on stderr"]
    text = lines[0].replace("mlu-migrate: error: ", "").replace(f"{place.folder}/", "")
    return text.replace("d" * 200, "ddd...ddd")[:150]


def measure(fault: Fault, folder: Path) -> Row:
    """Let a fault happen in an empty folder, look at what is left, and run once more."""
    with _mounted(folder, fault.mount):
        place = Place(folder)
        place.fill()
        ARGUMENTS[id(place)] = fault.arguments
        ran = fault.happen(place)
        left, good = left_on_disk(place, fault.how, fault.spared)
        happened = f"status {ran.status}: {said(ran, place, fault)}"
        if ran.status < 0:
            happened = f"ended by {signal.Signals(-ran.status).name}"
        again = ended(start(folder, [*fault.arguments, "--force"]))
        after, whole = left_on_disk(place, fault.how, fault.spared)
        good = good and whole and "Traceback" not in ran.err + again.err
        if " files migrated, " in after or (" files migrated, " in left and fault.name != BETWEEN):
            good = False
        with contextlib.suppress(OSError):
            shutil.rmtree(place.top)
        return Row(fault.name, fault.how, happened, left, f"status {again.status}: {after}", good)


@contextlib.contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    if not options:
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@functools.cache
def can_mount() -> bool:
    """Whether a disk of our own can be had here."""
    if not ROOT or shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(subprocess.CalledProcessError):
        with _mounted(Path(folder), "size=1m"):
            return True
    return False


def table(rows: list[Row], missing: list[str]) -> str:
    """The table as Markdown."""
    lines = [
        "# Faults of the rewriter",
        "",
        "Measured by `python benchmarks/faults.py`, which makes each fault happen to a real process. A project of "
        f"{FILES} files; `copy` is `mlu-migrate p`, `-w` is in place. Other cases of the same kind are tests: "
        "`tests/test_faults_more.py`, `test_files.py`, `test_copying.py`, `test_pool.py`, `test_atomic.py`, "
        "`test_cli.py`.",
        "",
        "| fault | run | what happened | left on disk | run again | as it should be |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (row.fault, row.how, row.happened, row.left, row.afterwards, "yes" if row.good else "NO")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if missing:
        lines += ["", f"Not measured here, for want of root: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    parser.add_argument("--only", default="", help="only faults with this word in their name")
    options = parser.parse_args()
    rows: list[Row] = []
    missing: list[str] = []
    able = can_mount()
    for fault in faults():
        if options.only not in fault.name:
            continue
        if fault.needs_root and not able:
            missing.append(f"{fault.name} ({fault.how})")
            continue
        with tempfile.TemporaryDirectory(prefix="mlu-faults-", ignore_cleanup_errors=True) as folder:
            rows.append(measure(fault, Path(folder)))
        print(f"{'ok ' if rows[-1].good else 'BAD'} {rows[-1]}", file=sys.stderr, flush=True)
    text = table(rows, missing)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
