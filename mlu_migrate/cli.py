"""The commands. Each parses, calls one library function, shows the outcome and returns an exit status (design 2.1)."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mlu_migrate import __version__
from mlu_migrate.cliopts import Shared, shared
from mlu_migrate.commands import COMMANDS
from mlu_migrate.model import ExitStatus
from mlu_migrate.output import PROGRAM, Interrupted, Output, interruptible, use_safe_streams

_APP_FLAGS = ("--help", "-h", "--version", "--install-completion", "--show-completion")
_RUN_FLAGS = {"--cards": 1, "--profile": 1, "--support": 0, "--support-json": 1}
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}

app = typer.Typer(
    name=PROGRAM,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    help="Move PyTorch code from NVIDIA GPUs to Cambricon MLU cards.\n\n"
    "mlu-migrate PATH... writes a migrated copy beside PATH, with a report in it. See mlu-migrate migrate --help "
    "for its options. A first word that is no command is a path (./check for a folder called check).",
)

Paths = Annotated[list[str], typer.Argument(metavar="PATH", help="Folders and files.", show_default=False)]


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Never shows a traceback unless asked with -v."""
    use_safe_streams()
    out = Output()
    try:
        interruptible()
        returned = app(args=_routed(list(arguments)), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        return int(returned or 0)
    except (Interrupted, KeyboardInterrupt):
        out.error("interrupted")
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.OK
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else ExitStatus.FAILURE
    except Exception as error:
        show = getattr(error, "format_message", None)  # typer's own errors, whichever click they come from
        if show is None and type(error).__name__ == "Abort":
            out.error("interrupted")
        elif show is None:
            if {"-v", "--verbose"} & set(arguments):
                raise
            out.error(f"internal error: {type(error).__name__}: {error} (-v shows where)")
        elif type(error).__name__ == "NoArgsIsHelpError":
            out.result(f"{show()}\n")
        else:
            out.error(_with_hint(show(), error))
    return ExitStatus.FAILURE


def _with_hint(message: str, error: Exception) -> str:
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", PROGRAM) if context else PROGRAM
    return f"{message.rstrip('.')} ({command} --help lists what there is)"


def _routed(arguments: list[str]) -> list[str]:
    """Put in the command that a first path stands for, and shield what belongs to a program that is run."""
    first = arguments[0] if arguments else ""
    if not arguments or first in _APP_FLAGS or any(name.endswith("_COMPLETE") for name in os.environ):
        return arguments
    if first in COMMANDS:
        if first.startswith("parity"):  # has a command line of its own, in which -- means something
            return [first, "--", *arguments[1:]]
        return ["run", *_shielded(arguments[1:])] if first == "run" else arguments
    if first == "migrate" and not Path("migrate").exists():
        return arguments
    return ["migrate", *arguments]


def _shielded(arguments: list[str]) -> list[str]:
    """
    ``--`` before the program, so that nothing after it is taken for an option of ours, and a ``--`` of the user's
    is kept.
    """
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word in ("-h", "--help"):
            return arguments
        name, equals, _ = word.partition("=")
        if name not in _RUN_FLAGS:
            break
        index += 1 if equals else 1 + _RUN_FLAGS[name]
    return [*arguments[:index], "--", *arguments[index:]]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", show_default=False)] = False,
) -> None:
    if version:
        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit(0)


@app.command("migrate", short_help="Migrate PATHs: what a bare PATH means.")
@shared
def migrate(
    paths: Paths,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where the copy goes.", show_default=False)
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", "-w", help="Change the files in place.", show_default=False)
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print a unified diff; write nothing.", show_default=False)
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 1 if anything would change or is left.", show_default=False),
    ] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge new changes into hand-edited files of the copy.", show_default=False)
    ] = False,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="With -w: even where git could not undo it.", show_default=False)
    ] = False,
    stdin_filename: Annotated[
        Path, typer.Option("--stdin-filename", metavar="FILE", help="Name of the file read from -.", show_default=False)
    ] = Path("stdin.py"),
    *,
    shared: Shared,
) -> int:
    """
    Migrate PATHs: a copy beside each (or at -o), in place (-w), or only shown (--diff, --check). This is what a
    bare PATH means.
    """
    if shared.add_ignore:
        from mlu_migrate.commands import checking

        return checking.check(paths, shared, Output(shared.quiet, shared.verbose))
    from mlu_migrate.commands import migrating

    how = migrating.How(output, write, diff, check, shared.force, merge, allow_dirty, stdin_filename)
    return migrating.migrate(paths, how, shared, Output(shared.quiet, shared.verbose))


