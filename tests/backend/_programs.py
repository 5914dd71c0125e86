"""
Programs run in processes of their own, for tests of what an import or an environment variable does.

Most are forked from a server that has torch and torch_mlu imported and no card used, which is what a fresh process has
after its import lines; ``fresh=True`` starts Python anew.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from mlu_backend.launch import environment

# Variables a test must not inherit from the shell that runs it.
OURS = (
    "MLU_EMULATOR_CARDS",
    "MLU_EMULATOR_MEMORY",
    "MLU_EMULATOR_PROFILE",
    "CN_VISIBLE_DEVICES",
    "MLU_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
)
SECONDS = 240

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["_zygote"])


def clean(**variables: str) -> dict[str, str]:
    env = {key: value for key, value in environment().items() if key not in OURS}
    return {**env, **variables}


def run(
    code: str, *, folder: Path | None = None, fresh: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` as a script with the device within reach; the result has stdout, stderr and returncode."""
    code, env = textwrap.dedent(code), clean(**variables)
    if fresh:
        return subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    import _zygote

    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        arguments = (code, env, None if folder is None else str(folder), str(out), str(err))
        child = _context.Process(target=_zygote.execute, args=arguments)
        child.start()
        child.join(SECONDS)
        if child.is_alive():
            child.kill()
            raise subprocess.TimeoutExpired(code, SECONDS)
        return subprocess.CompletedProcess(code, child.exitcode or 0, out.read_text(), err.read_text())


def lines(code: str, *, folder: Path | None = None, fresh: bool = False, **variables: str) -> list[str]:
    """What ``code`` prints; the test fails with its traceback when it fails."""
    done = run(code, folder=folder, fresh=fresh, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
