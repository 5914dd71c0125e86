"""The judgement, on traces written by hand: order of checks, first divergence, limits, never vacuous."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mlu_backend.parity import report, trace, verdict
from mlu_backend.parity.findings import Category, Status
from mlu_backend.parity.statistics import measure
from mlu_backend.parity.verdict import Question

Change = Callable[["Made"], None]


class Made:
    """A small trace: two modules in a root, two steps. Attributes are what a test changes before it is written."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.device = "mlu"
        self.weight = {"Net.a.weight": torch.randn(8, 8), "Net.b.weight": torch.randn(8, 8)}
        self.x = [torch.randn(4, 8) for _ in range(2)]
        self.a = [torch.randn(4, 8) for _ in range(2)]
        self.b = [torch.randn(4, 8) for _ in range(2)]
        self.grad = [torch.randn(4, 8) for _ in range(2)]
        self.losses = [1.0, 0.5]
        self.facts: dict[str, dict[str, Any]] = {"Net.a": {}, "Net.b": {}, "Net": {}}
        self.types = {
            "Net.a": "torch.nn.modules.linear.Linear",
            "Net.b": "torch.nn.modules.linear.Linear",
            "Net": "train.Net",
        }
        self.environment: dict[str, Any] = {"torch": "2.13.0", "default_dtype": "float32"}
        self.seeds: list[tuple[int, str]] = [(0, "s0")]
        self.decay = 0.01
        self.devices: dict[str, str] = {}
        self.calls = 2
        self.sources: dict[str, str] | None = None
        self.rank, self.world = 0, 1
        self.lr = [0.1, 0.1]
        self.trouble: str | None = None
        self.compiled = True
        self.drawn: dict[int, str] = {}
        self.status: int | None = 0
        self.ended = True

    def write(self, folder: Path) -> trace.Trace:
        sources = {"sources": self.sources} if self.sources is not None else {}
        trace.write_meta(folder, status=self.status, **sources)
        w = trace.Writer(folder)

        def stat(tensor: torch.Tensor, device: str | None = None) -> int:
            kind = trace.Kind(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), device or self.device)
            return w.stat(kind, measure(tensor))

        w.event(
            k="process",
            pid=1,
            argv=["train.py"],
            rank=self.rank,
            world=self.world,
            seed=0,
            environment=self.environment,
        )
        w.event(k="site", id=0, file="train.py", line=12, function="main")
        if self.compiled:
            w.event(k="compiled", step=0, site=0)
        w.event(k="site", id=1, file="model.py", line=7, function="forward")
        if self.trouble:
            w.event(k="trouble", text=self.trouble)
        for value, before in self.seeds:
            w.event(k="seed", step=0, site=0, function="torch.manual_seed", value=value, before=before)
        parameters = [[n, stat(t)] for n, t in self.weight.items()]
        w.event(k="state", root="Net", step=0, parameters=parameters, buffers=[])
        for i, (path, kind) in enumerate(self.types.items()):
            w.event(k="module", id=i, path=path, type=kind, source=["model.py", 5, 9], options="", parameters=1)
        for step in range(self.calls):
            x, a, b = stat(self.x[step]), stat(self.a[step], self.devices.get("Net.a")), stat(self.b[step])
            w.event(k="enter", id=3 * step + 2, m=2, step=step)
            for i, (path, given, made) in enumerate((("Net.a", x, a), ("Net.b", a, b), ("Net", x, b))):
                w.event(
                    k="call",
                    id=3 * step + i,
                    m=i,
                    n=step,
                    step=step,
                    train=self.facts[path].get("train", True),
                    site=0 if path == "Net" else 1,
                    out=[["", made]],
                    **{"in": [["0", given]]},
                    **({"autocast": "device:float16"} if self.facts[path].get("autocast") else {}),
                    **({} if path == "Net" else {"parent": 3 * step + 2}),
                )
            loss = stat(torch.tensor(self.losses[step]))
            w.event(k="loss", step=step, roots=[["0", loss]], site=0)
            w.event(k="grad", of=a, s=stat(self.grad[step]), step=step)
            items = [["Net.a.weight", stat(self.grad[step] * 2)]]
            w.event(k="grads", step=step, opt=0, items=items, scale=None, type="SGD", site=0)
            if step == 0:
                groups = [{"count": 2, "weight_decay": self.decay}]
                w.event(k="optimizer", opt=0, step=0, type="SGD", groups=groups, site=0)
            w.event(k="step", step=step, opt=0, lr=[self.lr[step]], site=0)
            w.event(k="random", when="step", step=step, states={"device": self.drawn.get(step, "")})
        if self.ended:
            w.event(k="end", reason="exit", steps=self.calls, troubles={})
        w.close()
        return trace.read(folder)


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., verdict.Verdict]:
    """``judged(change, **question)``: the verdict on two equal traces of which the candidate's was changed."""

    def run(change: Change = lambda made: None, before: Change = lambda made: None, **question: Any) -> verdict.Verdict:
        ours, theirs = Made(), Made()
        before(ours)
        change(theirs)
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        return verdict.judge(ours.write(folder / "a"), theirs.write(folder / "b"), Question(**question))

    return run


