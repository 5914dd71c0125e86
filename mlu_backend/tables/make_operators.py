"""
Writes ``operators.json`` from an ``mlu_ops.json``: ``python make_operators.py mlu_ops.json [branch letter]``.

The source lists the operators six branches of torch_mlu register for the card. The answer the emulator gives is about
one of them (letter ``f``: torch_mlu 1.25 for torch 2.4). A row holds the place of registration (``line`` in
codegen/mlu_functions.yaml), the C++ function, the dtypes its kernel is registered for and the conversions it makes.
``limits`` are the official remarks on public functions, keyed by the last part of the function's name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEPT = ("line", "cpp", "kernel_dtypes", "casts")
# Remarks that belong to a dense operator; the rest speak of classes, devices, sparse layouts and processes.
OWNERS = ("torch", "torch.Tensor", "torch.nn.functional", "torch.fft", "torch.linalg")


def limits(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in data["official_limits"]:
        owner, _, name = row["api"].rpartition(".")
        if owner in OWNERS and name not in found and name[0].islower() and "cuda" not in name:
            found[name] = {"api": row["api"], "limit": row["limit"], "line": row["line"]}
    return found


def table(data: dict[str, Any], letter: str) -> str:
    rows = {
        entry["op"]: {key: entry[key] for key in KEPT if key in entry} for entry in data["ops"] if letter in entry["in"]
    }
    head = {
        "made_by": "make_operators.py; do not edit",
        "branch": letter,
        "line": data["meta"]["source"],
        "limits_line": "tools/autogen_torch_api/api_support_lists/torch_api.yaml",
        "narrowed": data["dtype_rules"]["device_storage"],
        "narrowed_evidence": data["dtype_rules"]["evidence"][0],
        "never_fall_back": data["fallback"]["never_fall_back"],
        "fallback_evidence": data["fallback"]["evidence"][0],
    }
    lines = ["{"]
    lines += [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    for name, section in (("operators", rows), ("limits", limits(data))):
        lines.append(f"{json.dumps(name)}: {{")
        lines += [f"  {json.dumps(op)}: {json.dumps(row)}," for op, row in section.items()]
        lines[-1] = lines[-1].rstrip(",")
        lines.append("}," if name == "operators" else "}")
    return "\n".join([*lines, "}"]) + "\n"


def main(arguments: list[str]) -> None:
    data = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    letter = arguments[1] if len(arguments) > 1 else "f"
    Path(__file__).with_name("operators.json").write_text(table(data, letter), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
