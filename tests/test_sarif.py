"""SARIF: valid for an independent implementation of the standard, and true to the files."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
import sarif_pydantic
from sample_run import HOSTILE_PATH, sample_run

from mlu_migrate.report import render
from mlu_migrate.settings import Settings

RUN = sample_run()
LOG = json.loads(render("sarif", RUN, Settings()))


def _extra(model: object, data: object, where: str = "") -> list[str]:
    """Properties of the log that the model does not know."""
    found = []
    if isinstance(data, dict) and hasattr(type(model), "model_fields"):
        known = {}
        for name, entry in type(model).model_fields.items():
            known[entry.alias or name] = name
            known[name] = name
        for key, value in data.items():
            if key not in known:
                found.append(f"{where}.{key}")
            elif value is not None:
                found += _extra(getattr(model, known[key]), value, f"{where}.{key}")
    elif isinstance(data, list) and isinstance(model, list):
        for one, other in zip(model, data, strict=True):
            found += _extra(one, other, where)
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_independent_validator_accepts_the_log(lang: str) -> None:
    data = json.loads(render("sarif", RUN, Settings(), lang))
    log = sarif_pydantic.Sarif.model_validate(data)
    assert len(log.runs[0].results or []) == len(RUN.findings)
    assert _extra(log.runs[0].results, data["runs"][0]["results"]) == []


def test_the_validator_refuses_a_broken_log() -> None:
    broken = json.loads(json.dumps(LOG))
    broken["runs"][0]["results"][0]["level"] = "terrible"
    with pytest.raises(ValueError):
        sarif_pydantic.Sarif.model_validate(broken)


def test_results_point_to_rules_that_are_described() -> None:
    rules = LOG["runs"][0]["tool"]["driver"]["rules"]
    for result in LOG["runs"][0]["results"]:
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"] and rule["shortDescription"]["text"] and rule["help"]["text"]


def test_fingerprints_are_unique() -> None:
    marks = [r["partialFingerprints"]["mluMigrate/v1"] for r in LOG["runs"][0]["results"]]
    assert len(set(marks)) == len(marks)


def test_fixes_lead_from_the_file_to_its_output() -> None:
    by_path = {file.path: file for file in RUN.files}
    changes: dict[str, set[tuple[int, int, str]]] = {}
    for result in LOG["runs"][0]["results"]:
        if result["properties"]["applied"]:
            for change in result["fixes"][0]["artifactChanges"]:
                path = unquote(change["artifactLocation"]["uri"])
                for item in change["replacements"]:
                    region = item["deletedRegion"]
                    changes.setdefault(path, set()).add(
                        (region["byteOffset"], region["byteLength"], item["insertedContent"]["text"])
                    )
    assert HOSTILE_PATH in changes
    for path, items in changes.items():
        data = by_path[path].source
        for offset, length, text in sorted(items, reverse=True):
            data = data[:offset] + text.encode() + data[offset + length :]
        assert data == by_path[path].output


def test_a_failed_file_is_a_notification() -> None:
    (invocation,) = LOG["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.py"


def test_a_notebook_cell_is_a_logical_location() -> None:
    names = [
        r["locations"][0]["logicalLocations"][0]["name"]
        for r in LOG["runs"][0]["results"]
        if r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "demo.ipynb"
    ]
    assert names and set(names) == {"cell 1"}
