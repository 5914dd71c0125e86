from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlu_migrate import settings
from mlu_migrate.settings import Settings, SettingsError, load


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert (loaded.settings, loaded.options, loaded.source) == (Settings(), settings.Options(), None)


def test_the_nearest_file_with_our_table_decides(tmp_path: Path) -> None:
    top = write(tmp_path, "[tool.mlu-migrate]\nunsafe = true\n")
    write(tmp_path / "a", "[project]\nname = 'x'\n")
    assert load(tmp_path / "a" / "b").source == top
    inner = write(tmp_path / "a" / "b", "[tool.mlu-migrate]\njobs = 3\n")
    loaded = load(tmp_path / "a" / "b")
    assert (loaded.source, loaded.settings.unsafe, loaded.options.jobs) == (inner, False, 3)


def test_a_file_beyond_the_root_of_the_checkout_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "[tool.mlu-migrate]\nunsafe = true\n")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    assert load(tmp_path / "repo").source is None


def test_a_flag_beats_the_file_and_extend_adds_to_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[tool.mlu-migrate]\ntorch-mlu = "2.1"\nextend-exclude = ["a"]\nextend-select = ["MLU2"]\nselect = ["MLU1"]\n',
    )
    loaded = load(
        tmp_path, {"torch_mlu": "2.3", "extend_exclude": ("b",), "extend_select": ("mlu301",), "unsafe": None}
    )
    assert loaded.settings.torch_mlu == "2.3"
    assert loaded.options.extend_exclude == ("a", "b")
    assert loaded.settings.extend_select == ("MLU2", "MLU301")
    assert load(tmp_path).settings.select == ("MLU1",)


def test_a_rule_selected_by_flag_runs_though_the_file_ignores_it(tmp_path: Path) -> None:
    write(tmp_path, '[tool.mlu-migrate]\nignore = ["MLU2"]\n')
    assert load(tmp_path, {"select": ("MLU2",)}).settings.wants("MLU201")
    assert not load(tmp_path, {}).settings.wants("MLU201")


@pytest.mark.parametrize(
    ("chosen", "wanted", "unwanted"),
    [
        (Settings(), ["MLU201", "MLU901"], []),
        (Settings(select=("MLU2",)), ["MLU201"], ["MLU301"]),
        (Settings(select=("MLU2",), extend_select=("MLU301",)), ["MLU201", "MLU301"], ["MLU302"]),
        (Settings(ignore=("MLU2",)), ["MLU301"], ["MLU201"]),
        (Settings(ignore=("MLU2",), extend_select=("MLU203",)), ["MLU203", "MLU301"], ["MLU201"]),
        (Settings(select=("MLU",), ignore=("MLU9",)), ["MLU201"], ["MLU901"]),
    ],
)
def test_codes_are_prefixes_and_a_full_code_beats_an_ignored_prefix(
    chosen: Settings, wanted: list[str], unwanted: list[str]
) -> None:
    assert all(chosen.wants(code) for code in wanted)
    assert not any(chosen.wants(code) for code in unwanted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.mlu-migrate", "not valid TOML"),
        ("[tool]\nmlu-migrate = 3\n", "must be a table"),
        ("[tool.mlu-migrate]\nexclud = []\n", "did you mean exclude"),
        ("[tool.mlu-migrate]\ntorch_mlu = '2.4'\n", "did you mean torch-mlu"),
        ("[tool.mlu-migrate]\nselect = 'MLU2'\n", "list of strings"),
        ("[tool.mlu-migrate]\nselect = ['F401']\n", "F401"),
        ("[tool.mlu-migrate]\nexclude = [1]\n", "list of strings"),
        ("[tool.mlu-migrate]\nunsafe = 1\n", "true or false"),
        ("[tool.mlu-migrate]\ntorch-mlu = '3'\n", "2.1, 2.3, 2.4"),
        ("[tool.mlu-migrate]\nconfigs = 'maybe'\n", "off, report, write"),
        ("[tool.mlu-migrate]\njobs = -1\n", "jobs"),
        ("[tool.mlu-migrate]\njobs = true\n", "jobs"),
        ("[tool.mlu-migrate]\nfile-timeout = 0\n", "file-timeout"),
        ("[tool.mlu-migrate]\nbaseline = 3\n", "path"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line_that_names_the_file(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert words in message
    assert "\n" not in message


def test_a_file_that_is_no_utf8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"x = '\xff'\n")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load(tmp_path)


def test_a_named_file_is_used_alone_and_may_have_the_keys_at_top_level(tmp_path: Path) -> None:
    write(tmp_path, "[tool.mlu-migrate]\nunsafe = true\n")
    other = write(tmp_path, "audit = true\n", "mlu.toml")
    loaded = load(tmp_path, config=other)
    assert (loaded.settings.audit, loaded.settings.unsafe) == (True, False)
    with pytest.raises(SettingsError, match="no such file"):
        load(tmp_path, config=tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load(tmp_path, config=write(tmp_path, "[", "broken.toml"))


def test_isolated_reads_no_file_not_even_a_broken_one(tmp_path: Path) -> None:
    write(tmp_path, "[")
    assert load(tmp_path, isolated=True).settings == Settings()


def test_paths_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path, "[tool.mlu-migrate]\nbaseline = 'ci/b.json'\n")
    (tmp_path / "sub").mkdir()
    assert load(tmp_path / "sub").options.baseline == str(tmp_path / "ci" / "b.json")


def test_the_table_of_the_parity_command_is_left_to_it(tmp_path: Path) -> None:
    write(tmp_path, "[tool.mlu-migrate]\nunsafe = true\n[[tool.mlu-migrate.parity]]\nname = 'x'\n")
    assert load(tmp_path).settings.unsafe


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_follows_the_environment(environment: dict[str, str], language: str) -> None:
    assert settings.locale_language(environment) == language


def test_the_project_root_is_the_nearest_pyproject_or_git_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = write(tmp_path / "a", "").parent
    (inner / "b").mkdir()
    assert settings.project_root(inner / "b") == inner
    assert settings.project_root(tmp_path / "x.py") == tmp_path


def test_every_key_can_be_set(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "select": ["MLU2"],
        "ignore": ["MLU201"],
        "extend-select": ["MLU3"],
        "unsafe": True,
        "torch-mlu": "2.1",
        "guarded-import": True,
        "audit": True,
        "configs": "off",
        "lang": "zh",
        "exclude": ["x"],
        "extend-exclude": ["y"],
        "gitignore": False,
        "jobs": 2,
        "cache": False,
        "file-timeout": 9.5,
        "baseline": "b.json",
        "evidence": "e.json",
        "fail-level": "info",
        "strict": True,
        "format": "json",
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    write(tmp_path, "[tool.mlu-migrate]\n" + "\n".join(lines) + "\n")
    loaded = load(tmp_path)
    for key, value in values.items():
        name = key.replace("-", "_")
        holder = loaded.settings if hasattr(loaded.settings, name) else loaded.options
        got = getattr(holder, name)
        if key in ("baseline", "evidence"):
            assert got == str(tmp_path / value)
        else:
            assert got == (tuple(value) if isinstance(value, list) else value), key
