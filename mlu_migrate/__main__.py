"""
Entry point of ``mlu-migrate`` and ``python -m mlu_migrate``. Answers ``--version`` without importing anything
large.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    sys.exit(main())
