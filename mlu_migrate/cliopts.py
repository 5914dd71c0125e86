"""
Options that several commands share, written once.

``shared`` gives a typer command the options of :class:`Shared` in addition to its own; the command receives them as
one object.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from mlu_migrate.settings import CONFIG_MODES, FORMATS, LANGUAGES, RELEASES, SEVERITIES, Loaded, load

F = TypeVar("F", bound=Callable[..., Any])
_Texts = list[str] | None
_Flag = bool | None


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, show_default=False, **more)


@dataclass(frozen=True, slots=True)
class Shared:
    """What was given on the command line; None where nothing was, so that a settings file can decide."""

    select: Annotated[
        _Texts, _option("--select", metavar="CODES", help="Only these rules: MLU201, or MLU2 for all of them.")
    ] = None
    ignore: Annotated[_Texts, _option("--ignore", metavar="CODES", help="Not these rules.")] = None
    extend_select: Annotated[_Texts, _option("--extend-select", metavar="CODES", help="These rules as well.")] = None
    unsafe: Annotated[_Flag, _option("--unsafe", help="Also apply edits that rest on a guess.")] = None
    torch_mlu: Annotated[
        str | None,
        _option("--torch-mlu", metavar="|".join(RELEASES), help="Torch release of the torch_mlu to write for (2.4)."),
    ] = None
    guarded_import: Annotated[
        _Flag, _option("--guarded-import", help="Write the import of torch_mlu so that it survives without torch_mlu.")
    ] = None
    exclude: Annotated[
        _Texts, _option("--exclude", metavar="GLOB", help="Leave these out, instead of the default excludes.")
    ] = None
    extend_exclude: Annotated[_Texts, _option("--extend-exclude", metavar="GLOB", help="Leave these out as well.")] = (
        None
    )
    no_gitignore: Annotated[bool, _option("--no-gitignore", help="Do not heed .gitignore files.")] = False
    since: Annotated[
        str | None, _option("--since", metavar="REV", help="Only files changed since this git revision.")
    ] = None
    configs: Annotated[
        str | None,
        _option("--configs", metavar="|".join(CONFIG_MODES), help="Scripts and configs: off, report, or write edits."),
    ] = None
    audit: Annotated[
        _Flag, _option("--audit", help="List every CUDA-like word that stays: comments, strings, names.")
    ] = None
    evidence: Annotated[
        Path | None,
        _option("--evidence", metavar="FILE", help="A parity report whose seen device strings make edits safe."),
    ] = None
    baseline: Annotated[
        Path | None, _option("--baseline", metavar="FILE", help="Leave out findings that this file holds.")
    ] = None
    add_ignore: Annotated[
        bool, _option("--add-ignore", help="Write a keep comment on each line with a finding; migrate nothing.")
    ] = False
    force: Annotated[
        bool, _option("--force", help="Write over an output that is there; hand-edited files of a copy are kept.")
    ] = False
    write_baseline: Annotated[bool, _option("--write-baseline", help="Write all findings to the baseline file.")] = (
        False
    )
    format: Annotated[str | None, _option("--format", metavar="|".join(FORMATS), help="How findings are printed.")] = (
        None
    )
    report: Annotated[
        list[Path] | None,
        _option("--report", metavar="FILE", help="Write a report: .md .json .html .sarif .csv. Repeatable."),
    ] = None
    support: Annotated[
        Path | None,
        _option("--support", metavar="FILE", help="JSON of run --support-json: its table goes into .html reports."),
    ] = None
    statistics: Annotated[bool, _option("--statistics", help="Print how often each rule found something.")] = False
    fail_level: Annotated[
        str | None,
        _option("--fail-level", metavar="|".join(SEVERITIES), help="Severity from which findings give exit status 1."),
    ] = None
    strict: Annotated[_Flag, _option("--strict", help="Exit 1 when a finding at the fail level is left.")] = None
    jobs: Annotated[int | None, _option("--jobs", "-j", metavar="N", help="Processes to use (one a processor).")] = None
    no_cache: Annotated[bool, _option("--no-cache", help="Neither read nor write the cache.")] = False
    config: Annotated[
        Path | None, _option("--config", metavar="FILE", help="Settings file instead of pyproject.toml.")
    ] = None
    isolated: Annotated[bool, _option("--isolated", help="Read no settings file.")] = False
    lang: Annotated[str | None, _option("--lang", metavar="|".join(LANGUAGES), help="Language of messages.")] = None
    quiet: Annotated[bool, _option("--quiet", "-q", help="Print errors only.")] = False
    verbose: Annotated[bool, _option("--verbose", "-v", help="Say more on stderr.")] = False

    def load(self, start: Path) -> Loaded:
        """Settings of a run that starts at a path. Raises SettingsError."""
        lists = ("select", "ignore", "extend_select", "exclude", "extend_exclude")
        same = (
            "unsafe",
            "torch_mlu",
            "guarded_import",
            "configs",
            "audit",
            "format",
            "fail_level",
            "strict",
            "jobs",
            "lang",
        )
        flags: dict[str, Any] = {name: getattr(self, name) for name in same}
        flags |= {name: _split(getattr(self, name)) for name in lists}
        flags |= {name: _text(getattr(self, name)) for name in ("baseline", "evidence")}
        flags["gitignore"] = False if self.no_gitignore else None
        flags["cache"] = False if self.no_cache else None
        return load(start, flags, config=self.config, isolated=self.isolated)


def shared(command: F) -> F:
    """Give a function with a ``shared: Shared`` parameter the options of that class as keyword parameters."""
    own = inspect.signature(command, eval_str=True).parameters  # get_type_hints of 3.10 hides Annotated in an Optional
    fields = dataclasses.fields(Shared)
    kinds = get_type_hints(Shared, include_extras=True)

    def run(**values: Any) -> Any:
        values["shared"] = Shared(**{field.name: values.pop(field.name) for field in fields})
        return command(**values)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in own.items() if name != "shared"
    ]
    for field in fields:
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=kinds[field.name]
            )
        )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    return run  # type: ignore[return-value]


def _split(values: list[str] | None) -> tuple[str, ...] | None:
    """``-x a,b -x c`` as three values; commas inside braces of a glob are part of it."""
    if values is None:
        return None
    found: list[str] = []
    for value in values:
        depth, start = 0, 0
        for index, character in enumerate(value):
            depth += (character == "{") - (character == "}")
            if character == "," and depth <= 0:
                found.append(value[start:index])
                start = index + 1
        found.append(value[start:])
    return tuple(item.strip() for item in found if item.strip())


def _text(value: Path | None) -> str | None:
    return None if value is None else str(value)
