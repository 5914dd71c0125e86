"""Whole comparisons on the emulated device: the original GPU program against a migrated one, and what is not judged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from mlu_backend.parity import session
from mlu_backend.parity.findings import Category, Status, Verdict

ORIGINAL = """\
import torch
import torch.nn as nn

CONFIG = {"device": "cuda"}


class Gate(nn.Module):
    def forward(self, x):
        scale = torch.sigmoid(x)
        return x * scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, 16)
        self.gate = Gate()
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.drop(self.gate(self.inp(x))))


def main():
    device = CONFIG["device"]
    torch.manual_seed(1)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(6, 8).to(device)
        with torch.autocast("cuda", enabled=step == 2):
            loss = model(x).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert x.is_cuda and x.device.type == "cuda"
    if torch.cuda.device_count() > 50:
        torch.cuda.empty_cache()


main()
"""
MIGRATED = (
    ORIGINAL.replace("import torch\n", "import torch\nimport torch_mlu\n", 1)
    .replace(".cuda()", ".mlu()")
    .replace('"cuda"', '"mlu"')
    .replace("is_cuda", "is_mlu")
    .replace("torch.cuda", "torch.mlu")
)


def edit_map(folder: Path) -> Path:
    """Every line that differs is an edit; one finding was not applied."""
    rows = [
        {
            "code": "MLU2",
            "name": "n",
            "lines": [i, i],
            "source": [i - 1, i - 1],
            "applied": True,
            "before": "cuda",
            "after": "mlu",
        }
        for i, line in enumerate(MIGRATED.splitlines(), 1)
        if "mlu" in line
    ]
    rows.append(
        {
            "code": "MLU203",
            "name": "device-string",
            "lines": [4, 4],
            "source": [4, 4],
            "applied": False,
            "safety": "unsafe",
            "before": '"cuda"',
            "after": '"mlu"',
        }
    )
    path = folder / "map.json"
    path.write_text(json.dumps({"version": 1, "files": {"train.py": rows}}))
    return path


def plan(folder: Path, original: str = ORIGINAL, migrated: str = MIGRATED, **changes: object) -> session.Plan:
    for name, source in (("original", original), ("migrated", migrated)):
        (folder / name).mkdir(parents=True)
        (folder / name / "train.py").write_text(source)
    made = session.Plan(
        original=folder / "original",
        migrated=folder / "migrated",
        command=("python", "train.py"),
        work=folder / "work",
        cards=2,
        timeout=280,
        edits=edit_map(folder),
    )
    (folder / "work").mkdir()
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def matched(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """The comparison of the two programs above."""
    return session.run(plan(tmp_path_factory.mktemp("matched")))


def test_a_right_migration_matches_bit_for_bit(matched: Verdict) -> None:
    assert matched.status is Status.MATCH, (matched.reasons, matched.first)
    assert matched.compared == matched.equal > 40 and matched.steps == 3
    assert [r["name"] for r in matched.runs] == ["reference", "reference again", "candidate"]


def test_it_says_which_edits_ran(matched: Verdict) -> None:
    report = matched.coverage
    assert report is not None and report["exercised"] == report["edits"] - 1
    (missed,) = [r for r in report["list"] if not r["exercised"]]
    assert "empty_cache" in MIGRATED.splitlines()[missed["line"] - 1] and missed["function"] == "main"


def test_it_offers_the_string_that_was_seen_reaching_a_device(matched: Verdict) -> None:
    assert matched.coverage is not None
    assert [(r["line"], r["code"]) for r in matched.coverage["proven"]] == [(4, "MLU203")]


def test_a_wrong_operator_is_found_inside_its_module_with_line_and_float64(tmp_path: Path) -> None:
    wrong = MIGRATED.replace("torch.sigmoid(x)", "torch.tanh(x).add(1).div(2)")
    found = session.run(plan(tmp_path, migrated=wrong))
    first = found.first
    assert found.status is Status.MISMATCH and first is not None
    assert (first.path, first.category, first.step) == ("Net.gate", Category.NUMBERS, 0)
    assert first.inputs is not None and first.inputs.mean == 0.0
    assert (
        first.operator is not None
        and first.operator["name"] == "aten::sigmoid"
        and first.operator["instead"] == "aten::tanh"
    )
    assert first.operator["site"][1] == 1 + wrong.splitlines().index("        scale = torch.tanh(x).add(1).div(2)")


def test_a_program_that_fails_after_migration_is_a_mismatch_at_its_line(tmp_path: Path) -> None:
    broken = MIGRATED.replace("x.is_mlu", "x.is_cuda")
    found = session.run(plan(tmp_path, migrated=broken, look_closer=False))
    assert found.status is Status.MISMATCH and found.first is not None
    assert "AssertionError" in found.reasons[0]
    assert found.first.site is not None and "is_cuda" in broken.splitlines()[found.first.site[1] - 1]


def test_a_reference_that_fails_is_not_judged(tmp_path: Path) -> None:
    found = session.run(plan(tmp_path, original="raise SystemExit('no data here')\n", reference="cpu"))
    assert found.status is Status.NOT_JUDGED
    assert "the reference run failed with exit status 1: the last it printed is: no data here" in found.reasons[0]


def test_a_reference_that_does_not_repeat_itself_is_not_judged(tmp_path: Path) -> None:
    source = (
        "import os, torch\nm = torch.nn.Linear(2, 1)\no = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "x = torch.frombuffer(bytearray(os.urandom(8)), dtype=torch.uint8).float().view(4, 2)\n"
        "m(x).sum().backward()\no.step()\n"
    )
    found = session.run(plan(tmp_path, original=source, reference="cpu"))
    assert found.status is Status.NOT_JUDGED and "two runs of the reference differ" in found.reasons[0]


FORWARD = """\
import os, torch
net = torch.nn.Linear(8, 4).cuda()
draw = torch.Generator().manual_seed(SEED)
with torch.no_grad():
    for batch in range(3):
        net(torch.randn(2, 8, generator=draw).cuda())
