"""The command of a program, given for the original, as the migrated program takes it: by the rules for scripts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mlu_migrate.settings import Settings


def migrated(command: Sequence[str], settings: Settings, paths: Iterable[str] = ()) -> tuple[str, ...]:
    """
    The words of ``command`` with what names the device, its back end or its variables in mlu's words. ``paths`` are
    the project's files: a word that chooses one of its configurations stays.
    """
    from mlu_migrate import nonpython, project
    from mlu_migrate.configs import groups

    line = (shlex.join(command) + "\n").encode("utf-8", "surrogateescape")
    facts = project.ProjectFacts(config_groups=groups.of(paths))
    done = nonpython.migrate(line, "command.sh", replace(settings, configs="write"), facts)
    try:
        words = tuple(shlex.split(done.result.decode("utf-8", "surrogateescape")))
    except ValueError:
        return tuple(command)
    return words if len(words) == len(command) else tuple(command)
