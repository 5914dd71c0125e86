"""
What stands behind the commands of cli.py, one module a command. These talk to the user through an Output and never
exit.
"""

from __future__ import annotations
