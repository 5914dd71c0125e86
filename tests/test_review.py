"""Reviewing: hunks, what keys do, what is written."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_run import sample_run

from mlu_migrate import engine, review, review_terminal
from mlu_migrate.model import FileResult, FileStatus, RunResult
from mlu_migrate.review import Decision, Ending
from mlu_migrate.settings import Settings

RUN = sample_run()
HUNKS = review.hunks_of(RUN)
KEYS = "ynadfxujke?wq z1\t"


def _press(keys: str, hunks: tuple[review.Hunk, ...] = HUNKS) -> review.State:
    state = review.start(hunks)
    for key in keys:
        state = review.press(hunks, state, key)
    return state


def _keys(text: str) -> Callable[[], str]:
    left = list(text)
    return lambda: left.pop(0) if left else ""


def _session(keys: str, saved: Path | None = None, run: RunResult = RUN) -> tuple[dict[str, bytes] | None, str]:
    shown: list[str] = []
    result = review_terminal.session(run, _keys(keys), shown.append, saved=saved, page=lambda code: f"page of {code}")
    return result, "".join(shown)


def test_every_changed_file_has_something_to_decide() -> None:
    changed = {f.path for f in RUN.files if f.status is FileStatus.CHANGED}
    assert {h.path for h in HUNKS if not h.follows} == changed


def test_pressing_nothing_changes_nothing() -> None:
    result, shown = _session("")
    assert result is None and "MLU" in shown
    assert review.outputs(RUN, HUNKS, review.start(HUNKS)) == {}


def test_accepting_everything_gives_the_outputs_of_the_run() -> None:
    result, _ = _session("y" * sum(not h.follows for h in HUNKS) + "w")
    assert result == {f.path: f.output for f in RUN.files if f.output is not None}


def test_rejecting_everything_writes_nothing() -> None:
    result, _ = _session("n" * sum(not h.follows for h in HUNKS) + "w")
    assert result == {}


def test_an_import_comes_with_the_first_accepted_change_of_its_file() -> None:
    index = next(n for n, h in enumerate(HUNKS) if h.path == "pkg/train.py" and not h.follows)
    state = replace(review.start(HUNKS), cursor=index)
    output = review.outputs(RUN, HUNKS, review.press(HUNKS, state, "y"))["pkg/train.py"]
    assert output == (
        b"import torch\nimport torch_mlu  # noqa: F401\n\n"
        b"x = torch.zeros(3).mlu()\nprint(x)\ny = torch.zeros(3).cuda()\n"
    )


def test_a_rule_is_accepted_everywhere_at_once() -> None:
    index = next(n for n, h in enumerate(HUNKS) if "MLU201" in h.codes)
    state = review.press(HUNKS, replace(review.start(HUNKS), cursor=index), "a")
    for hunk, decision in zip(HUNKS, state.decisions, strict=True):
        wanted = Decision.ACCEPT if "MLU201" in hunk.codes and not hunk.follows else Decision.OPEN
        assert decision is wanted


def test_a_file_is_accepted_or_rejected_at_once() -> None:
    first = HUNKS[review.start(HUNKS).cursor]
    for key, wanted in (("f", Decision.ACCEPT), ("x", Decision.REJECT)):
        state = _press(key)
        decided = [d for h, d in zip(HUNKS, state.decisions, strict=True) if h.file == first.file and not h.follows]
        assert set(decided) == {wanted}
        assert all(d is Decision.OPEN for h, d in zip(HUNKS, state.decisions, strict=True) if h.file != first.file)


def test_undo_takes_back_one_decision_at_a_time() -> None:
    before = _press("y")
    assert review.press(HUNKS, _press("yfu"), " ").decisions == before.decisions
    assert _press("yu").decisions == review.start(HUNKS).decisions
    assert _press("u").decisions == review.start(HUNKS).decisions


def test_moving_explaining_and_helping_decide_nothing() -> None:
    state = _press("jjke?ee k")
    assert set(state.decisions) == {Decision.OPEN} and state.ending is None


@given(st.text(alphabet=KEYS, max_size=40))
def test_no_sequence_of_keys_decides_for_hunks_that_follow_or_breaks(keys: str) -> None:
    state = _press(keys)
    assert 0 <= state.cursor < len(HUNKS)
    assert all(d is Decision.OPEN for h, d in zip(HUNKS, state.decisions, strict=True) if h.follows)
    outputs = review.outputs(RUN, HUNKS, state)
    accepted = {h.path for h, d in zip(HUNKS, state.decisions, strict=True) if d is Decision.ACCEPT}
    assert set(outputs) == accepted


@given(st.text(alphabet="ynadfxujk", max_size=30))
def test_undoing_everything_leads_back_to_the_start(keys: str) -> None:
    state = _press(keys)
    for _ in range(len(state.history)):
        state = review.press(HUNKS, state, "u")
    assert state.decisions == review.start(HUNKS).decisions


def test_changes_of_one_group_stand_or_fall_together() -> None:
    source = b"a.cuda()\n" + b"pass\n" * 9 + b"b.cuda()\n"
    output = source.replace(b"cuda", b"mlu")
    one, other = (
        f
        for f in engine.migrate(b"import torch\na=torch.ones(1)\na.cuda()\na.cuda()\n", "x.py", Settings()).findings
        if f.code == "MLU201"
    )
    findings = (
        one.with_(line=1, end_line=1, edits=(), group="g"),
        other.with_(line=11, end_line=11, edits=(), group="g"),
    )
    run = RunResult((FileResult("x.py", FileStatus.CHANGED, source=source, output=output, findings=findings),))
    (hunk,) = review.hunks_of(run)
    assert len(hunk.spans) == 2


def test_quitting_keeps_the_decisions_for_the_next_time(tmp_path: Path) -> None:
    saved = tmp_path / "review" / "state.json"
    result, _ = _session("ynq", saved)
    assert result is None and saved.exists()
    state = review.start(HUNKS, review.load(saved))
    assert state.decisions == _press("yn").decisions and state.cursor == _press("yn").cursor
    result, _ = _session("y" * len(HUNKS) + "w", saved)
    assert result is not None and not saved.exists()
    assert sum(path != HUNKS[1].path for path in result) >= 1


def test_an_interruption_keeps_the_decisions(tmp_path: Path) -> None:
    saved = tmp_path / "state.json"
    left = list("yn")

    def keys() -> str:
        if not left:
            raise SystemExit(130)
        return left.pop(0)

    with pytest.raises(SystemExit):
        review_terminal.session(RUN, keys, lambda text: None, saved=saved)
    assert review.start(HUNKS, review.load(saved)).decisions == _press("yn").decisions


def test_decisions_about_code_that_has_changed_since_are_forgotten(tmp_path: Path) -> None:
    saved = tmp_path / "state.json"
    review.save(saved, HUNKS, _press("y"))
    stored = json.loads(saved.read_text("utf-8"))
    stored["decisions"] = {key + "x": value for key, value in stored["decisions"].items()}
    saved.write_text(json.dumps(stored))
    assert review.start(HUNKS, review.load(saved)).decisions == review.start(HUNKS).decisions


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 9}', '{"version": 1, "decisions": 3}'])
def test_a_saved_state_that_cannot_be_read_is_no_state(tmp_path: Path, text: str) -> None:
    saved = tmp_path / "state.json"
    saved.write_text(text)
    assert review.load(saved) == {} and review.load(tmp_path / "absent.json") == {}


def test_the_reason_is_shown_on_demand_only() -> None:
    _, plain = _session("jq")
    _, asked = _session("eq")
    assert "page of" not in plain and "page of MLU" in asked


def test_the_help_names_every_key() -> None:
    _, shown = _session("?q")
    for key in "ynadfxujkewq":
        assert f"  {key}  " in shown


def test_writing_before_the_end_leaves_the_rest_as_it_was() -> None:
    result, _ = _session("yw")
    assert result is not None and len(result) == 1


def test_a_run_without_changes_ends_at_once() -> None:
    shown: list[str] = []
    assert review_terminal.session(RunResult(()), _keys("y"), shown.append) == {} and not shown


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_control_characters_of_the_project_do_not_reach_the_terminal(lang: str) -> None:
    source = b"s = '\x1b[2J'; x.cuda()\n"
    run = RunResult(
        (FileResult("a\x1b.py", FileStatus.CHANGED, source=source, output=source.replace(b"cuda", b"mlu")),)
    )
    shown: list[str] = []
    review_terminal.session(run, _keys("q"), shown.append, lang=lang)
    assert "\x1b" not in "".join(shown) and "\\x1b" in "".join(shown)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_accepting_all_hunks_of_any_bytes_gives_the_output(source: bytes, output: bytes) -> None:
    run = RunResult((FileResult("a", FileStatus.CHANGED, source=source, output=output),))
    hunks = review.hunks_of(run)
    state = replace(review.start(hunks), decisions=(Decision.ACCEPT,) * len(hunks), ending=Ending.WRITE)
    assert review.outputs(run, hunks, state).get("a", source) == output


def _in_terminal(folder: Path, keys: str) -> tuple[int, str]:
    """Run the real command on a terminal of its own and press keys one by one, each when the prompt is there."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mlu_migrate", "review", str(folder)]

    def controlling_terminal() -> None:  # so that Ctrl-C becomes a signal
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=controlling_terminal
    )
    os.close(theirs)
    seen, left = "", list(keys)
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        try:
            data = os.read(ours, 65536) if ready else b""
        except OSError:  # the other side is closed
            break
        if not data:
            break
        seen += data.decode("utf-8", "replace")
        if left and seen.count("quit") > len(keys) - len(left):
            os.write(ours, left.pop(0).encode())
    os.close(ours)
    return process.wait(timeout=60), seen


@pytest.mark.parametrize("keys", ["\x04", "q", "\x03", "nw", "ejkq"])
def test_on_a_terminal_nothing_is_written_that_was_not_accepted(tmp_path: Path, keys: str) -> None:
    file = tmp_path / "a.py"
    file.write_text("import torch\n\nx = torch.zeros(1).cuda()\n")
    status, seen = _in_terminal(tmp_path, keys)
    assert "torch.zeros(1).mlu()" in seen and status in (0, 2)
    assert file.read_text() == "import torch\n\nx = torch.zeros(1).cuda()\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


def test_on_a_terminal_an_accepted_change_is_written_in_place(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("import torch\n\nx = torch.zeros(1).cuda()\n")
    status, _ = _in_terminal(tmp_path, "yw")
    assert status == 0
    assert file.read_text() == "import torch\nimport torch_mlu  # noqa: F401\n\nx = torch.zeros(1).mlu()\n"
