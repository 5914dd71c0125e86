from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import typer

from mlu_migrate import cli, tomlfile
from mlu_migrate.settings import Options, Settings

TOP = Path(__file__).parent.parent
README = (TOP / "README.md").read_text("utf-8")


SHORT = {
    "--output",
    "--write",
    "--quiet",
    "--verbose",
    "--json",
    "--show-completion",
}  # there by short names, or in --help


def flags() -> list[str]:
    group = typer.main.get_command(cli.app)
    commands = [group, *group.commands.values()]  # type: ignore[attr-defined]
    names = {name for command in commands for parameter in command.params for name in parameter.opts}
    return sorted(name for name in names - SHORT if name.startswith("--"))


@pytest.mark.parametrize("flag", flags())
def test_every_flag_is_in_the_readme(flag: str) -> None:
    assert re.search(rf"{flag}(?![\w-])", README), flag


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert re.search(rf"`[^`]*{command}(?![\w-])", README)


def test_every_setting_is_in_the_readme() -> None:
    names = {field.name for kind in (Settings, Options) for field in dataclasses.fields(kind)} - {"kept", "proven"}
    block = README[README.index("[tool.mlu-migrate]\n") :].split("```")[0]
    missing = [name for name in names if not re.search(rf"\b{name.replace('_', '-')}\b", block)]
    assert missing == []


def test_the_settings_shown_can_be_read(tmp_path: Path) -> None:
    from mlu_migrate.settings import load

    block = README[README.index("```toml") + len("```toml") :].split("```")[0]
    assert tomlfile.loads(block)["tool"]["mlu-migrate"]
    (tmp_path / "pyproject.toml").write_text(block)
    assert load(tmp_path).source == tmp_path / "pyproject.toml"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (command,) = set(re.findall(r"pytest [^`\n]+", README))
    assert command in (TOP / ".ci" / "run").read_text().splitlines()


def test_no_address_of_an_index_and_no_path_of_one_machine_is_in_it() -> None:
    assert not re.search(r"index-url|/root/|/home/|/work/", README)
