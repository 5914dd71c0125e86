"""
Where a string goes: from the literal outwards through expressions, names, parameters and attributes to a sink.

A literal is decided by the *slot* it lands in (a variable, parameter, attribute, key or return value), and a slot by
every use it has in the file and, by name, in the project. So all literals that meet in one slot get one decision.
"""

from __future__ import annotations

from mlu_migrate.flow.core import Flow
from mlu_migrate.flow.uses import Proof, Shape, Use

__all__ = ["Flow", "Proof", "Shape", "Use"]
