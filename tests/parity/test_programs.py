"""
The programs of fixtures/scripts, migrated and compared: no false alarm, whatever the seed, and drift within the stated
limits on the profiles of real cards.

The quick ones are compared with one seed in every run of the tests, all of them with five in the nightly one.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlu_backend.parity import session
from mlu_backend.parity.findings import Status, Verdict
from mlu_migrate import editmap, gathering, parity, pipeline
from mlu_migrate.settings import Options, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCRIPTS = Path(__file__).resolve().parents[2] / "fixtures" / "scripts"
FACTS = {p.parent.name: tomllib.loads(p.read_text(encoding="utf-8")) for p in sorted(SCRIPTS.glob("*/program.toml"))}
SEEDS = range(5)
REFUSED = {
    ("cuda_graphs", "mlu370"): "MLU graphs are not supported",
    ("diffusion", "mlu370"): "does not compute in bfloat16",
    ("gpt_language_model", "mlu370"): "loss scaling",  # asks for bf16, gets the answer no, takes fp16
    ("llm_inference", "mlu370"): "bfloat16 and float16",  # the same
}
"""What a card cannot do, so that the migrated program does something else there: parity says what."""

WITHOUT_LOSS = {"llm_inference"}
"""Programs that make no backward pass."""

AMPLIFY = {"gan": "--manualSeed", "quantization_aware": "--seed"}
"""
Programs that multiply rounding so far that the table alone would not admit it, and their option for a seed of their
own. Networks that train against each other; a training that is steep from its tenth to its thirtieth step. Both are
judged against the rounding control, and are started from five points, since how far rounding goes depends on the start.
"""

Compare = Callable[..., Verdict]


@dataclass(frozen=True)
class Migrated:
    folder: Path
    edits: Path


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Migrated]:
    """``migrated(name)``: the migrated copy of a program and its edit map, made once."""
    made: dict[str, Migrated] = {}

    def get(name: str) -> Migrated:
        if name not in made:
            work = tmp_path_factory.mktemp(name)
            run = pipeline.run(gathering.targets_of([SCRIPTS / name]), Settings(), Options(cache=False))
            folder = parity._copy(SCRIPTS / name, run, work)
            edits = work / parity.MAP
            edits.write_text(json.dumps(editmap.edit_map(run.result, folder)), encoding="utf-8")
            made[name] = Migrated(folder, edits)
        return made[name]

    return get


@pytest.fixture
def compare(migrated: Callable[[str], Migrated], tmp_path: Path) -> Compare:
    """``compare(name, seed, profile, *words)``: the verdict on one program, its command followed by ``words``."""

    def judge(name: str, seed: int = 0, profile: str = "exact", *words: str) -> Verdict:
        program = migrated(name)
        work = tmp_path / f"{name}-{seed}-{profile}"
        plan = session.Plan(
            original=SCRIPTS / name,
            migrated=program.folder,
            command=(*shlex.split(FACTS[name]["command"]), *words),
            work=work,
            seed=seed,
            profile=profile,
            edits=program.edits,
            cards=2,
            timeout=240,
            repeat=False,
            look_closer=profile != "exact",
        )
        found = session.run(plan)
        shutil.rmtree(work, ignore_errors=True)
        return found

    return judge


def says(found: Verdict) -> str:
    first = found.first
    return f"{found.status.value} {found.reasons} " + (
        f"{first.what} step {first.step}: {first.reference} and {first.candidate}, inputs {first.inputs}, "
        f"outputs {first.outputs}, limit {first.limit}, operator {first.operator}"
        if first
        else ""
    )


def check(name: str, found: Verdict) -> None:
    """A match that compared something and whose edits ran."""
    assert found.status is Status.MATCH, says(found)
    assert found.compared > 20 and bool(found.losses) is (name not in WITHOUT_LOSS), found
    assert found.coverage and found.coverage["exercised"] > 0, found.coverage


@pytest.mark.parametrize("name", [name for name, facts in FACTS.items() if facts["quick"]])
def test_a_migrated_program_matches_its_original(compare: Compare, name: str) -> None:
    check(name, compare(name))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FACTS)
def test_no_seed_gives_a_false_alarm(compare: Compare, name: str, seed: int) -> None:
    check(name, compare(name, seed))


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["mlu590", "mlu370"])
@pytest.mark.parametrize("name", FACTS)
def test_the_drift_on_a_card_stays_within_the_stated_limits(compare: Compare, name: str, profile: str) -> None:
    found = compare(name, profile=profile)
    if (name, profile) in REFUSED:
        assert found.status is Status.MISMATCH and REFUSED[name, profile] in says(found), says(found)
    else:
        check(name, found)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["mlu590", "mlu370"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", AMPLIFY)
def test_a_program_that_amplifies_rounding_passes_wherever_it_starts(
    compare: Compare, name: str, seed: int, profile: str
) -> None:
    check(name, compare(name, seed, profile, AMPLIFY[name], str(seed)))
