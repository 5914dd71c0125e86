from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from mlu_migrate.commands import backend
from mlu_migrate.output import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_appears_on_a_long_run_and_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    out = Output(begun=-1000.0)
    out.progress(50, 100)
    assert "[############............] 50/100 files" in screen.getvalue()
    out.progress(100, 100)
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_short_run_a_quiet_one_and_a_file_show_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    for out, screen in (
        (Output(), Terminal()),
        (Output(True, begun=-9.0), Terminal()),
        (Output(begun=-9.0), io.StringIO()),
    ):
        monkeypatch.setattr(sys, "stderr", screen)
        out.progress(50, 100)
        assert screen.getvalue() == ""


def test_talk_is_silent_when_quiet_but_errors_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(quiet=True)
    out.talk("talk")
    out.detail("detail")
    out.error("two\nlines")
    assert capsys.readouterr() == ("", "mlu-migrate: error: two lines\n")
    Output(verbose=True).detail("detail")
    assert capsys.readouterr().err == "detail\n"


def test_colour_is_for_terminals_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert Output().colour(Terminal())
    assert not Output().colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert not Output().colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Output().colour(io.StringIO())


def test_running_without_torch_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    assert backend.run(["x.py"], None, None, False, Output()) == 2
    err = capsys.readouterr().err
    assert "mlu-migrate[backend]" in err
    assert err.count("\n") == 1
