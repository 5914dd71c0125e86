"""
Entry point of ``mlu-migrate`` and ``python -m mlu_migrate``. Answers ``--version`` without importing anything
large.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line of this process; returns the exit status."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from mlu_migrate import __version__

        sys.stdout.write(f"mlu-migrate {__version__}\n")
        return 0
    from mlu_migrate import cli

    return int(cli.main(arguments))


def _forget_current_folder() -> None:
    """
    ``python -m`` puts the current folder on the path, and a project may have a ``libcst.py``: nothing is imported
    from there, unless we lie there ourselves.
    """
    try:
        here = os.getcwd()
    except OSError:
        return
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not getattr(sys.flags, "safe_path", False) and sys.path[:1] == [here] and ours != here:
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_folder()
    sys.exit(main())