"""


def forward(folder: Path, ours: str, theirs: str) -> Verdict:
    original, migrated = FORWARD.replace("SEED", ours), FORWARD.replace("SEED", theirs)
    migrated = migrated.replace("import os, torch", "import os, torch, torch_mlu").replace("cuda", "mlu")
    return session.run(plan(folder, original, migrated, edits=None, look_closer=False))


def test_other_data_is_found_in_a_program_that_only_computes_forward(tmp_path: Path) -> None:
    found = forward(tmp_path, "1", "2")
    assert found.status is Status.MISMATCH and found.first is not None
    assert (found.first.what, found.first.step) == ("Linear: input 0", 0)


def test_data_that_no_two_runs_get_alike_is_not_blamed_on_the_migration(tmp_path: Path) -> None:
    seed = "int.from_bytes(os.urandom(4), 'big')"
    found = forward(tmp_path, seed, seed)
    assert found.status is Status.NOT_JUDGED and "differ by themselves: Linear: input 0" in found.reasons[0]


def test_a_reference_that_fails_shows_how_without_the_name_of_its_copy(tmp_path: Path) -> None:
    found = session.run(plan(tmp_path, original="import torch\nprint('so far')\nopen(__file__ + 'x')\n"))
    assert found.status is Status.NOT_JUDGED and "No such file or directory: 'train.pyx'" in found.reasons[0]
    assert found.notes[0] == "output of the reference ended with:" and "    so far" in found.notes
    assert not any(str(tmp_path) in text for text in (*found.reasons, *found.notes))


def test_whole_paths_into_the_program_lead_into_the_copy_of_it(tmp_path: Path) -> None:
    programs, copy = (tmp_path / "a b", tmp_path / "mig"), tmp_path / "work" / "candidate"
    asked = [str(tmp_path / "a b" / "train.py"), f"--data={tmp_path}/a b", str(tmp_path / "a b2"), "train.py", "-x=1"]
    wanted = [str(copy / "train.py"), f"--data={copy}", str(tmp_path / "a b2"), "train.py", "-x=1"]
    assert [session._in_copy(word, programs, copy) for word in asked] == wanted


def test_a_reference_that_records_nothing_is_not_judged(tmp_path: Path) -> None:
    found = session.run(plan(tmp_path, original="import torch\nprint('nothing to do')\n", reference="cpu"))
    assert found.status is Status.NOT_JUDGED and "nothing was recorded" in found.reasons[0]


def test_a_reference_that_takes_too_long_is_not_judged(tmp_path: Path) -> None:
    found = session.run(plan(tmp_path, original="import time\ntime.sleep(100)\n", reference="cpu", timeout=1.0))
    assert found.status is Status.NOT_JUDGED and "did not end within 1 s" in found.reasons[0]


def test_without_the_device_nothing_is_run_and_nothing_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_PROBE", "raise RuntimeError('no C++ compiler: install g++')")
    found = session.run(plan(tmp_path))
    assert found.status is Status.NOT_JUDGED and found.runs == []
    assert found.reasons == ["no mlu device: RuntimeError: no C++ compiler: install g++"]


def test_a_program_compared_with_itself_is_not_judged(tmp_path: Path) -> None:
    same = "import torch, torch_mlu\nm = torch.nn.Linear(2, 1).to('mlu')\n"
    same += "m(torch.ones(1, 2, device='mlu')).sum().backward()\n"
    found = session.run(plan(tmp_path, original=same, migrated=same))
    assert found.status is Status.NOT_JUDGED and "the same files" in found.reasons[0]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("ok\nTraceback (most recent call last):\n  File x\nValueError: bad\n", "ValueError: bad"),
        (
            "[rank1]: RuntimeError: no card\nx\ntorch.distributed.elastic.ChildFailedError: \n=====\n",
            "RuntimeError: no card",
        ),
        ("plain words\n", "plain words"),
        ("", "no output"),
    ],
)
def test_the_line_that_says_what_went_wrong_is_found(output: str, line: str) -> None:
    assert session.error_line(output) == line


COMPILED = """\
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4)).cuda()
model = torch.compile(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.randn(4, 8).cuda()).float().pow(2).mean()
    loss.backward()
    opt.step()
"""


def test_compiled_code_that_rounds_and_draws_otherwise_is_no_difference(tmp_path: Path) -> None:
    migrated = COMPILED.replace("import torch\n", "import torch\nimport torch_mlu\n").replace("cuda", "mlu")
    found = session.run(plan(tmp_path, COMPILED, migrated, edits=None, repeat=False))
    assert found.status is Status.MATCH and found.equal == found.compared > 10
    assert any("ran eagerly on both sides" in note for note in found.notes)
