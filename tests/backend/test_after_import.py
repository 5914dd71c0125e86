"""What is put down for after an import runs once, when the module is whole."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LATE = """
from mlu_backend.after_import import after_import
import seen
after_import("late", seen.note)
{more}
end = 1
"""
SEEN = """
noted = []
def note(module):
    noted.append(hasattr(module, "end"))
"""


def run(folder: Path, code: str, more: str = "") -> str:
    (folder / "late.py").write_text(LATE.format(more=more))
    (folder / "seen.py").write_text(SEEN)
    (folder / "other.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_action_waits_for_a_module_that_nothing_has_imported(tmp_path: Path) -> None:
    code = """
    import seen
    from mlu_backend.after_import import after_import
    after_import("other", seen.note)
    after_import("other", seen.note)
    before = len(seen.noted)
    import other
    after_import("other", seen.note)
    print(before, seen.noted)
    """
    assert run(tmp_path, code) == "0 [False, False]"


def test_a_module_that_is_being_imported_is_waited_for(tmp_path: Path) -> None:
    code = """
    import seen, late
    before = list(seen.noted)
    import other
    print(before, seen.noted)
    """
    assert run(tmp_path, code) == "[] [True]"


@pytest.mark.parametrize("more", ["", "import other"])
def test_so_is_one_that_another_thread_imports(tmp_path: Path, more: str) -> None:
    code = """
    import threading, sys, time
    import seen
    def work():
        import late
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    import this_is_nowhere_else
    """
    (tmp_path / "this_is_nowhere_else.py").write_text("import seen\nprint(seen.noted)\n")
    assert run(tmp_path, code, more) == "[True]"
