"""Habits that concern whole programs: threads, flags of Python, exits, profiles, utilities of torch, wrong use."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_mlu  # noqa: F401
from _programs import clean, run

pytestmark = pytest.mark.slow  # minutes in all: for the nightly run


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_default_device(None)
    torch.mlu.set_device(0)


def in_a_thread(function: Callable[[], object]) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


# Threads and processes.


def test_a_thread_begins_on_the_first_card_and_the_default_stream() -> None:
    torch.mlu.set_device(1)
    stream = torch.mlu.Stream(1)
    with torch.mlu.stream(stream):
        assert in_a_thread(torch.mlu.current_device) == 0
        assert in_a_thread(lambda: torch.ones(1, device="mlu").device.index) == 0
        assert in_a_thread(lambda: torch.mlu.current_stream(1) == torch.mlu.default_stream(1))
        assert torch.mlu.current_stream() == stream


@pytest.mark.parametrize("flags", [["-W", "error"], ["-O"], ["-X", "dev"], ["-B"], ["-X", "utf8"]])
def test_flags_of_python_change_nothing(flags: list[str]) -> None:
    code = "import torch, torch_mlu; print(torch.ones(2, device='mlu').sum().item())"
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], env=clean(), capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr
    if "dev" not in flags:  # which shows warnings of torch itself
        assert done.stderr == ""


def test_a_program_ends_quietly_with_everything_still_alive() -> None:
    done = run(
        """
        import atexit, torch, torch_mlu
        x = torch.randn(4, 4, device="mlu", requires_grad=True)
        y = (x @ x).sum()
        stream, event = torch.mlu.Stream(), torch.mlu.Event(enable_timing=True)
        event.record()
        graph = torch.mlu.MLUGraph()
        with torch.mlu.graph(graph):
            z = x.detach() * 2
        generator, pinned = torch.Generator("mlu"), torch.ones(3).pin_memory()
        class Late:
            def __del__(self):
                (x.detach() + 1).sum().item()
        late = Late()
        atexit.register(lambda: print("at exit", x.device))
        y.backward(retain_graph=True)
        print("end")
        """,
        fresh=True,
    )
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["end", "at exit mlu:0"], "", 0)


def test_shared_memory_is_what_memory_of_a_card_is() -> None:
    x = torch.ones(3, device="mlu")
    assert x.share_memory_() is x and x.is_shared() and x.is_mlu
    assert nn.Linear(2, 2).mlu().share_memory().weight.is_mlu


# Profiles and benchmarks.


def test_a_scheduled_profile_writes_a_trace_with_the_steps_of_the_program(tmp_path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    layer, file = nn.Linear(8, 8).mlu(), tmp_path / "trace.json"
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.MLU],
        schedule=schedule(wait=1, warmup=1, active=2),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(file)),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    ) as profiler:
        for _ in range(4):
            with record_function("my step"):
                layer(torch.ones(2, 8, device="mlu")).sum().backward()
            profiler.step()
    steps = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("name") == "my step"]
    assert len(steps) >= 2
    assert "aten::addmm" in {event.key for event in profiler.key_averages()}
    assert "my step" in profiler.key_averages(group_by_input_shape=True).table(sort_by="self_device_time_total")


def test_timers_of_torch_measure() -> None:
    from torch.utils.benchmark import Timer

    timer = Timer("x @ x", globals={"x": torch.ones(4, 4, device="mlu")})
    assert timer.timeit(3).mean > 0 and timer.blocked_autorange(min_run_time=0.01).median > 0


# Utilities of torch.


def test_assert_close_sees_the_device_and_make_tensor_makes_it() -> None:
    x = torch.ones(2, device="mlu")
    with pytest.raises(AssertionError, match="'device' do not match: mlu:0 != cpu"):
        torch.testing.assert_close(x, x.cpu())
    torch.testing.assert_close(x, x.cpu(), check_device=False)
    assert torch.testing.make_tensor((2, 3), device="mlu", dtype=torch.float32).is_mlu


@pytest.mark.parametrize("swap", [False, True])
def test_the_ways_torch_moves_modules_all_work(swap: bool) -> None:
    name = f"set_{'swap_module' if swap else 'overwrite_module'}_params_on_conversion"
    getattr(torch.__future__, name)(True)
    try:
        layer = nn.Linear(2, 2)
        before = layer.weight
        layer.mlu()
        assert layer.weight.is_mlu and (layer.weight is before) is swap
    finally:
        getattr(torch.__future__, name)(False)


def test_data_of_a_parameter_moves_by_assignment() -> None:
    x = torch.ones(3, requires_grad=True)
    x.data = x.data.mlu()
    (x * 2).sum().backward()
    assert x.device == x.grad.device == torch.device("mlu:0")
    layer = nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.data = parameter.data.to("mlu:1")
    assert layer(torch.ones(1, 2, device="mlu:1")).device.index == 1


def test_deterministic_algorithms_may_be_asked_for() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.zeros(5, device="mlu")
        x.index_add_(0, torch.tensor([1, 1], device="mlu"), torch.ones(2, device="mlu"))
        assert x.tolist() == [0, 2, 0, 0, 0]
        nn.Conv2d(2, 2, 3).mlu()(torch.ones(1, 2, 5, 5, device="mlu")).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_attention_takes_grouped_queries_chosen_backends_and_biases() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    given = [torch.randn(1, heads, 4, 8) for heads in (4, 2, 2)]
    on_card = [value.mlu() for value in given]

    def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
        assert got.is_mlu
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)

    wanted = F.scaled_dot_product_attention(*given, enable_gqa=True, is_causal=True, scale=0.3)
    same(F.scaled_dot_product_attention(*on_card, enable_gqa=True, is_causal=True, scale=0.3), wanted)
    with sdpa_kernel(SDPBackend.MATH):
        same(F.scaled_dot_product_attention(*on_card, enable_gqa=True, is_causal=True, scale=0.3), wanted)
    bias = causal_lower_right(3, 4)
    short = [[values[0][:, :2, :3], *values[1:]] for values in (given, on_card)]
    wanted = F.scaled_dot_product_attention(*short[0], attn_mask=bias)
    same(F.scaled_dot_product_attention(*short[1], attn_mask=bias), wanted)


def test_flex_attention_refuses_a_device_it_does_not_know() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    x = torch.ones(1, 1, 8, 8, device="mlu")
    with pytest.raises(ValueError, match="FlexAttention is only supported on"):
        flex_attention(x, x, x)


def test_whole_models_and_packages_are_saved_and_loaded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2)).mlu()
    torch.save(model, tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt", weights_only=False)[0].weight.is_mlu
    with torch.package.PackageExporter(str(tmp_path / "package.pt")) as exporter:
        exporter.extern("**")
        exporter.save_pickle("models", "model.pkl", model)
    loaded = torch.package.PackageImporter(str(tmp_path / "package.pt")).load_pickle("models", "model.pkl")
    assert torch.equal(loaded[0].weight, model[0].weight)


def test_checkpoints_without_a_process_group_are_saved_and_loaded(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

    model, other = nn.Linear(3, 3).mlu(), nn.Linear(3, 3).mlu()
    dcp.save({"model": model.state_dict()}, checkpoint_id=str(tmp_path / "c"), no_dist=True)
    dcp.load({"model": other.state_dict()}, checkpoint_id=str(tmp_path / "c"), no_dist=True)
    assert torch.equal(model.weight, other.weight)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device="mlu")).sum().backward()
    optimizer.step()
    weights, moments = get_state_dict(
        model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    assert weights["weight"].device.type == "cpu"
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    assert model.weight.is_mlu


def test_data_that_lies_on_the_card_is_split_shuffled_and_sampled() -> None:
    from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, random_split

    data = TensorDataset(torch.arange(10.0, device="mlu"))
    assert [len(part) for part in random_split(data, [7, 3])] == [7, 3]
    seen = torch.cat([batch for (batch,) in DataLoader(data, 4, shuffle=True)])
    assert seen.is_mlu and sorted(seen.tolist()) == list(range(10))
    weights = WeightedRandomSampler(torch.ones(10, device="mlu"), 10)
    assert sum(len(batch) for (batch,) in DataLoader(data, 5, sampler=weights)) == 10


def test_contexts_follow_a_tensor_and_leave_the_card_for_nothing() -> None:
    with torch.mlu.device_of(torch.ones(1, device="mlu:1")):
        assert torch.mlu.current_device() == 1
    for nothing in (torch.mlu.device_of(torch.ones(1)), torch.mlu.device(None)):
        with nothing:
            assert torch.mlu.current_device() == 0


# Wrong use.


def test_cuda_words_fail_as_in_a_torch_without_cuda() -> None:
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    for use in (lambda: torch.ones(1).cuda(), lambda: torch.ones(1, device="cuda"), lambda: nn.Linear(1, 1).cuda()):
        with pytest.raises((AssertionError, RuntimeError), match="(?i)cuda"):
            use()


MIXED: list[Callable[[torch.Tensor, torch.Tensor], object]] = [
    lambda a, b: torch.cat([a, b]),
    lambda a, b: torch.stack([a, b]),
    lambda a, b: torch.where(b > 0, a, a),
    lambda a, b: F.linear(a, torch.ones(2, 2)),
    lambda a, b: F.mse_loss(a, b),
    lambda a, b: F.embedding(torch.tensor([1]), a[:, None]),
    lambda a, b: torch.einsum("i,i", a, b),
    lambda a, b: a.addcmul_(b, b),
    lambda a, b: torch.lerp(a, b, 0.5),
    lambda a, b: F.layer_norm(a, (2,), b, b),
    lambda a, b: a.index_select(0, torch.tensor([0])),
    lambda a, b: a.gather(0, torch.tensor([0])),
    lambda a, b: a.scatter(0, torch.tensor([0]), 1.0),
    lambda a, b: torch.bucketize(a, b),
    lambda a, b: torch.equal(a, b),
    lambda a, b: a.masked_fill(b > 0, 0.0),
    lambda a, b: b.add_(a[0]),
    lambda a, b: torch.add(b, 1, out=a),
    lambda a, b: F.cross_entropy(a[None], torch.tensor([1])),
    lambda a, b: F.conv1d(a[None, None], b[None, None]),
    lambda a, b: F.batch_norm(a[None, :, None], b, b),
    lambda a, b: torch._foreach_add([a], [b]),
    lambda a, b: torch.searchsorted(b, a),
    lambda a, b: torch.dot(a, b),
]


@pytest.mark.parametrize("number", range(len(MIXED)))
def test_tensors_of_the_card_and_of_the_cpu_do_not_mix(number: int) -> None:
    a, b = torch.ones(2, device="mlu"), torch.ones(2)
    with pytest.raises(RuntimeError, match="(?i)device"):
        MIXED[number](a, b)


def test_numbers_that_lie_on_the_cpu_mix_where_torch_lets_them() -> None:
    a, two = torch.ones(2, device="mlu"), torch.tensor(2.0)
    assert (a * two).tolist() == [2, 2] and (two - a).tolist() == [1, 1] and torch.where(a > 0, a, two).is_mlu
    assert a.masked_fill(a > 0, two).tolist() == [2, 2] and a.clamp(min=two).tolist() == [2, 2]
    a[0] = torch.tensor(9.0)
    a[1:] = torch.zeros(1)
    assert a.tolist() == [9, 0]


def test_writes_that_torch_forbids_are_forbidden() -> None:
    x = torch.ones(4, device="mlu")
    for write, text in (
        (lambda: x[:1].expand(3).add_(1), "more than one element of the written-to tensor"),
        (lambda: torch.add(x[1:], 1, out=x[:-1]), "refer to a single memory location"),
        (lambda: x.clone().requires_grad_().add_(1), "a leaf Variable that requires grad"),
        (lambda: x.long().add_(1.5), "can't be cast"),
        (lambda: x.view(3), "invalid for input of size"),
        (lambda: x.expand(2, 4).view(8), "view size is not compatible"),
        (lambda: x @ torch.ones(3, device="mlu"), "(?i)size"),
    ):
        with pytest.raises(RuntimeError, match=text):
            write()
