"""What is recorded of programs, and that recording does not change them. On the CPU, without the emulated device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mlu_backend.parity import align, inject, nested, trace, verdict
from mlu_backend.parity.options import VARIABLE, Options
from parity.conftest import TRAIN, environment, plain_output, run_recorded

Recorded = Callable[..., trace.Trace]


def calls(read: trace.Trace) -> list[align.Point]:
    (run,) = align.runs(read).values()
    return [p for p in run.points if p.kind == "call"]


def test_recording_changes_nothing_the_program_computes(training: trace.Trace, tmp_path: Path) -> None:
    seeded = "import random, numpy\nrandom.seed(0); numpy.random.seed(0)\n" + TRAIN
    assert training.meta["output"].split() == plain_output(tmp_path, seeded).split()


def test_data_workers_and_launchers_leave_no_records(training: trace.Trace) -> None:
    assert len(training.processes) == 1


def test_modules_have_paths_and_a_shared_one_keeps_its_first(training: trace.Trace) -> None:
    paths = [p.path for p in calls(training) if p.step == 0 and p.title == p.path]
    assert paths.count("Net.blocks.0.lin") == 2 and "Net.blocks.2.lin" not in paths
    assert paths[-1] == "Net" and "Net.head" in paths


def test_calls_of_one_module_are_numbered_over_the_run(training: trace.Trace) -> None:
    assert [p.nth for p in calls(training) if p.title == "Net.blocks.0.lin"] == list(range(6))


def test_a_recomputed_call_is_marked_and_equals_the_first(training: trace.Trace) -> None:
    points = calls(training)
    again = next(p for p in points if p.title == "Net.blocks.1.lin (recomputed)")
    before = next(p for p in points if p.title == "Net.blocks.1.lin")
    assert again.outputs[""].stats == before.outputs[""].stats


def test_a_call_knows_the_line_that_made_it_and_the_forward_it_ran(training: trace.Trace) -> None:
    head = next(p for p in calls(training) if p.path == "Net.head")
    root = next(p for p in calls(training) if p.path == "Net")
    lines = TRAIN.splitlines()
    assert head.site is not None and head.site[0] == "train.py" and "self.head(x)" in lines[head.site[1] - 1]
    assert root.site is not None and "model(x)" in lines[root.site[1] - 1]
    assert root.source is not None and "def forward" in lines[root.source[1] - 1]


def test_each_tensor_version_is_measured_once(training: trace.Trace) -> None:
    (process,) = training.processes
    norm, linear = [e for e in process.of("call") if e["step"] == 0 and "phase" not in e][:2]
    assert norm["out"][0][1] == linear["in"][0][1]


def test_gradients_of_activations_parameters_and_steps_are_there(training: trace.Trace) -> None:
    (run,) = align.runs(training).values()
    kinds = {p.kind for p in run.points}
    assert {"state", "call", "loss", "grad", "grads", "parameters"} <= kinds
    grads = next(p for p in run.points if p.kind == "grads")
    assert "Net.blocks.0.lin.weight" in grads.outputs and grads.facts["optimizer"] == "AdamW"
    lines = TRAIN.splitlines()
    assert grads.site is not None and "optimizer.step()" in lines[grads.site[1] - 1]
    sites = {e["id"]: e["line"] for e in training.processes[0].of("site")}
    assert all("optimizer.step()" in lines[sites[e["site"]] - 1] for e in training.processes[0].of("step"))
    assert [step for step, _ in run.losses] == [0, 1, 2]
    assert [f"{loss:.9f}" for _, loss in run.losses] == training.meta["output"].split()


def test_parameters_are_recorded_after_the_first_step_every_n_and_at_the_end(recorded: Recorded) -> None:
    (run,) = align.runs(recorded(TRAIN, every=2)).values()
    assert [p.title for p in run.points if p.kind == "parameters"] == [
        "parameters after step 0",
        "parameters after step 1",
        "parameters at the end",
    ]


def test_settings_are_recorded(training: trace.Trace) -> None:
    (process,) = training.processes
    optimizer, loader = process.first("optimizer"), process.first("loader")
    assert optimizer is not None and optimizer["groups"][0]["weight_decay"] == 0.01
    assert loader is not None and loader["sampler"] == "RandomSampler" and loader["length"] == 24
    seeds = list(process.of("seed"))
    assert seeds[0]["function"] == "torch.manual_seed" and seeds[0]["value"] == 0


def test_the_end_is_written_and_no_trouble(training: trace.Trace) -> None:
    (process,) = training.processes
    end = process.first("end")
    assert end is not None and end["reason"] == "exit" and end["steps"] == 3 and not end["troubles"]


def test_steps_ends_the_program_after_that_many(recorded: Recorded) -> None:
    read = recorded(TRAIN, steps=2)
    assert len(read.meta["output"].split()) == 1  # it ends inside the second optimizer step
    end = read.processes[0].first("end")
    assert end is not None and end["reason"] == "steps" and end["steps"] == 2


def test_level_step_has_names_of_parameters_but_no_calls(recorded: Recorded) -> None:
    (run,) = align.runs(recorded(TRAIN, level="step")).values()
    assert "call" not in {p.kind for p in run.points}
    assert "Net.head.bias" in next(p for p in run.points if p.kind == "grads").outputs


def test_a_program_without_modules_is_recorded_operator_by_operator(recorded: Recorded) -> None:
    source = (
        "import torch\nw = torch.randn(4, 4, requires_grad=True)\nfor _ in range(2):\n"
        "    y = torch.tanh(torch.ones(4) @ w).sum()\n    (g,) = torch.autograd.grad(y, w)\n"
        "    with torch.no_grad():\n        w -= 0.1 * g\n"
    )
    (run,) = align.runs(recorded(source)).values()
    names = [p.type for p in run.points if p.kind == "op"]
    assert names.count("aten::tanh") == 2 and "aten::sub_.Tensor" in names
    assert next(p for p in run.points if p.type == "aten::tanh").site == ("train.py", 4, "<module>")
    assert [p.kind for p in run.points if p.kind == "autograd"] == ["autograd"] * 2


def test_operators_are_not_recorded_once_there_is_a_module(training: trace.Trace) -> None:
    (run,) = align.runs(training).values()
    assert not [p for p in run.points if p.kind == "op"]


def test_operator_level_sees_the_backward_pass_too(recorded: Recorded) -> None:
    (run,) = align.runs(recorded(TRAIN.replace("num_workers=1", "num_workers=0"), level="op", steps=1)).values()
    operators = [p for p in run.points if p.kind == "op"]
    assert any(p.type == "aten::native_layer_norm_backward" for p in operators)
    assert any(p.random for p in operators)


def test_a_compiled_model_stays_compiled_and_is_recorded_from_outside(recorded: Recorded) -> None:
    source = (
        "import torch\nfrom torch._dynamo.utils import counters\ntorch.manual_seed(0)\n"
        "m = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), backend='eager')\n"
        "for _ in range(2):\n    m(torch.ones(2, 4)).sum().backward()\n"
        "print(counters['stats']['unique_graphs'], sum(counters['graph_break'].values()))\n"
    )
    read = recorded(source)
    assert read.meta["output"].split() == ["1", "0"]
    assert [p.path for p in calls(read)] == ["OptimizedModule", "OptimizedModule"]


def test_a_compiled_function_stays_compiled_in_a_program_without_modules(recorded: Recorded) -> None:
    source = (
        "import torch\nfrom torch._dynamo.utils import counters\n"
        "f = torch.compile(lambda x: x * 2 + 1, backend='eager', fullgraph=True)\n"
        "for _ in range(2):\n    y = f(torch.ones(2, 4)).sigmoid()\n"
        "print(y[0, 0].item() > 0.9, counters['stats']['unique_graphs'], sum(counters['graph_break'].values()))\n"
    )
    read = recorded(source)
    assert read.meta["output"].split() == ["True", "1", "0"]
    (process,) = read.processes
    named = [e["name"] for e in process.of("op")]
    assert named.count("aten::sigmoid") == 2 and "aten::mul.Tensor" not in named


def test_a_compiled_model_stays_compiled_at_the_level_of_operators(recorded: Recorded) -> None:
    source = (
        "import torch\nfrom torch._dynamo.utils import counters\n"
        "m = torch.compile(torch.nn.Linear(4, 4), backend='eager', fullgraph=True)\n"
        "m(torch.ones(2, 4)).sigmoid()\n"
        "print(counters['stats']['unique_graphs'], sum(counters['graph_break'].values()))\n"
    )
    read = recorded(source, level="op")
    assert read.meta["output"].split() == ["1", "0"]
    (process,) = read.processes
    assert "aten::sigmoid" in [e["name"] for e in process.of("op")]


def test_loss_scaling_records_the_scale_and_the_unscaled_loss(recorded: Recorded) -> None:
    source = (
        "import torch\ntorch.manual_seed(0)\nm = torch.nn.Linear(2, 1)\no = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "s = torch.amp.GradScaler('cpu', init_scale=8.0)\n"
        "loss = m(torch.ones(3, 2)).mean()\ns.scale(loss).backward()\ns.step(o)\ns.update()\nprint(loss.item())\n"
    )
    read = recorded(source)
    (process,) = read.processes
    assert [(e["what"], e["scale"]) for e in process.of("scaler")] == [("made", 8.0), ("update", 8.0)]
    (run,) = align.runs(read).values()
    assert run.losses[0][1] == pytest.approx(float(read.meta["output"]), rel=1e-6)


def test_each_rank_has_its_records_and_collectives(recorded: Recorded) -> None:
    source = (
        "import os, torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n\n\n"
        "def work(rank, port):\n"
        "    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))\n"
        "    dist.init_process_group('gloo', rank=rank, world_size=2)\n"
        "    t = torch.full((2,), float(rank + 1))\n    dist.all_reduce(t, op=dist.ReduceOp.MAX)\n"
        "    torch.nn.Linear(2, 2)(t)\n    dist.destroy_process_group()\n\n\n"
        "if __name__ == '__main__':\n    import socket\n    s = socket.socket(); s.bind(('127.0.0.1', 0))\n"
        "    port = s.getsockname()[1]; s.close()\n    mp.spawn(work, (port,), nprocs=2)\n"
    )
    runs = align.runs(recorded(source))
    assert sorted(runs) == [(0, 0), (1, 0)]
    for run in runs.values():
        (collective,) = [p for p in run.points if p.kind == "collective"]
        assert collective.facts == {"collective": "all_reduce", "reduction": "MAX", "group size": 2}
        assert collective.inputs["0"].stats is not None and collective.outputs["0"].stats is not None
        assert collective.inputs["0"].stats.max == run.rank + 1 and collective.outputs["0"].stats.max == 2.0


def test_a_module_that_raises_is_written_down_and_the_error_is_the_programs(recorded: Recorded) -> None:
    source = (
        "import torch\nclass Bad(torch.nn.Module):\n    def forward(self, x):\n        raise KeyError('mine')\n"
        "try:\n    Bad()(torch.ones(1))\nexcept KeyError as e:\n    print('caught', e)\n"
    )
    read = recorded(source)
    assert "caught 'mine'" in read.meta["output"]
    assert calls(read)[0].facts["ended"] == "raised"


def test_a_program_that_is_killed_leaves_what_it_did(tmp_path: Path) -> None:
    again = "loss = nn.functional.cross_entropy(model(x), y); loss.backward(); optimizer.step()"
    source = TRAIN + f"    import os, time\n    time.sleep(3)\n    {again}\n    os.kill(os.getpid(), 9)\n"
    run_recorded(tmp_path, source, status=-9)
    (process,) = trace.read(tmp_path / "trace").processes
    assert process.first("end") is None
    assert len(list(process.of("step"))) == 4
    assert any(p.kind == "grads" for p in align.points(process).points)


def test_a_program_that_leaves_by_os_exit_has_a_whole_record(recorded: Recorded) -> None:
    source = TRAIN + "    import os\n    model(x)\n    os._exit(0)\n"
    (process,) = recorded(source).processes
    end = process.first("end")
    assert end is not None and end["reason"] == "os._exit" and process.events[-1] is end
    assert calls(recorded(source))[-1].step == 3


def test_calls_inside_transforms_are_measured_whole(recorded: Recorded) -> None:
    """The batch of ``vmap`` and the value below ``grad``, as the modules compute them without a transform."""
    source = (
        "import torch\nfrom torch.func import functional_call, grad, vmap\n"
        "torch.manual_seed(0)\nmodel = torch.nn.Linear(3, 1)\nx = torch.randn(4, 3)\nmodel(x)\n"
        "parameters = dict(model.named_parameters())\n"
        "loss = lambda p, one: functional_call(model, p, (one,)).sum()\n"
        "seen = vmap(grad(loss), in_dims=(None, 0))(parameters, x)\n"
        "assert torch.equal(seen['weight'][:, 0], x)\nprint('right')\n"
    )
    read = recorded(source)
    assert "right" in read.meta["output"] and not list(read.processes[0].of("trouble"))
    plain, transformed = (call.outputs[""] for call in calls(read))
    assert transformed.stats is not None and plain.stats is not None
    assert transformed.kind.shape == plain.kind.shape == (4, 1)
    assert transformed.stats.norm == pytest.approx(plain.stats.norm, rel=1e-6)


def test_processes_that_run_at_once_are_numbered_as_they_were_started(recorded: Recorded) -> None:
    source = (
        "import time\nimport torch\nimport torch.multiprocessing as mp\n"
        "if mp.current_process().name.endswith('-1'):\n    time.sleep(4.0)\n"
        "torch.manual_seed(1)\n\n\ndef work(number):\n    torch.nn.Linear(number, 1)(torch.ones(1, number))\n\n\n"
        "if __name__ == '__main__':\n    context = mp.get_context('spawn')\n"
        "    children = [context.Process(target=work, args=(i,)) for i in (1, 2)]\n"
        "    [c.start() for c in children]\n    [c.join() for c in children]\n"
    )
    runs = align.runs(recorded(source))
    assert [r.points[-1].inputs["0"].kind.shape for r in runs.values()] == [(1, 1), (1, 2)]


def test_a_list_that_holds_itself_is_gone_through_once() -> None:
    tensor = torch.ones(1)
    inner: list[object] = [tensor]
    inner.extend([inner] * 40)
    assert [name for name, _ in nested.arguments((tensor, inner, {"x": (tensor,)}), {"k": inner})] == [
        "0", "1.0", "2.x.0", "k.0",
    ]  # fmt: skip
    whole: dict[str, object] = {"net": torch.nn.Linear(1, 1), "all": [tensor] * 2}
    whole.update({f"again{i}": whole for i in range(40)})
    assert [name for name, _ in nested.saved(whole)] == ["net.weight", "net.bias", "all.0", "all.1"]


def test_parameters_a_module_got_later_have_their_names_at_every_level(recorded: Recorded) -> None:
    source = (
        "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))\n"
        "net(torch.ones(1, 2))\nnet[1] = torch.nn.Linear(2, 1)\nnet[0].weight = torch.nn.Parameter(torch.ones(2, 2))\n"
        "opt = torch.optim.SGD([*net.parameters(), torch.ones(1, requires_grad=True)], 0.1)\n"
        "net(torch.ones(1, 2)).sum().backward()\nopt.step()\n"
    )
    names = [
        [name for name, _ in recorded(source, level=level).processes[0].first("parameters")["items"]]
        for level in ("module", "step")
    ]
    wanted = ["Sequential.0.weight", "Sequential.0.bias", "Sequential.1.weight", "Sequential.1.bias"]
    assert names[0] == names[1] == [*wanted, "optimizer0.group0.4"]


def test_what_is_saved_is_judged_though_nothing_else_shows_it(recorded: Recorded) -> None:
    source = (
        "import copy, torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 2))\nmean = copy.deepcopy(net)\n"
        "net(torch.ones(1, 2)).sum().backward()\ntorch.optim.SGD(net.parameters(), 0.1).step()\n"
        "torch.save({'net': net, 'mean': mean.state_dict(), 'step': 1, 'more': [torch.ones(3)]}, 'net.pt')\n"
    )
    ours = recorded(source)
    theirs = recorded(source.replace("torch.save", "mean[0].bias.data += 1; torch.save"))
    first = verdict.judge(ours, theirs, verdict.Question(need_device=False)).first
    assert first is not None and first.what == "torch.save: mean.0.bias"
    assert first.site == ("train.py", 6, "<module>")
    names = [name for name, _ in ours.processes[0].first("saved")["items"]]
    assert names == ["net.0.weight", "net.0.bias", "mean.0.weight", "mean.0.bias", "more.0"]


def test_lazy_modules_ragged_tensors_and_a_faulty_repr_are_no_trouble(recorded: Recorded) -> None:
    source = (
        "import torch\nclass Odd(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "    def extra_repr(self):\n        raise RuntimeError('no words')\n"
        "torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.LazyBatchNorm1d())(torch.ones(3, 4))\n"
        "torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 2)).eval())(torch.ones(1, 2))\n"
        "for layout in (torch.jagged, torch.strided):\n"
        "    Odd()(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout))\n"
    )
    process = recorded(source).processes[0]
    found = list(process.of("call"))
    assert not list(process.of("trouble")) and len(found) == 6
    for row in (process.rows[call["in"][0][1]] for call in found[-2:]):
        assert row.kind.shape[0] == 2 and -1 in row.kind.shape
        assert row.stats is not None and row.stats.norm == pytest.approx(18**0.5)


def test_other_elements_in_the_same_version_of_a_tensor_are_seen(recorded: Recorded) -> None:
    source = (
        "import torch\nx = torch.ones(2, 2)\nnet = torch.nn.Identity()\nnet(x)\nx.data = torch.zeros(2, 2)\nnet(x)\n"
    )
    process = recorded(source).processes[0]
    norms = [process.rows[call["in"][0][1]].stats.norm for call in process.of("call")]
    assert norms == [2.0, 0.0]


def test_a_momentum_that_only_averages_follow_is_named(recorded: Recorded) -> None:
    source = (
        "import torch\nnet = torch.nn.BatchNorm1d(2, momentum=0.1)\n"
        "net(torch.ones(3, 2)).sum().backward()\ntorch.optim.SGD(net.parameters(), 0.1).step()\n"
    )
    theirs = recorded(source.replace("0.1)\n", "0.2)\n", 1))
    first = verdict.judge(recorded(source), theirs, verdict.Question(need_device=False)).first
    assert first is not None and first.what == "BatchNorm1d: options" and "momentum=0.2" in first.candidate


def test_a_program_that_replaces_itself_leaves_its_records(recorded: Recorded) -> None:
    source = (
        "import os, sys, torch\ntorch.nn.Linear(2, 1)(torch.ones(1, 2))\n"
        "if len(sys.argv) == 1:\n    os.execl(sys.executable, sys.executable, 'train.py', 'again')\n"
    )
    read = recorded(source)
    assert [p.first("end")["reason"] for p in read.processes] == ["exec", "exit"]
    assert all(len(list(p.of("call"))) == 1 for p in read.processes)


@pytest.mark.parametrize("kept", ["", "old = opt"])
def test_steps_go_on_when_a_second_training_takes_another_optimizer(recorded: Recorded, kept: str) -> None:
    source = (
        "import torch\nnet = torch.nn.Linear(2, 1)\n"
        "def steps(count):\n    for _ in range(count):\n"
        "        net(torch.ones(1, 2)).sum().backward()\n        opt.step()\n"
        f"opt = torch.optim.SGD(net.parameters(), 0.1)\nsteps(3)\n{kept}\n"
        "opt = torch.optim.SGD(net.parameters(), 0.1)\nsteps(25)\n"
    )
    read = recorded(source)
    steps = [e["step"] for e in read.processes[0].of("step")]
    assert steps[-1] == (27 if not kept else 3 + 25 - 21)


def test_the_command_line_gives_the_programs_status_and_refuses_nothing_to_run(tmp_path: Path) -> None:
    base = [sys.executable, "-m", "mlu_backend.parity.record", str(tmp_path / "t")]
    run = lambda *more: subprocess.run([*base, *more], env=environment(), capture_output=True, text=True, timeout=240)  # noqa: E731
    assert run("--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    assert run().returncode == 2
    assert run("--").returncode == 2
    gone = run("--", "no-such-program-here")
    assert gone.returncode == 2 and "cannot record" in gone.stderr


def test_on_torch_without_entry_points_a_sitecustomize_starts_us_and_runs_the_one_it_hides(tmp_path: Path) -> None:
    hidden = tmp_path / "site"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("print('hidden ran')\n")
    (tmp_path / "train.py").write_text("import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n")
    out = tmp_path / "t"
    env = environment()
    env[VARIABLE] = Options(out=str(out), root=str(tmp_path)).to_environment()
    env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    env["PYTHONPATH"] = os.pathsep.join([str(inject.HOOKS / "site"), str(hidden), env["PYTHONPATH"]])
    trace.write_meta(out)
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0 and done.stdout == "hidden ran\n", done.stderr
    assert [p.path for p in calls(trace.read(out))] == ["Linear"]


def test_a_folder_that_holds_something_else_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(FileExistsError, match="holds no trace"):
        run_recorded(tmp_path, "print(1)", out=str(tmp_path))
    assert (tmp_path / "mine.txt").read_text() == "keep"
