"""The command of a program, given for the original, as the migrated program takes it: by the rules for scripts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from mlu_migrate.settings import Settings


def migrated(command: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """The words of ``command`` with what names the device, its back end or its variables in mlu's words."""
    from mlu_migrate import nonpython

    line = shlex.join(command) + "\n"
    done = nonpython.migrate(line.encode("utf-8", "surrogateescape"), "command.sh", replace(settings, configs="write"))
    try:
        words = tuple(shlex.split(done.result.decode("utf-8", "surrogateescape")))
    except ValueError:
        return tuple(command)
    return words if len(words) == len(command) else tuple(command)