Judged = Callable[..., verdict.Verdict]


def test_equal_traces_match_bit_for_bit(judged: Judged) -> None:
    found = judged()
    assert found.status is Status.MATCH and found.compared == found.equal > 10 and found.first is None
    assert found.steps == 2 and found.calls == 6 and found.ranks == 1


def test_noise_within_the_limit_matches_and_beyond_it_does_not(judged: Judged, tmp_path: Path) -> None:
    def noise(size: float) -> Change:
        return lambda made: made.b.__setitem__(0, made.b[0] * (1 + size))

    within = judged(noise(1e-6))
    assert within.status is Status.MATCH and within.within > 0 and within.equal < within.compared


def test_a_divergence_names_the_first_call_whose_inputs_agree(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.a[1] = made.a[1] * 1.01
        made.b[1] = made.b[1] * 1.02

    first = judged(change).first
    assert first is not None and (first.path, first.step, first.category) == ("Net.a", 1, Category.NUMBERS)
    assert first.inputs is not None and first.inputs.mean == 0.0
    assert first.outputs is not None and first.outputs.mean == pytest.approx(0.01, rel=0.01)
    assert first.site == ("model.py", 7, "forward") and first.source == ("model.py", 5, 9)


def test_other_data_is_a_divergence_of_its_own(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.x[1] = made.x[1].flip(0)
        made.a[1], made.b[1], made.losses[1] = made.a[1] * 1.5, made.b[1] * 1.5, 0.6

    first = judged(change).first
    assert first is not None and (first.what, first.step, first.kind) == ("Net: input 0", 1, "input")
    assert first.site == ("train.py", 12, "main")


def test_other_data_is_found_where_nothing_else_is_judged(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.x[0], made.a[0], made.b[0] = (torch.randn(4, 8) for _ in range(3))

    found = judged(change)
    assert found.status is Status.MISMATCH and found.first is not None and found.first.what == "Net: input 0"


def test_inputs_a_program_makes_of_what_has_moved_are_not_judged(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.b[0] = made.b[0] * (1 + 1e-4)
        made.x[1] = made.x[1].flip(0)

    assert judged(change, profile="mlu590").status is Status.MATCH


def test_data_another_device_may_have_drawn_cannot_be_judged(judged: Judged) -> None:
    found = judged(lambda made: made.x.__setitem__(0, torch.randn(4, 8)), reference="trace")
    assert found.status is Status.NOT_JUDGED and "Net: input 0 is other data from the start" in found.reasons[0]


def test_what_follows_from_a_divergence_is_not_blamed(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.a[0] = made.a[0] * 1.01
        made.b[0] = made.b[0] * 1.01  # as much as came in

    found = judged(change)
    assert "Net.b" not in {d.path for d in found.differences}


def test_structure_comes_before_numbers(judged: Judged) -> None:
    found = judged(lambda made: made.a.__setitem__(0, made.a[0].half()))
    assert found.first is not None and found.first.category is Category.STRUCTURE
    assert (found.first.reference, found.first.candidate) == ("float32", "float16")


def test_a_shape_that_differs_is_structure(judged: Judged) -> None:
    first = judged(lambda made: made.a.__setitem__(0, made.a[0][:2])).first
    assert first is not None and first.what == "Net.a: shape"


def test_a_layer_left_on_the_cpu_is_structure_though_its_numbers_are_right(judged: Judged) -> None:
    found = judged(lambda made: made.devices.update({"Net.a": "cpu"}))
    assert found.status is Status.MISMATCH and found.first is not None
    assert (found.first.path, found.first.reference, found.first.candidate) == ("Net.a", "mlu", "cpu")


def test_cuda_in_a_recorded_trace_answers_to_mlu(judged: Judged) -> None:
    assert judged(before=lambda made: setattr(made, "device", "cuda"), reference="trace").status is Status.MATCH


def test_inf_and_nan_are_compared_before_numbers(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.b[0] = made.b[0].clone()
        made.b[0][0, 0] = float("nan")

    first = judged(change).first
    assert first is not None and first.category is Category.NONFINITE and first.candidate == "1"


def test_one_changed_weight_is_found_before_the_first_step(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.weight["Net.b.weight"] = made.weight["Net.b.weight"].clone()
        made.weight["Net.b.weight"][3, 3] += 1e-6

    first = judged(change).first
    assert first is not None and first.path == "Net.b" and first.kind == "state"


def test_a_gradient_that_differs_blames_the_module_whose_backward_made_it(judged: Judged) -> None:
    first = judged(lambda made: made.grad.__setitem__(0, made.grad[0] * 1.5)).first
    assert first is not None and first.kind == "grad" and first.path == "Net.b"


def test_settings_come_before_all_numbers(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.decay = 0.0
        made.a[0] = made.a[0] * 2

    first = judged(change).first
    assert first is not None and first.category is Category.CONFIGURATION
    assert first.what.startswith("optimizer settings") and first.site == ("train.py", 12, "main")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda made: made.seeds.append((1, "s1")), "seed 2"),
        (lambda made: made.seeds.__setitem__(0, (5, "s0")), "seed 1"),
        (lambda made: made.seeds.__setitem__(0, (0, "other")), "order of seeding"),
        (lambda made: made.environment.update(default_dtype="float64"), "default dtype"),
        (lambda made: setattr(made, "world", 4), "world size"),
        (lambda made: made.lr.__setitem__(1, 0.01), "learning rate of step 1"),
    ],
    ids=["one more seed", "another seed", "draws before it", "default dtype", "world size", "learning rate"],
)
def test_each_setting_that_differs_is_named(judged: Judged, change: Change, words: str) -> None:
    found = judged(change)
    assert found.status is Status.MISMATCH and found.first is not None and found.first.what.startswith(words)
    if words.startswith("learning rate"):
        assert found.first.site == ("train.py", 12, "main")


def test_another_version_is_a_note_and_no_fault(judged: Judged) -> None:
    found = judged(lambda made: made.environment.update(torch="2.4.1"))
    assert found.status is Status.MATCH and any("2.4.1" in note for note in found.notes)


def test_a_switch_lost_for_a_whole_model_is_placed_where_the_model_was_called(judged: Judged) -> None:
    def change(made: Made) -> None:
        for facts in made.facts.values():
            facts["train"] = False

    first = judged(change).first
    assert first is not None and first.what == "Net: training" and first.site == ("train.py", 12, "main")


def test_a_lost_autocast_is_structure(judged: Judged) -> None:
    def on(made: Made) -> None:
        for facts in made.facts.values():
            facts["autocast"] = True

    first = judged(before=on).first
    assert first is not None and first.what == "Net: autocast"
    assert (first.reference, first.candidate) == ("device:float16", "None")


def test_a_call_that_did_not_happen_is_named(judged: Judged) -> None:
    found = judged(lambda made: setattr(made, "calls", 1))
    assert found.status is Status.MISMATCH
    assert any(d.what == "Net.a, occurrence 2" and d.candidate == "did not happen" for d in found.differences)


def test_the_loss_curve_has_a_verdict_of_its_own(judged: Judged) -> None:
    found = judged(lambda made: made.losses.__setitem__(1, 0.5 * (1 + 1e-4)))
    assert found.status is Status.MISMATCH and found.first is not None and found.first.what == "loss of step 1"
    assert "within" in found.first_step and "beyond" in found.loss_curve
    assert found.first.site == ("train.py", 12, "main")


def test_a_loss_that_differs_is_named_before_the_gradients_made_from_it(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.losses[1] = 0.6
        made.grad[1] = made.grad[1] * 1.2

    first = judged(change).first
    assert first is not None and (first.what, first.kind) == ("loss of step 1", "curve")

    def wrong_backward(made: Made) -> None:
        change(made)
        made.losses[1] = 0.5

    first = judged(wrong_backward).first
    assert first is not None and first.kind == "grad"

    def wrong_call(made: Made) -> None:
        change(made)
        made.b[1] = made.b[1] * 1.2

    first = judged(wrong_call).first
    assert first is not None and first.path == "Net.b"


def test_a_loss_off_by_less_than_a_percent_is_caught_in_exact_and_admitted_in_a_hardware_profile(
    tmp_path: Path,
) -> None:
    ours, theirs = Made(), Made()
    theirs.losses = [1.001, 0.5]
    a, b = ours.write(tmp_path / "a"), theirs.write(tmp_path / "b")
    assert verdict.judge(a, b, Question()).status is Status.MISMATCH
    assert verdict.judge(a, b, Question(profile="mlu590")).status is Status.MATCH


def test_a_profile_that_rounds_admits_rounding_and_not_a_fault(tmp_path: Path) -> None:
    ours, rounded, wrong = Made(), Made(), Made()
    rounded.a[0] = rounded.a[0] * (1 + 5e-4)
    wrong.a[0] = wrong.a[0] * 1.05
    a = ours.write(tmp_path / "a")
    question = Question(profile="mlu590")
    assert verdict.judge(a, rounded.write(tmp_path / "b"), question).status is Status.MATCH
    assert verdict.judge(a, wrong.write(tmp_path / "c"), question).status is Status.MISMATCH


def test_a_gradient_that_is_only_rounding_is_no_false_alarm_and_a_real_one_is_judged(tmp_path: Path) -> None:
    a, b, c = (trace.Writer(tmp_path / n) for n in "abc")
    for writer, small, large in ((a, 1e-9, 1.0), (b, 3e-8, 1.0), (c, 1e-9, 1.5)):
        trace.write_meta(writer.folder.parent)
        items = []
        for name, size in (("Net.bias", small), ("Net.weight", large)):
            tensor = torch.linspace(-1, 1, 40) * size
            items.append([name, writer.stat(trace.Kind((40,), "float32", "mlu"), measure(tensor))])
        writer.event(k="grads", step=0, opt=0, items=items, scale=None, type="SGD")
        writer.close()
    read = [trace.read(tmp_path / n) for n in "abc"]
    question = Question(profile="mlu590")
    assert verdict.judge(read[0], read[1], question).status is Status.MATCH
    assert verdict.judge(read[0], read[2], question).first.path == "Net"  # type: ignore[union-attr]


def test_nothing_recorded_is_not_judged(tmp_path: Path) -> None:
    trace.write_meta(tmp_path / "empty")
    found = verdict.judge(trace.read(tmp_path / "empty"), Made().write(tmp_path / "b"), Question())
    assert found.status is Status.NOT_JUDGED and "nothing was recorded in the reference run" in found.reasons[0]


def test_a_candidate_on_the_cpu_is_not_judged(judged: Judged) -> None:
    found = judged(
        lambda made: setattr(made, "device", "cpu"), before=lambda made: setattr(made, "device", "cpu"), reference="cpu"
    )
    assert found.status is Status.NOT_JUDGED and "no tensor of the candidate lived on mlu" in found.reasons[0]


def test_two_runs_of_the_same_files_are_not_judged(judged: Judged) -> None:
    def same(made: Made) -> None:
        made.sources = {"train.py": "abc"}

    found = judged(same, before=same)
    assert found.status is Status.NOT_JUDGED and "the same files" in found.reasons[0]


def test_one_program_for_all_devices_may_be_compared_with_its_run_on_a_gpu(judged: Judged) -> None:
    def same(made: Made) -> None:
        made.sources = {"train.py": "abc"}

    def on_gpu(made: Made) -> None:
        same(made)
        made.device = "cuda"

    assert judged(same, before=on_gpu, reference="trace").status is Status.MATCH


def test_a_match_in_which_the_recorder_failed_is_none(judged: Judged) -> None:
    found = judged(lambda made: setattr(made, "trouble", "TypeError: odd tensor"))
    assert found.status is Status.NOT_JUDGED and "TypeError: odd tensor" in found.reasons[0]
    worse = judged(lambda made: (setattr(made, "trouble", "TypeError: odd tensor"), setattr(made, "decay", 0.0)))
    assert worse.status is Status.MISMATCH and any("odd tensor" in note for note in worse.notes)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "the candidate program ended with exit status 1"),
        (-9, "the candidate program was killed by signal 9"),
        (None, "the candidate program did not end in the time it was given"),
    ],
)
def test_a_match_with_a_program_that_failed_is_none(judged: Judged, status: int | None, words: str) -> None:
    found = judged(lambda made: setattr(made, "status", status))
    assert found.status is Status.NOT_JUDGED and found.reasons == [words]
    worse = judged(lambda made: (setattr(made, "status", status), setattr(made, "decay", 0.0)))
    assert worse.status is Status.MISMATCH and words in worse.notes


def test_what_a_killed_program_did_not_come_to_is_not_blamed(judged: Judged) -> None:
    def killed(made: Made) -> None:
        made.calls, made.ended, made.status = 1, False, -9

    found = judged(killed)
    assert found.status is Status.NOT_JUDGED and "was killed by signal 9" in found.reasons[0]


def test_a_record_that_breaks_off_is_told_with_its_step(judged: Judged) -> None:
    found = judged(lambda made: setattr(made, "ended", False))
    assert found.status is Status.MATCH and len(found.notes) == 1
    assert found.notes[0].startswith("the records of the candidate's process 1 break off in step 1")


def test_the_losses_of_every_rank_are_judged(tmp_path: Path) -> None:
    read = []
    for name, loss in (("a", 0.5), ("b", 0.5 * (1 + 1e-4)), ("c", 0.5)):
        for rank in (0, 1):
            made = Made()
            made.rank, made.world = rank, 2
            if rank == 1:
                made.losses[1] = loss
            read_last = made.write(tmp_path / name)
        read.append(read_last)
    ours, theirs, same = read
    found = verdict.judge(ours, theirs, Question())
    assert found.status is Status.MISMATCH and found.first is not None
    assert (found.first.what, found.first.rank) == ("loss of step 1", 1)
    assert found.losses[1].error > 5e-5 and "of rank 1" in found.loss_curve and "beyond" in found.loss_curve
    assert "of rank 0" in verdict.judge(ours, same, Question()).loss_curve


def test_generator_states_in_checkpoints_of_two_kinds_of_device_are_not_compared(tmp_path: Path) -> None:
    read = []
    for name, device, state in (("a", "cuda", torch.zeros(16)), ("b", "mlu", torch.ones(24))):
        trace.write_meta(tmp_path / name, status=0)
        writer = trace.Writer(tmp_path / name)
        items = []
        for key, tensor, where in (("w", torch.ones(3), device), ("rng", state.to(torch.uint8), "cpu")):
            kind = trace.Kind(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), where)
            items.append([key, writer.stat(kind, measure(tensor))])
        writer.event(k="saved", step=0, items=items)
        writer.event(k="end", reason="exit", steps=0, troubles={})
        writer.close()
        read.append(trace.read(tmp_path / name))
    assert verdict.judge(read[0], read[1], Question(reference="trace")).status is Status.MATCH
    assert verdict.judge(read[0], read[1], Question()).status is Status.MISMATCH


def test_traces_of_which_no_tensor_could_be_read_are_not_judged(tmp_path: Path) -> None:
    read = []
    for name in "ab":
        trace.write_meta(tmp_path / name)
        writer = trace.Writer(tmp_path / name)
        number = writer.stat(trace.Kind((4,), "float32", "mlu"), None)
        writer.event(k="state", root="Net", step=0, parameters=[["Net.w", number]], buffers=[])
        writer.close()
        read.append(trace.read(tmp_path / name))
    found = verdict.judge(read[0], read[1], Question())
    assert found.status is Status.NOT_JUDGED and "none of the 1 recorded tensors" in found.reasons[0]
    assert "1 more could not be read" in report.figures(found)


def test_random_numbers_of_another_device_cannot_be_judged(judged: Judged) -> None:
    def dropout(made: Made) -> None:
        made.types["Net.a"] = "torch.nn.modules.dropout.Dropout"

    def change(made: Made) -> None:
        dropout(made)
        made.a[0] = made.a[0].flip(0)

    assert judged(change, before=dropout, reference="trace").status is Status.NOT_JUDGED


def test_numbers_that_compiled_code_drew_cannot_be_judged(judged: Judged) -> None:
    def other(made: Made) -> None:
        made.b[1], made.drawn[1] = made.b[1] * 1.5, "other"

    def eager(made: Made) -> None:
        other(made)
        made.compiled = False

    found = judged(other)
    assert found.status is Status.NOT_JUDGED and "TORCH_COMPILE_DISABLE=1" in found.reasons[0]
    assert judged(eager).status is Status.MISMATCH
    assert judged(lambda made: made.b.__setitem__(1, made.b[1] * 1.5)).status is Status.MISMATCH


def test_the_same_draws_on_the_same_device_are_judged(judged: Judged) -> None:
    def dropout(made: Made) -> None:
        made.types["Net.a"] = "torch.nn.modules.dropout.Dropout"

    def change(made: Made) -> None:
        dropout(made)
        made.a[0] = made.a[0].flip(0)

    assert judged(change, before=dropout).status is Status.MISMATCH


def test_another_number_of_ranks_is_named(tmp_path: Path) -> None:
    other = Made()
    other.rank = 1
    found = verdict.judge(Made().write(tmp_path / "a"), other.write(tmp_path / "b"), Question())
    assert found.first is not None and found.first.what.startswith("recorded processes")


def test_ten_worst_are_kept_in_order(judged: Judged) -> None:
    def change(made: Made) -> None:
        made.a[0], made.b[1] = made.a[0] * 1.1, made.b[1] * 1.2

    worst = judged(change).worst
    assert len(worst) <= 10 and [w["over"] for w in worst] == sorted((w["over"] for w in worst), reverse=True)


def test_errors_are_kept_by_layer_and_step(judged: Judged) -> None:
    layers = judged(lambda made: made.a.__setitem__(1, made.a[1] * 1.1)).layers
    assert layers["Net.a"][0] == 0.0 and layers["Net.a"][1] == pytest.approx(0.1, rel=0.01)
