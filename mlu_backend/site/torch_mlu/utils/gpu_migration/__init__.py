"""
Runs code written for CUDA without changing it: importing this replaces names in torch, for the whole process.

It has the faults of the real one, which a program that relies on it will meet on the card: the word cuda is replaced in
every positional string, not in devices only; names bound before the import keep the old objects; a dict as
``map_location`` is left alone. A rewritten program needs none of it.
"""

from __future__ import annotations

from torch_mlu.utils.gpu_migration import env_migration, migration
from torch_mlu.utils.gpu_migration.env_migration import unsupport_env_check
from torch_mlu.utils.gpu_migration.migration import apply_monkey_patches

__all__ = ["apply_monkey_patches", "env_migration", "migration", "unsupport_env_check"]

unsupport_env_check()
apply_monkey_patches()
