"""Nothing is said in English only: every text of the catalogue has its Chinese."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlu_migrate import messages, tomlfile

FOLDER = Path(messages.__file__).parent
NAMES = sorted(path.name for path in (FOLDER / "en").glob("*.toml"))
CHINESE = re.compile("[\u4e00-\u9fff]")


def _texts(name: str, lang: str) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for key, entry in tomlfile.read(FOLDER / lang / name).items():
        for part, text in entry.items() if isinstance(entry, dict) else [("", entry)]:
            found[key, part] = text
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_english_text_has_a_chinese_one(name: str) -> None:
    english, chinese = _texts(name, "en"), _texts(name, "zh")
    assert set(english) == set(chinese)
    for key, text in english.items():
        assert bool(text) == bool(chinese[key]), key
        words = re.sub(r"{\w+}|`[^`]*`", "", text)
        if re.search(r"[A-Za-z]{2}", words):
            assert CHINESE.search(chinese[key]), key


def test_no_chinese_file_is_left_over() -> None:
    assert {path.name for path in (FOLDER / "zh").glob("*.toml")} == set(NAMES)
