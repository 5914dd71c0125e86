"""Imported once by a fork server, so that every program of a test starts with torch and torch_mlu in memory, unused."""

from __future__ import annotations

import os
import sys
import traceback

import torch  # noqa: F401
import torch_mlu  # noqa: F401


def execute(code: str, env: dict[str, str], folder: str | None, out: str, err: str) -> None:
    """Run ``code`` as a script would; its output goes to two files."""
    for number, path in ((1, out), (2, err)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", closefd=False)
    os.environ.clear()
    os.environ.update(env)
    if folder is not None:
        os.chdir(folder)
    status = 0
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
