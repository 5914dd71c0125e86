"""The tables: complete, with evidence, and never a name that torch_mlu lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlu_migrate import apimap
from mlu_migrate.rename import target

REFERENCE = Path(__file__).parent.parent.parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference folder lies beside the checkout")


def test_every_row_has_evidence() -> None:
    for row in [*apimap.names().values(), *apimap.patterns().values()]:
        assert row.source.startswith("torch_mlu r"), row
        assert row.status in ("same", "renamed", "semantic-difference", "missing"), row
        assert bool(row.mlu) == (row.status != "missing") or row.status == "missing", row


def test_a_missing_name_is_never_renamed() -> None:
    for row in apimap.names().values():
        if row.status == "missing":
            for release in apimap.RELEASES:
                found = target(row.name, release)
                assert found is None or found.mlu is None, row


@needs_reference
def test_the_tables_hold_every_row_of_the_reference() -> None:
    rows = json.loads((REFERENCE / "cuda_to_mlu.json").read_text("utf-8"))["rows"]
    known = {**apimap.names(), **apimap.patterns()}
    assert {r["cuda"] for r in rows} == set(known)
    for row in rows:
        assert known[row["cuda"]].mlu == (row["mlu"] or ""), row
        assert known[row["cuda"]].status == row["status"], row


@needs_reference
def test_every_name_that_is_emitted_exists_in_that_release() -> None:
    api = json.loads((REFERENCE / "torch_mlu_api.json").read_text("utf-8"))
    names: dict[str, str] = {}
    for module, halves in api["modules"].items():
        for item in [*halves["public"], *halves["private"]]:
            full = f"{module}.{item['name']}"
            names[full] = "".join(sorted({*names.get(full, ""), *item["in"]}))
            names[module] = "".join(sorted({*names.get(module, ""), *item["in"]}))
    for item in api["attached"]:
        full = f"{item['owner']}.{item['name']}"
        names[full] = "".join(sorted({*names.get(full, ""), *item["in"]}))
    # Members a class has from its base, which the list does not repeat: torch.mlu.ExternalStream is a Stream, and
    # torch.mlu.Stream has the fields of torch's own _StreamBase (torch_mlu/csrc/python/Stream.cpp:199).
    stream = {n.rpartition(".")[2] for n in names if n.startswith("torch.mlu.streams.Stream.")}
    base = {"device", "device_index", "device_type", "stream_id", "mlu_stream"}
    unknown = []
    for release, letter in apimap.LETTER.items():
        for row in apimap.names().values():
            found = target(row.name, release)
            if found is None or found.mlu is None or not found.mlu.startswith("torch.mlu"):
                continue
            owner, _, member = found.mlu.rpartition(".")
            if owner in ("torch.mlu.Stream", "torch.mlu.ExternalStream") and member in stream | base:
                continue
            spelled = (found.mlu, found.mlu.replace("torch.mlu", "torch_mlu.mlu"))
            if not any(letter in names.get(s, "") for s in spelled):
                unknown.append((release, row.name, found.mlu, [names.get(s) for s in spelled]))
    assert not unknown, unknown
