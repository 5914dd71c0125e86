"""The recipes for CI in the templates: the line that compares is the one of both, and does what they make of it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import mlu_migrate
from parity.conftest import environment
from parity.test_session import ORIGINAL

RECIPES = Path(mlu_migrate.__file__).with_name("templates") / "ci"
LINE = re.compile(r"^\W*(?:run: )?(mlu-migrate parity .*)$", re.MULTILINE)


def command(name: str) -> list[str]:
    (found,) = LINE.findall((RECIPES / name).read_text(encoding="utf-8"))
    return shlex.split(found)


@pytest.mark.parametrize("name", ["github-parity.yml", "gitlab-parity.yml"])
def test_what_a_recipe_keeps_is_what_its_command_writes(name: str) -> None:
    text = (RECIPES / name).read_text(encoding="utf-8")
    words = command(name)
    written = {words[i + 1] for i, word in enumerate(words) if word == "--report"}
    assert written == {"parity.md", "parity.xml", "parity.json"}
    kept = set(re.findall(r"parity\.(?:md|xml|json|\*)", text.replace(" ".join(words), "")))
    assert kept <= {*written, "parity.*"} and kept


def test_the_command_of_the_recipes_compares_the_entries_of_pyproject(tmp_path: Path) -> None:
    words = command("github-parity.yml")
    assert words == command("gitlab-parity.yml")
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(ORIGINAL, encoding="utf-8")
    (project / "pyproject.toml").write_text(
        '[[tool.mlu-migrate.parity]]\nname = "train"\ncommand = "python train.py"\n', encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mlu_migrate", *words[1:]],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (case,) = ET.parse(project / "parity.xml").getroot().iter("testcase")
    assert "train" in str(case.get("name")) and case.find("failure") is None
    assert "match" in (project / "parity.md").read_text(encoding="utf-8")
