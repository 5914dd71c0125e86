"""
Writes torch.toml and patterns.toml from the reference folder: `python -m mlu_migrate.tables.generate FOLDER`.

torch.toml holds one row a dotted torch name. patterns.toml holds the rows that are a call form, an argument or a habit;
rules decide about those in code and quote the row. Hand-made decisions (POLICY) are kept here so that a new reference
can be taken over by running this again. Nothing here runs at migration time.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

DOTTED = re.compile(r"^(torch|apex)(\.[A-Za-z_]\w*)+$")
ORDER = "abcdef"
BRANCHES = ("r1.22_pt2.1.0", "r1.22_pt2.3.0", "r1.22_pt2.4.0", "r2.3_develop", "r2.1_develop", "r2.4_develop")

# How a row whose meaning differs is treated: "edit" rewrites and explains, "tell" reports and leaves the text alone.
# Rows not named here are told.
POLICY = {
    "torch.cuda.Event": "edit",
    "torch.cuda.streams.Event": "edit",
    "torch.cuda.CUDAGraph": "edit",
    "torch.cuda.graph": "edit",
    "torch.cuda.graphs.graph": "edit",
    "torch.cuda.get_device_capability": "edit",
    "torch.cuda.get_device_properties": "edit",
    "torch.cuda.is_bf16_supported": "edit",
    "torch.cuda.memory._dump_snapshot": "edit",
    "torch.cuda.memory._record_memory_history": "edit",
    "torch.cuda.memory._snapshot": "edit",
    "torch.cuda.memory.memory_snapshot": "edit",
    "torch.cuda.memory_snapshot": "edit",
    "torch.cuda.nccl": "edit",
    "torch.backends.cuda.sdp_kernel": "edit",
}


def main(folder: Path, out: Path) -> None:
    """Read ``folder``/cuda_to_mlu.json and torch_mlu_api.json, write the two tables into ``out``."""
    rows = json.loads((folder / "cuda_to_mlu.json").read_text("utf-8"))["rows"]
    letters = _letters(json.loads((folder / "torch_mlu_api.json").read_text("utf-8")))
    names: list[str] = []
    patterns: list[str] = []
    for row in sorted(rows, key=lambda r: r["cuda"]):
        target = names if DOTTED.match(row["cuda"]) else patterns
        target.append(_row(row, letters, "cuda" if target is patterns else "name"))
    head = "# Written by mlu_migrate/tables/generate.py from the reference; change POLICY there, not this file.\n\n"
    (out / "torch.toml").write_text(head + "\n".join(names), "utf-8")
    (out / "patterns.toml").write_text(head + "\n".join(patterns), "utf-8")


def _letters(api: dict[str, object]) -> dict[str, str]:
    out: dict[str, str] = {}
    modules: dict[str, dict[str, list[dict[str, str]]]] = api["modules"]  # type: ignore[assignment]
    for module, halves in modules.items():
        seen = ""
        for item in [*halves["public"], *halves["private"]]:
            out[f"{module}.{item['name']}"] = item["in"]
            seen = "".join(sorted({*seen, *item["in"]}))
        out.setdefault(module, seen)
    for item in api["attached"]:  # type: ignore[attr-defined]
        out.setdefault(f"{item['owner']}.{item['name']}", item["in"])
    return out


def _row(row: dict[str, str], letters: dict[str, str], key: str) -> str:
    mlu = row.get("mlu") or ""
    found = letters.get(mlu) or letters.get(mlu.replace("torch.mlu", "torch_mlu.mlu"))
    if found is None and row.get("since") in BRANCHES:
        found = ORDER[BRANCHES.index(row["since"]) :]
    lines = [f"[[row]]\n{key} = {_text(row['cuda'])}", f"mlu = {_text(mlu)}", f'status = "{row["status"]}"']
    if row["status"] == "semantic-difference":
        lines.append(f'policy = "{POLICY.get(row["cuda"], "tell")}"')
    if mlu:
        lines.append(f'in = "{found or ORDER}"')
    if row.get("note"):
        lines.append(f"note = {_text(row['note'])}")
    if row.get("official"):
        lines.append(f"official = {_text(str(row['official']))}")
    branch = row.get("evidence_branch", "r2.4_develop")
    lines.append(f"source = {_text(f'torch_mlu {branch}, ' + str(row.get('evidence') or '-'))}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)
