"""The command lines of ``parity``, ``parity-record`` and ``parity-compare``: options in, exit status out."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from mlu_migrate import parity, parity_entries
from mlu_migrate.model import ExitStatus
from mlu_migrate.output import Output
from mlu_migrate.settings import SettingsError, load

_FORMATS = ("text", "json", "junit")


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the process."""

    def error(self, message: str) -> None:  # type: ignore[override]
        words = message.partition("unrecognized arguments: ")[2].split()
        if words and words[0].startswith("-"):
            message += parity_entries.meant(words[0].partition("=")[0], self._option_string_actions)
        elif words and self.prog.endswith("parity"):
            message += "; the command of the program comes after --: mlu-migrate parity PROJECT -- python train.py"
        raise parity_entries.ParityError(message)


def main(command: str, arguments: Sequence[str], out: Output) -> int:
    """Carry out one of the three commands."""
    try:
        if command == "parity-record":
            return parity.record(arguments)
        if command == "parity-compare":
            return _compare(arguments, out)
        return _parity(arguments, out)
    except (parity_entries.ParityError, SettingsError) as error:
        out.error(str(error))
        return ExitStatus.FAILURE
    except SystemExit as ended:  # argparse after --help
        return int(ended.code or 0)


_COLOURS = {"match": "32", "mismatch": "31", "NOT JUDGED": "33"}


def _coloured(text: str) -> str:
    """The verdicts of a report for a terminal, each in its colour."""

    def verdict(line: re.Match[str]) -> str:
        return f"\x1b[1;{_COLOURS[line['verdict']]}m{line[0]}\x1b[0m"

    return re.sub(r"(?m)^(?:\S.*: )?PARITY(?:: | )(?P<verdict>match|mismatch|NOT JUDGED)\b.*$", verdict, text)


def _options(parser: _Parser, reports: str = ".md .json .html .xml") -> None:
    parser.add_argument(
        "--profile", choices=parity_entries.PROFILES, help="how the card computes: exact finds faults (default)"
    )
    parser.add_argument("--tolerance", type=Path, metavar="FILE", help="limits of your own, TOML")
    parser.add_argument("--report", type=Path, action="append", default=[], metavar="FILE", help=reports)
    parser.add_argument("--format", choices=_FORMATS, default="text", help="what is printed")


def _parser() -> _Parser:
    p = _Parser(
        prog="mlu-migrate parity",
        usage="mlu-migrate parity [PROJECT] [options] [-- COMMAND...]",
        description="Run original and migrated program and compare them. "
        "Exit status 0 match, 1 mismatch, 2 not judged. "
        "Without a command the [[tool.mlu-migrate.parity]] entries of PROJECT/pyproject.toml are run.",
        allow_abbrev=False,
    )
    p.add_argument(
        "project", nargs="?", type=Path, default=Path("."), metavar="PROJECT", help="the original (default .)"
    )
    p.add_argument(
        "--candidate-command", metavar="TEXT", help="for the migrated program (default: COMMAND in mlu's words)"
    )
    p.add_argument("--name", metavar="NAME", help="only this entry of pyproject.toml")
    p.add_argument("--migrated", type=Path, metavar="DIR", help="a migrated copy to use instead of a fresh one")
    p.add_argument("--reference", metavar="WHAT", help="emulated-cuda (default), cpu, or a trace made by parity-record")
    p.add_argument("--steps", type=int, metavar="N", help="end each run after N optimizer steps")
    p.add_argument("--seed", type=int, metavar="N", help="seed all generators at the start (default 0)")
    p.add_argument("--level", choices=parity_entries.LEVELS, help="what is recorded (default module)")
    p.add_argument("--keep", type=Path, metavar="DIR", help="keep copies and traces here")
    p.add_argument("--timeout", type=float, metavar="SECONDS", help="limit of each run")
    p.add_argument("--cards", type=int, metavar="N", help="emulated cards (default 8)")
    p.add_argument("--unsafe", action="store_true", default=None, help="also apply edits that rest on a guess")
    p.add_argument("--torch-mlu", choices=("2.1", "2.3", "2.4"), help="release to write for (default 2.4)")
    _options(p)
    return p


def _split(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    words = list(arguments)
    if "--" not in words:
        return words, ()
    cut = words.index("--")
    return words[:cut], tuple(words[cut + 1 :])


def _parity(arguments: Sequence[str], out: Output) -> int:
    ours, command = _split(arguments)
    args = _parser().parse_args(ours)
    parity_entries.check_folder(args.project)
    wanted: tuple[parity_entries.Entry, ...] = (
        (parity_entries.Entry(command),) if command else parity_entries.entries(args.project)
    )
    if args.name is not None:
        found = parity_entries.entries(args.project)
        named = tuple(entry for entry in found if entry.name == args.name)
        if not named:
            others = ", ".join(entry.name for entry in found if entry.name) or "no named ones"
            raise parity_entries.ParityError(
                f"{args.project}/pyproject.toml has no parity entry named {args.name}; it has {others}"
            )
        wanted = tuple(dataclasses.replace(entry, command=command or entry.command) for entry in named)
    names = ("migrated", "reference", "steps", "seed", "profile", "level", "tolerance", "timeout", "cards")
    given: dict[str, object] = {name: getattr(args, name) for name in names}
    if args.candidate_command is not None:
        given["candidate_command"] = parity_entries.words_of(args.candidate_command, "--candidate-command")
    wanted = tuple(parity_entries.overridden(entry, given) for entry in wanted)
    loaded = load(args.project.absolute(), {"unsafe": args.unsafe, "torch_mlu": args.torch_mlu})
    outcome = parity.run(
        args.project,
        wanted,
        loaded.settings,
        loaded.options,
        keep=args.keep,
        reports=args.report,
        output_format=args.format,
        width=out.width,
        talk=out.talk,
    )
    out.result(_coloured(outcome.text) if args.format == "text" and out.colour() else outcome.text)
    return outcome.status


def _compare(arguments: Sequence[str], out: Output) -> int:
    p = _Parser(
        prog="mlu-migrate parity-compare",
        description="Compare two traces made by parity-record. Exit status 0 match, 1 mismatch, 2 not judged.",
        allow_abbrev=False,
    )
    p.add_argument("reference", type=Path, metavar="REFERENCE", help="trace of the original")
    p.add_argument("candidate", type=Path, metavar="CANDIDATE", help="trace of the migrated program")
    p.add_argument("--edits", type=Path, metavar="FILE", help="edit map kept by parity --keep")
    _options(p, ".md .json .xml")
    args = p.parse_args(list(arguments))
    outcome = parity.compare(
        args.reference,
        args.candidate,
        profile=args.profile or "exact",
        tolerance=args.tolerance,
        edits=args.edits,
        reports=args.report,
        output_format=args.format,
        width=out.width,
    )
    out.result(_coloured(outcome.text) if args.format == "text" and out.colour() else outcome.text)
    return outcome.status
