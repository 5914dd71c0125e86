"""
Writes ``surface.toml`` from a ``torch_mlu_api.json``: ``python make_surface.py torch_mlu_api.json [branch letter]``.

The JSON lists what six branches of torch_mlu offer, with the file and line each name comes from. The emulator follows
one of them (letter ``f``: torch_mlu 1.25 for torch 2.4), so only its rows are kept, one line each, evidence included.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEPT = ("name", "kind", "sig", "value", "target", "inherited", "src")


def text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def row(entry: dict[str, Any], keys: tuple[str, ...]) -> str:
    return "  {" + ", ".join(f"{key} = {text(str(entry[key]))}" for key in keys if key in entry) + "},"


def surface(data: dict[str, Any], letter: str) -> list[str]:
    branch = data["meta"]["branches"][letter]
    lines = [
        "# Made by make_surface.py; do not edit. Names, signatures and evidence of one branch of torch_mlu.",
        f"branch = {text(branch['branch'])}",
        f"commit = {text(branch['commit'])}",
        f"torch_mlu = {text(branch['torch_mlu'])}",
        f"torch = {text(branch['torch'])}",
        f"repository = {text(data['meta']['repo'])}",
        "",
        "attached = [",
    ]
    lines += [row(e, ("owner", "name", "kind", "sig", "how", "src")) for e in data["attached"] if letter in e["in"]]
    lines += ["]", "", "patches = ["]
    lines += [row(e, ("target", "phase", "by", "src")) for e in data["patches"] if letter in e["in"]]
    lines += ["]", "", "[modules]"]
    for module, parts in data["modules"].items():
        rows = [e for part in parts.values() for e in part if letter in e["in"]]
        if rows:
            lines += [f"{text(module)} = [", *(row(e, KEPT) for e in rows), "]"]
    return lines


def main(arguments: list[str]) -> None:
    data = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    letter = arguments[1] if len(arguments) > 1 else "f"
    operators = [e for part in data["modules"]["torch.ops.torch_mlu"].values() for e in part if letter in e["in"]]
    schemas = {entry["name"]: entry["sig"] for entry in operators}
    # Start-up registers the operators and has no time for a TOML parser (57 ms), hence JSON for these few.
    Path(__file__).with_name("schemas.json").write_text(json.dumps(schemas, indent=1) + "\n", encoding="utf-8")
    target = Path(__file__).with_name("surface.toml")
    target.write_text("\n".join(surface(data, letter)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
