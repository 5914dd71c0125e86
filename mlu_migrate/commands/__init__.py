"""
What stands behind the commands of cli.py, one module a command. These talk to the user through an Output and never
exit.
"""

from __future__ import annotations

COMMANDS = (
    "check",
    "review",
    "rules",
    "rule",
    "why",
    "run",
    "parity",
    "parity-record",
    "parity-compare",
    "doctor",
)
