"""
The programs of fixtures/scripts converted by us and by ten regular expressions, and what parity says of each.

    python benchmarks/parity_converters.py [--only PROGRAM] [--write benchmarks/parity_converters.md] [--json FILE]

The regex converter is a stand-in for the vendor's (see regex_converter.py). Each program is recorded once as the
reference (emulated-cuda); the conversions are run as candidates with the command as it was and judged. Where the
patterns match in the command too, because they renamed an option, the regex conversion is run a second time with the
command converted. The check has to tell conversions apart wherever the regex breaks a program: exit status 1 where
ours is no match, where a conversion that fails to run passes, or where nothing is told apart.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from regex_converter import convert, convert_folder

from mlu_backend.parity import session, trace, verdict
from mlu_backend.parity.findings import Difference, Status, Verdict
from mlu_migrate import gathering, parity, pipeline
from mlu_migrate.settings import Options, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS, REGEX, BOTH = "ours", "regex", "regex, command too"
SCRIPTS = Path(__file__).resolve().parents[1] / "fixtures" / "scripts"


@dataclass(frozen=True)
class Row:
    """One program and one converter. ``exit``: status of the converted program, None when it ran out of time."""

    program: str
    converter: str
    status: str
    exit: int | None
    says: str


def migrated_by_us(folder: Path, work: Path) -> Path:
    """What ``mlu-migrate FOLDER`` writes."""
    run = pipeline.run(gathering.targets_of([folder]), Settings(), Options(cache=False))
    return parity._copy(folder, run, work)


def migrated_by_regex(folder: Path, work: Path) -> Path:
    """What the ten patterns make of it."""
    target = work / "migrated"
    convert_folder(folder, target)
    return target


def rows_of(folder: Path, work: Path) -> list[Row]:
    """Both converters on one program."""
    command = tuple(shlex.split(tomllib.loads((folder / "program.toml").read_text(encoding="utf-8"))["command"]))
    plan = session.Plan(folder, folder, command, work / "reference", timeout=240, cards=2, look_closer=False)
    plan.work.mkdir(parents=True)
    made = session.Session(plan)._run("reference", folder, "emulated-cuda")
    if made.status != 0:
        raise SystemExit(f"{folder.name}: the reference failed\n{made.output[-2000:]}")
    reference = trace.read(made.trace)
    rows = []
    by_regex = tuple(convert(list(command)))
    wanted = [(OURS, migrated_by_us, command), (REGEX, migrated_by_regex, command)]
    if by_regex != command:
        wanted.append((BOTH, migrated_by_regex, by_regex))
    for name, converter, words in wanted:
        place = work / name.replace(" ", "-")
        place.mkdir()
        migrated = converter(folder, place)
        candidate = session.Session(replace(plan, migrated=migrated, work=place / "run", candidate_command=words))
        candidate.plan.work.mkdir()
        outcome = candidate._run("candidate", migrated, "none")
        found = _judged(candidate, reference, outcome)
        rows.append(Row(folder.name, name, found.status.value, outcome.status, _in_words(found)))
        print(f"{folder.name:22} {name:18} {found.status.value:10} {rows[-1].says}", file=sys.stderr, flush=True)
    return rows


def _judged(candidate: session.Session, reference: trace.Trace, outcome: session.Outcome) -> Verdict:
    question = verdict.Question()
    if not (outcome.trace / "meta.json").is_file():
        return verdict.not_judged("the program left no trace")
    theirs = trace.read(outcome.trace)
    if outcome.status != 0:
        return candidate._failed(reference, theirs, question, outcome)
    return verdict.judge(reference, theirs, question)


def _in_words(found: Verdict) -> str:
    if found.status is Status.MATCH:
        equal = "bit for bit" if found.equal == found.compared else f"{found.equal} bit for bit"
        return f"{found.compared} tensors, {equal}"
    if found.first is not None:
        return _difference(found.first)
    return "; ".join(found.reasons)


def _difference(first: Difference) -> str:
    where = f" ({first.site[0]}:{first.site[1]})" if first.site else ""
    return f"{first.what}: {first.reference} | {first.candidate}{where}".replace("\n", " ")[:220]


def table(rows: list[Row]) -> str:
    """Program by converter, as Markdown."""
    out = ["| program | converter | verdict | what parity says |", "|---|---|---|---|"]
    out += [f"| {r.program} | {r.converter} | {r.status} | {r.says.replace('|', '&#124;')} |" for r in rows]
    told = {r.program for r in rows if r.converter == REGEX and r.status != Status.MATCH.value}
    still = {r.program for r in rows if r.converter == BOTH and r.status != Status.MATCH.value}
    count = len({r.program for r in rows})
    out += [
        "",
        f"Ours match in {_matches(rows)} of {count} programs. The regex conversion is told apart in {len(told)}",
    ]
    out[-1] += f" ({', '.join(sorted(told)) or 'none'}), with its command converted too in {len(still)}."
    return "\n".join(out)


def _matches(rows: list[Row]) -> int:
    return sum(r.converter == OURS and r.status == Status.MATCH.value for r in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted(p.parent.name for p in SCRIPTS.glob("*/program.toml"))
    parser.add_argument("--only", choices=names, action="append")
    parser.add_argument("--merge", type=Path, help="take what is not run now from an earlier --json")
    parser.add_argument("--write", type=Path, help="write the table as a Markdown page")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[Row] = []
    earlier = [Row(**r) for r in json.loads(args.merge.read_text(encoding="utf-8"))] if args.merge else []
    for place in sorted(SCRIPTS.glob("*/program.toml")):
        if args.only and place.parent.name not in args.only:
            rows += [r for r in earlier if r.program == place.parent.name]
        else:
            work = Path(tempfile.mkdtemp(prefix="mlu-parity-converters-"))
            try:
                rows += rows_of(place.parent, work)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    text = table(rows)
    print(text)
    if args.write:
        head = "# Two converters, judged by parity\n\nWritten by `python benchmarks/parity_converters.py --write`."
        args.write.write_text(f"{head}\n\n{text}\n", encoding="utf-8")
    if args.json:
        args.json.write_text(json.dumps([vars(r) for r in rows], indent=1), encoding="utf-8")
    broken = [r for r in rows if r.converter != OURS and r.exit != 0]
    good = _matches(rows) == len({r.program for r in rows}) and all(r.status != Status.MATCH.value for r in broken)
    return 0 if good and (broken or args.only) else 1


if __name__ == "__main__":
    sys.exit(main())
