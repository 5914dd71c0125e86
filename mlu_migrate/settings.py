"""
Settings of a run: defaults, ``[tool.mlu-migrate]`` of the nearest pyproject.toml, then flags. A flag beats the file.

``Settings`` is what rules and engine read, and all that a file's result may depend on besides its bytes, its path
and the project facts: the cache key is made of it. ``Options`` is the rest: which files, how fast, how shown.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlu_migrate import tomlfile

RELEASES = ("2.1", "2.3", "2.4")
CONFIG_MODES = ("off", "report", "write")
SEVERITIES = ("info", "warning", "error")
FORMATS = ("full", "concise", "json", "jsonl", "github", "gitlab", "sarif", "junit")
LANGUAGES = ("en", "zh")
TABLE = "tool.mlu-migrate"


class SettingsError(ValueError):
    """Settings that cannot be used. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was asked to do. Rules and engine read this; nobody changes it."""

    select: tuple[str, ...] = ()  # code prefixes; empty means all
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    unsafe: bool = False
    torch_mlu: str = "2.4"  # 2.1 | 2.3 | 2.4
    guarded_import: bool = False
    audit: bool = False
    configs: str = "report"  # off | report | write
    lang: str = "en"
    kept: tuple[tuple[str, int, int], ...] = ()  # (code, line, column) of findings of this file that a baseline holds
    proven: tuple[tuple[str, int, int], ...] = ()  # (path from the project root, line, column) seen reaching a device

    def wants(self, code: str) -> bool:
        """Whether findings with this code are asked for."""
        named = code in self.select or code in self.extend_select
        if any(code.startswith(p) for p in self.ignore) and not named:
            return False
        return not self.select or any(code.startswith(p) for p in self.select + self.extend_select)

    @property
    def wants_all(self) -> bool:
        """Whether nothing is left out."""
        return not self.ignore and (not self.select or "MLU" in self.select)


@dataclass(frozen=True, slots=True)
class Options:
    """What surrounds the engine: which files are read, how the work is spread, how results are shown."""

    exclude: tuple[str, ...] | None = None  # None means the default excludes of walk.py
    extend_exclude: tuple[str, ...] = ()
    gitignore: bool = True
    jobs: int = 0  # 0 means one a processor
    cache: bool = True
    file_timeout: float = 60.0  # seconds a file, more for large ones
    baseline: str | None = None
    evidence: str | None = None
    fail_level: str = "error"
    strict: bool = False
    format: str = ""  # empty: what the command prints by itself


@dataclass(frozen=True, slots=True)
class Loaded:
    """The outcome of reading settings. ``source`` is the file they came from, if any."""

    settings: Settings
    options: Options
    source: Path | None = None


_CHOICES: dict[str, tuple[str, ...]] = {
    "torch_mlu": RELEASES,
    "configs": CONFIG_MODES,
    "lang": LANGUAGES,
    "fail_level": SEVERITIES,
    "format": FORMATS,
}
_LISTS = ("select", "ignore", "extend_select", "exclude", "extend_exclude")
_FLAGS = ("unsafe", "guarded_import", "audit", "gitignore", "cache", "strict")
_PATHS = ("baseline", "evidence")
_KEYS = (*_CHOICES, *_LISTS, *_FLAGS, *_PATHS, "jobs", "file_timeout")
_OTHER_TABLES = ("parity",)  # read by the command of that name
_CODE = re.compile(r"MLU\d{0,3}\Z")


def find_config(start: Path) -> Path | None:
    """
    The nearest pyproject.toml at or above ``start`` that has our table, not looking beyond the root of the git
    checkout.

    Raises SettingsError for one on the way that is not TOML.
    """
    folder = start if start.is_dir() else start.parent
    for place in (folder, *folder.parents):
        candidate = place / "pyproject.toml"
        if candidate.is_file() and _table(candidate) is not None:
            return candidate
        if (place / ".git").exists():
            return None
    return None


def project_root(start: Path) -> Path:
    """The nearest folder at or above ``start`` with a pyproject.toml or a .git, else the folder of ``start`` itself."""
    folder = start if start.is_dir() else start.parent
    return next((place for place in (folder, *folder.parents) if is_project(place)), folder)


def is_project(folder: Path) -> bool:
    """Whether a project begins here: a pyproject.toml or a .git."""
    return (folder / "pyproject.toml").is_file() or (folder / ".git").exists()


def load(
    start: Path, flags: Mapping[str, Any] | None = None, *, config: Path | None = None, isolated: bool = False
) -> Loaded:
    """
    Settings for a run that starts at ``start``.

    ``flags`` holds values of the command line by field name; None means not given. ``config`` names a file to use
    in place of the nearest pyproject.toml: that file may have the keys at top level. ``isolated`` reads no file.
    Raises SettingsError.
    """
    values: dict[str, Any] = {}
    source = None
    if config is not None:
        if not config.is_file():
            raise SettingsError(f"{config}: no such file")
        source, values = config, _read(config, top_level=config.name != "pyproject.toml")
    elif not isolated:
        source = find_config(start)
        if source is not None:
            values = _read(source, top_level=False)
            _refuse_outside(values, source)
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    for key in ("extend_select", "extend_exclude"):
        if key in given:
            given[key] = (*values.get(key, ()), *given[key])
    if "select" in given and "ignore" not in given:
        values.pop("ignore", None)  # asking for a rule by flag beats a file that ignores it
    values.update(given)
    values.setdefault("lang", locale_language())
    _check_values(values, "command line")
    return Loaded(_pick(Settings, values), _pick(Options, values), source)


def locale_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of messages that the environment asks for, else English."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if environment.get(name):
            return "zh" if environment[name].lower().startswith("zh") else "en"
    return "en"


def _pick(kind: Any, values: Mapping[str, Any]) -> Any:
    return kind(**{f.name: values[f.name] for f in dataclasses.fields(kind) if f.name in values})


def _table(path: Path) -> dict[str, Any] | None:
    try:
        data = tomlfile.read(path)
    except tomlfile.TomlError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    table = data.get("tool", {})
    table = table.get("mlu-migrate") if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{path}: [{TABLE}] must be a table")
    return table


def _read(path: Path, *, top_level: bool) -> dict[str, Any]:
    table = _table(path)
    if table is None:
        if not top_level:
            return {}
        table = tomlfile.read(path)
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in _OTHER_TABLES:
            continue
        if name not in _KEYS or "_" in key:
            close = difflib.get_close_matches(key, [k.replace("_", "-") for k in _KEYS], n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise SettingsError(f"{path}: [{TABLE}] has no setting {key}{hint}")
        values[name] = value
    _check_values(values, str(path))
    for key in _PATHS:
        if key in values:
            values[key] = str(path.parent / values[key])
    return values


def _refuse_outside(values: Mapping[str, Any], path: Path) -> None:
    """
    A project may say where its baseline is, and --write-baseline writes there: only inside its checkout, or its
    folder where it is none.
    """
    if "baseline" not in values:
        return
    folder = path.parent
    root = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)
    try:
        inside = Path(values["baseline"]).resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside:
        raise SettingsError(f"{path}: baseline leads out of the project; name such a file with --baseline")


def _check_values(values: dict[str, Any], where: str) -> None:
    for name, value in values.items():
        shown = name.replace("_", "-")
        if name in _LISTS:
            if value is None:
                continue
            if isinstance(value, str) or not all(isinstance(item, str) for item in _as_tuple(value, where, shown)):
                raise SettingsError(f"{where}: {shown} must be a list of strings")
            values[name] = tuple(value)
            if "select" in name or name == "ignore":
                values[name] = tuple(_code(item, where, shown) for item in value)
        elif name in _FLAGS and not isinstance(value, bool):
            raise SettingsError(f"{where}: {shown} must be true or false")
        elif name in _CHOICES and value not in _CHOICES[name]:
            raise SettingsError(f"{where}: {shown} must be one of {', '.join(_CHOICES[name])}, not {value}")
        elif name in _PATHS and not isinstance(value, str):
            raise SettingsError(f"{where}: {shown} must be a path")
        elif name == "jobs" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise SettingsError(f"{where}: jobs must be a whole number, 0 for one a processor")
        elif name == "file_timeout" and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
            raise SettingsError(f"{where}: file-timeout must be a number of seconds above 0")


def _as_tuple(value: Any, where: str, shown: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise SettingsError(f"{where}: {shown} must be a list of strings")
    return tuple(value)


def _code(item: str, where: str, shown: str) -> str:
    code = item.strip().upper()
    code = "MLU" if code == "ALL" else code
    if not _CODE.match(code):
        raise SettingsError(
            f"{where}: {shown}: {item} is no rule code; codes look like MLU201, or MLU2 for all of them"
        )
    return code
