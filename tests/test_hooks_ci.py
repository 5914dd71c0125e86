"""The CI recipes that are shipped: their own commands, run here on a project that is dirty and one that is clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import mlu_migrate

RECIPES = Path(mlu_migrate.__file__).parent / "templates" / "ci"


def _commands(recipe: str) -> list[str]:
    data = yaml.safe_load((RECIPES / recipe).read_text("utf-8"))
    job = data["jobs"]["mlu-migrate"] if "jobs" in data else data["mlu-migrate"]
    lines = [step["run"] for step in job["steps"] if "run" in step] if "steps" in job else job["script"]
    return [line for line in lines if not line.startswith("pip install")]


def _run(recipe: str, folder: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    shim = tmp_path / "bin" / "mlu-migrate"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mlu_migrate "$@"\n')
    shim.chmod(0o755)
    environment = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "CI": "true"}
    script = "set -e\n" + "\n".join(_commands(recipe))
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("recipe", ["github.yml", "gitlab.yml"])
@pytest.mark.parametrize("dirty", [True, False])
def test_a_recipe_fails_on_dirty_code_only_and_leaves_its_reports(recipe: str, dirty: bool, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("import torch\n\nx = torch.zeros(1).cuda()\n" if dirty else "x = 1\n")
    result = _run(recipe, folder, tmp_path)
    assert result.returncode == (1 if dirty else 0), result.stderr
    assert "<!doctype html>" in (folder / "mlu-migrate.html").read_text("utf-8")
    if recipe == "gitlab.yml":
        assert bool(json.loads((folder / "gl-code-quality-report.json").read_text("utf-8"))) == dirty
    else:
        assert json.loads((folder / "mlu-migrate.sarif").read_text("utf-8"))["version"] == "2.1.0"
        assert result.stdout.startswith("::") == dirty
