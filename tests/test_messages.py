from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from mlu_migrate import messages, tomlfile
from mlu_migrate.model import Confidence, Finding, Safety, Severity

FOLDER = Path(messages.__file__).parent


def finding(code: str, message_id: str, **args: str) -> Finding:
    return Finding(
        code=code,
        name="some-rule",
        severity=Severity.INFO,
        safety=Safety.MANUAL,
        confidence=Confidence.HIGH,
        path="a.py",
        line=1,
        column=1,
        end_line=1,
        end_column=1,
        message_id=message_id,
        args=args,
    )


def entries() -> list[tuple[str, str, str]]:
    return [
        (path.stem, message_id, lang)
        for lang in messages.LANGUAGES
        for path in sorted((FOLDER / lang).glob("MLU*.toml"))
        for message_id in tomlfile.read(path)
    ]


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def test_a_message_is_filled_with_the_arguments_of_its_finding() -> None:
    message, hint = messages.render(finding("MLU003", "codes", comment="# mlu: keep[MLU9]", codes="MLU9"))
    assert "# mlu: keep[MLU9]" in message
    assert "MLU9" in hint


def test_arguments_with_braces_do_not_break_a_message() -> None:
    message, _ = messages.render(finding("MLU003", "comment", comment="{x!r} {"))
    assert "{x!r} {" in message


def test_a_language_that_lacks_a_message_falls_back_to_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "MLU998.toml").write_text('[a]\nmessage = "English {x}"\n')
    monkeypatch.setattr(messages, "_FOLDER", tmp_path)
    messages.catalogue.cache_clear()
    try:
        assert messages.render(finding("MLU998", "a", x="text"), "zh") == ("English text", "")
        assert messages.render(finding("MLU998", "a"), "zh") == ("English {x}", ""), (
            "a missing field shows the template"
        )
        assert messages.render(finding("MLU997", "b"), "zh") == ("some-rule: b", "")
    finally:
        messages.catalogue.cache_clear()


def test_a_word_of_the_interface_that_does_not_exist_is_a_fault() -> None:
    with pytest.raises(KeyError):
        messages.text("no.such.key")


def test_counted_words_have_a_plural_ending() -> None:
    one = messages.text("check.totals", files=1, error=1, warning=0, info=2)
    assert one == "1 file: 1 error, 0 warnings, 2 notes."


@pytest.mark.parametrize(("code", "message_id", "lang"), entries())
def test_every_entry_has_a_message_with_plain_fields(code: str, message_id: str, lang: str) -> None:
    entry = tomlfile.read(FOLDER / lang / f"{code}.toml")[message_id]
    assert set(entry) <= {"message", "hint"}
    for template in entry.values():
        assert isinstance(template, str)
        assert all(re.fullmatch(r"[a-z_]\w*", name) for name in fields(template)), template


@pytest.mark.parametrize("name", sorted(path.name for path in (FOLDER / "zh").glob("*.toml")))
def test_chinese_entries_have_an_english_twin_with_the_same_fields(name: str) -> None:
    english, chinese = tomlfile.read(FOLDER / "en" / name), tomlfile.read(FOLDER / "zh" / name)
    for key, entry in chinese.items():
        assert key in english, key
        texts = entry.items() if isinstance(entry, dict) else [("", entry)]
        for part, template in texts:
            twin = english[key][part] if part else english[key]
            plural = {field for field in fields(twin) if field.endswith("_s")}
            own = {field.removesuffix("_zh") for field in fields(template)}  # a rule may give a field in both languages
            assert own == fields(twin) - plural, key


def test_the_interface_is_complete_in_chinese() -> None:
    assert set(tomlfile.read(FOLDER / "zh" / "ui.toml")) == set(tomlfile.read(FOLDER / "en" / "ui.toml"))