@app.command()
@shared
def check(
    paths: Paths,
    *,
    shared: Shared,
) -> int:
    """Show findings, like a linter; change nothing."""
    from mlu_migrate.commands import checking

    return checking.check(paths, shared, Output(shared.quiet, shared.verbose))


@app.command(short_help="Accept or reject the changes one by one.")
@shared
def review(paths: Paths, *, shared: Shared) -> int:
    """Go through the changes one by one, and write those that were accepted."""
    from mlu_migrate.commands import reviewing

    return reviewing.review(paths, shared, Output(shared.quiet, shared.verbose))


@app.command()
def rules() -> int:
    """List all rules."""
    from mlu_migrate import explain

    Output().result(explain.catalogue())
    return ExitStatus.OK


@app.command()
def rule(
    code: Annotated[str, typer.Argument(metavar="CODE", help="For instance MLU201.", show_default=False)],
) -> int:
    """Show the page of a rule."""
    from mlu_migrate import explain

    out = Output()
    page = explain.page(code)
    if page is None:
        close = difflib.get_close_matches(code.upper(), explain.codes(), n=3)
        out.error(f"there is no rule {code}" + (f"; near it are {', '.join(close)}" if close else ""))
        return ExitStatus.FAILURE
    out.result(page)
    return ExitStatus.OK


@app.command(short_help="Tell what was decided for a line, and why.")
@shared
def why(
    place: Annotated[str, typer.Argument(metavar="FILE:LINE", help="Where to look.", show_default=False)],
    *,
    shared: Shared,
) -> int:
    """Tell what was decided for a line and why, also when nothing was changed."""
    from mlu_migrate.commands import asking

    return asking.why(place, shared, Output(shared.quiet, shared.verbose))


@app.command(
    short_help="Run a program on the emulated device.",
    context_settings=_PASS_ON,
    options_metavar="[OPTIONS] SCRIPT...|-m MODULE...|-- COMMAND...",
)
def run(
    context: typer.Context,
    cards: Annotated[
        int | None, typer.Option("--cards", metavar="N", help="Cards to pretend.", show_default=False)
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="exact|mlu370|mlu590", help="Which card.", show_default=False)
    ] = None,
    support: Annotated[
        bool, typer.Option("--support", help="Add the operator support table.", show_default=False)
    ] = False,
    support_json: Annotated[
        Path | None, typer.Option("--support-json", metavar="FILE", help="Also write it as JSON.", show_default=False)
    ] = None,
) -> int:
    """
    Run SCRIPT..., -m MODULE... or -- COMMAND... on the emulated device. import torch_mlu works in it and in its
    children.
    """
    from mlu_migrate.commands import backend

    return backend.run(context.args, cards, profile, str(support_json) if support_json else support, Output())


@app.command(short_help="Compare original and migrated program.", context_settings=_PASS_ON, add_help_option=False)
def parity(context: typer.Context) -> int:
    """PROJECT [options] -- COMMAND...: run original and migrated program and compare them."""
    return _parity("parity", context.args)


@app.command(
    "parity-record",
    short_help="Record a program for a comparison later.",
    context_settings=_PASS_ON,
    add_help_option=False,
)
def parity_record(context: typer.Context) -> int:
    """Record a program, here or on a real GPU or card, for a comparison later."""
    return _parity("parity-record", context.args)


@app.command("parity-compare", context_settings=_PASS_ON, add_help_option=False)
def parity_compare(context: typer.Context) -> int:
    """Compare two records."""
    return _parity("parity-compare", context.args)


def _parity(command: str, arguments: list[str]) -> int:
    from mlu_migrate import parity_args

    return parity_args.main(command, arguments, Output())


@app.command(short_help="Show what is installed.")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.", show_default=False)] = False,
) -> int:
    """Show torch, the compiler, the emulated device and whether a real torch_mlu is here."""
    from mlu_migrate.commands import backend

    return backend.doctor(as_json, Output())
