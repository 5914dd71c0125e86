"""torch.compile on the device in the ways people call it: modes, backends, shapes, dtypes, mutation, training loops."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_mlu
from _programs import lines
from torch._dynamo.testing import CompileCounterWithBackend

pytestmark = [pytest.mark.usefixtures("fresh_compiler"), pytest.mark.slow]  # minutes in all: for the nightly run


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.device.type == "mlu" and got.device == wanted.device and got.dtype == wanted.dtype
    assert got.stride() == wanted.stride()
    torch.testing.assert_close(got.cpu(), wanted.cpu(), rtol=1e-4, atol=1e-5)


def counted(function: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], CompileCounterWithBackend]:
    counter = CompileCounterWithBackend("inductor")
    return torch.compile(function, backend=counter, **options), counter


class Block(nn.Module):
    """Norm, attention, dropout and a feed-forward part."""

    def __init__(self, width: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True, dropout=dropout)
        self.ahead = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Dropout(dropout), nn.Linear(32, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.ahead(x)


# Modes and backends.


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_every_mode_trains_as_eager_mode_does(mode: str) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).mlu()
    compiled = torch.compile(model, mode=mode)
    x = torch.randn(5, 8, device="mlu")
    for _ in range(3):  # graphs are recorded at the second call, replayed at the third
        same(compiled(x), model(x))
    wanted = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    got = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
    for ours, theirs in zip(got, wanted, strict=True):
        same(ours, theirs)


def test_options_of_inductor_are_taken() -> None:
    compiled = torch.compile(lambda x: x.sin().sum(0), options={"max_fusion_size": 8, "trace.graph_diagram": False})
    x = torch.randn(3, 4, device="mlu")
    same(compiled(x), x.sin().sum(0))
    with pytest.raises(RuntimeError, match="no_such_option"):
        torch.compile(lambda x: x, options={"no_such_option": 1})


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_a_block_with_attention_trains_in_every_backend(backend: str) -> None:
    model = Block().mlu()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(2, 5, 16, device="mlu")
    wanted = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    got = torch.autograd.grad(compiled(x).square().mean(), list(model.parameters()))
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.device == theirs.device
        torch.testing.assert_close(ours.cpu(), theirs.cpu(), rtol=1e-3, atol=1e-5)


def test_a_backend_of_ones_own_is_handed_tensors_of_the_card() -> None:
    seen: list[torch.device] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        seen.extend(value.device for value in inputs)
        return graph.forward

    x = torch.ones(3, device="mlu:1")
    same(torch.compile(lambda t: t * 2, backend=backend)(x), x * 2)
    assert seen == [torch.device("mlu:1")]


def test_a_graph_break_is_an_error_with_fullgraph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(f, fullgraph=True)(torch.ones(2, device="mlu"))


# How often code is compiled.


def test_a_dimension_marked_as_dynamic_is_compiled_once() -> None:
    compiled, counter = counted(lambda x: (x * 2).relu().sum(1))
    for rows in (4, 6, 9):
        x = torch.randn(rows, 3, device="mlu")
        torch._dynamo.mark_dynamic(x, 0)
        same(compiled(x), (x * 2).relu().sum(1))
    assert counter.frame_count == 1


def test_a_dimension_that_changes_by_itself_is_compiled_twice() -> None:
    compiled, counter = counted(lambda x: (x * 2).relu().sum(1))
    for rows in (4, 6, 9, 11):
        x = torch.randn(rows, 3, device="mlu")
        same(compiled(x), (x * 2).relu().sum(1))
    assert counter.frame_count == 2


def test_dtype_device_and_gradient_mode_are_compiled_for_each() -> None:
    compiled, counter = counted(lambda x: x * 2 + 1)
    for x in (
        torch.ones(3, device="mlu"),
        torch.ones(3, device="mlu").half(),
        torch.ones(3, device="mlu", dtype=torch.int64),
        torch.ones(3, device="mlu:1"),
        torch.ones(3),
    ):
        got, wanted = compiled(x), x * 2 + 1
        assert got.device == wanted.device and got.dtype == wanted.dtype and torch.equal(got, wanted)
    assert counter.frame_count == 5
    for _ in range(2):
        compiled(torch.ones(3, device="mlu"))
    assert counter.frame_count == 5


def test_reset_forgets_what_was_compiled() -> None:
    compiled, counter = counted(lambda x: x - 1)
    x = torch.ones(2, device="mlu")
    compiled(x)
    torch._dynamo.reset()
    compiled(x)
    assert counter.frame_count == 2


def test_train_and_eval_each_have_their_code() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).mlu()
    compiled = torch.compile(model)
    x = torch.randn(64, 4, device="mlu")
    twin = copy.deepcopy(model)
    out = compiled(x)
    twin(x)
    assert 0.2 < (out == 0).float().mean().item() < 0.8
    same(model[1].running_mean, twin[1].running_mean)
    same(model[1].running_var, twin[1].running_var)
    assert model[1].num_batches_tracked.item() == 1
    model.eval()
    same(compiled(x), model(x))
    same(compiled(x), compiled(x))


def test_one_seed_gives_one_training_run() -> None:
    model = Block(dropout=0.3).mlu()
    start = copy.deepcopy(model.state_dict())
    compiled = torch.compile(model)

    def run(seed: int) -> list[torch.Tensor]:
        model.load_state_dict(start)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(seed)
        for _ in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(2, 5, 16, device="mlu")).square().mean().backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    first, again, other = run(1), run(1), run(2)
    assert all(map(torch.equal, first, again)) and not all(map(torch.equal, first, other))


# Training loops.


@pytest.mark.parametrize(
    ("kind", "foreach"),
    [
        ("SGD", True),
        ("Adam", False),
        *(
            pytest.param(kind, foreach, marks=pytest.mark.slow)
            for kind in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")
            for foreach in (False, True)
            if (kind, foreach) not in (("SGD", True), ("Adam", False))
        ),
    ],
)
def test_a_compiled_step_of_an_optimizer_is_the_eager_step(kind: str, foreach: bool) -> None:
    extra = {"SGD": {"momentum": 0.9, "nesterov": True}, "AdamW": {"amsgrad": True}}.get(kind, {})
    models = [nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).mlu()]
    models.append(copy.deepcopy(models[0]))
    make = getattr(torch.optim, kind)
    optimizers = [make(model.parameters(), lr=0.1, foreach=foreach, weight_decay=0.01, **extra) for model in models]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step)]
    for turn in range(3):
        x = torch.randn(3, 4, device="mlu")
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.param_groups[0]["lr"] = 0.1 / (turn + 1)
            step()
    torch.testing.assert_close(list(models[1].parameters()), list(models[0].parameters()), rtol=1e-4, atol=1e-5)


def test_a_compiled_training_step_with_loss_clipping_and_optimizer_follows_the_eager_one() -> None:
    models = [Block().mlu()]
    models.append(copy.deepcopy(models[0]))
    # Not Adam: the gradient of a key's bias is rounding noise, of which Adam makes whole steps.
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.flip(1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    compiled = torch.compile(step)
    for _ in range(3):
        x = torch.randn(2, 5, 16, device="mlu")
        torch.testing.assert_close(compiled(models[1], optimizers[1], x), step(models[0], optimizers[0], x))
    torch.testing.assert_close(list(models[1].parameters()), list(models[0].parameters()), rtol=1e-3, atol=1e-4)


def test_mixed_precision_with_a_scaler_trains_around_a_compiled_model() -> None:
    models = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).mlu()]
    models.append(copy.deepcopy(models[0]))
    x, target = torch.randn(32, 8, device="mlu"), torch.randn(32, 1, device="mlu")
    losses: list[list[float]] = []
    for model, call in zip(models, (models[0], torch.compile(models[1])), strict=True):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        scaler = torch.amp.GradScaler("mlu", init_scale=64.0)
        losses.append([])
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast("mlu", dtype=torch.float16):
                out = call(x)
                loss = F.mse_loss(out.float(), target)
            assert out.dtype == torch.float16
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.02) and losses[1][-1] < losses[1][0]


def test_autocast_may_be_inside_or_disabled_inside() -> None:
    layer = nn.Linear(8, 8).mlu()

    @torch.compile(fullgraph=True)
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("mlu", dtype=torch.bfloat16):
            low = layer(x)
            with torch.autocast("mlu", enabled=False):
                full = layer(x)
        return low, full

    low, full = f(torch.randn(2, 8, device="mlu"))
    assert (low.dtype, full.dtype) == (torch.bfloat16, torch.float32)


def test_gradients_accumulate_over_compiled_calls() -> None:
    model = nn.Linear(4, 2).mlu()
    compiled = torch.compile(model)
    batches = [torch.randn(3, 4, device="mlu") for _ in range(4)]
    for x in batches:
        compiled(x).sum().backward()
    same(model.weight.grad, torch.stack([x.sum(0).expand(2, 4) for x in batches]).sum(0))


def test_hooks_of_modules_and_of_tensors_run() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).mlu()
    seen: list[str] = []
    model[0].register_forward_hook(lambda module, given, out: out * 2)
    model[0].weight.register_hook(lambda slope: seen.append("slope") or slope * 3)
    model[1].register_full_backward_hook(lambda *_: seen.append("module"))
    compiled = torch.compile(model)
    x = torch.randn(3, 4, device="mlu")
    (wanted,) = torch.autograd.grad(model(x).sum(), model[0].weight)
    (got,) = torch.autograd.grad(compiled(x).sum(), model[0].weight)
    same(got, wanted)
    assert seen.count("slope") == 2 and seen.count("module") >= 1


def test_second_derivatives_are_refused_or_right() -> None:
    """torch.compile has none with aot; the error must be torch's own."""
    compiled = torch.compile(lambda x: (x**3).sum())
    x = torch.randn(3, device="mlu", requires_grad=True)
    (first,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        first.sum().backward()


# Inputs and results.


def test_a_result_that_is_an_input_is_the_input() -> None:
    compiled = torch.compile(lambda x, y: (x, y + 1, x))
    x, y = torch.ones(2, device="mlu"), torch.ones(2, device="mlu")
    first, _, third = compiled(x, y)
    assert first is x and third is x


def test_results_that_share_memory_share_it() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y, y[1:].view(-1, 1)

    whole, part = torch.compile(f)(torch.ones(4, device="mlu"))
    part.zero_()
    assert whole.tolist() == [2, 0, 0, 0] and part.shape == (3, 1)


def test_a_view_of_an_input_is_a_view_with_its_gradient() -> None:
    base = torch.randn(4, 3, device="mlu", requires_grad=True)
    view = torch.compile(lambda x: x.t()[1:])(base)
    assert view._is_view() and view.data_ptr() == base.t()[1:].data_ptr()
    view.sum().backward()
    assert base.grad.tolist() == [[0.0, 1.0, 1.0]] * 4


def test_overlapping_arguments_changed_in_place_are_changed_as_in_eager_mode() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return y + 1

    results = []
    for function in (f, torch.compile(f)):
        memory = torch.arange(6.0, device="mlu")
        results.append((function(memory[:4], memory[2:]), memory))
    same(results[1][0], results[0][0])
    same(results[1][1], results[0][1])


def test_a_buffer_changed_in_forward_is_kept() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    model = Counter().mlu()
    compiled = torch.compile(model)
    address = model.calls.data_ptr()
    for _ in range(3):
        out = compiled(torch.ones(2, device="mlu"))
    assert model.calls.item() == 3 and out.tolist() == [3, 3] and model.calls.data_ptr() == address


def test_out_arguments_and_resizing_work() -> None:
    def f(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return torch.add(x, 1, out=out)

    x, out = torch.ones(3, device="mlu"), torch.empty(3, device="mlu")
    assert torch.compile(f)(x, out) is out and out.tolist() == [2, 2, 2]


def test_memory_formats_are_kept() -> None:
    model = nn.Conv2d(3, 4, 3).mlu().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8, device="mlu").to(memory_format=torch.channels_last)
    out = torch.compile(model)(x)
    assert out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out, model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.bool, torch.uint8])
def test_dtypes_compute_as_in_eager_mode(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 0, 1], device="mlu").to(dtype)
    f = (lambda t: t & ~t | t) if dtype == torch.bool else (lambda t: t * 3 + t)
    got, wanted = torch.compile(f)(x), f(x)
    assert got.dtype == wanted.dtype and torch.equal(got, wanted)


def test_complex_numbers_compute_as_in_eager_mode() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (torch.fft.fft(x) * x.conj()).abs().sum()

    x = torch.randn(8, dtype=torch.complex64, device="mlu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # inductor says that it does not generate code for complex numbers
        torch.testing.assert_close(torch.compile(f)(x), f(x))


def test_empty_tensors_scalars_and_numbers_are_arguments() -> None:
    def f(x: torch.Tensor, n: int, factor: float, flag: bool) -> torch.Tensor:
        return (x.sum() + n) * factor if flag else x.sum()

    compiled = torch.compile(f)
    for x in (torch.empty(0, 3, device="mlu"), torch.tensor(2.0, device="mlu")):
        for n, factor, flag in ((1, 0.5, True), (2, 1.5, True), (3, 2.5, False)):
            same(compiled(x, n, factor, flag), f(x, n, factor, flag))


def test_containers_go_in_and_come_out() -> None:
    def f(batch: dict[str, Any]) -> dict[str, Any]:
        return {"sum": batch["a"] + batch["list"][0], "kept": batch["name"], "pair": (batch["a"] * 2, None)}

    batch = {"a": torch.ones(2, device="mlu"), "list": [torch.ones(2, device="mlu")], "name": "x"}
    out = torch.compile(f)(batch)
    assert out["kept"] == "x" and out["pair"][1] is None and out["sum"].tolist() == [2, 2]
    assert out["pair"][0].device == torch.device("mlu:0")


def test_a_number_on_the_cpu_joins_a_tensor_on_the_card_as_in_eager_mode() -> None:
    scale = torch.tensor(3.0)
    x = torch.ones(2, device="mlu")
    same(torch.compile(lambda t, s: t * s)(x, scale), x * scale)


def test_indexing_with_an_index_on_the_cpu_works_as_in_eager_mode() -> None:
    x, index = torch.arange(5.0, device="mlu"), torch.tensor([3, 1])
    same(torch.compile(lambda t, i: t[i])(x, index), x[index])


def test_a_device_made_from_a_string_inside_the_graph_is_the_card() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        device = torch.device("mlu", x.device.index)
        mask = torch.ones(x.shape, device=device, dtype=torch.bool).tril()
        return x.masked_fill(~mask, float("-inf")).softmax(-1).to(device)

    for card in ("mlu:0", "mlu:1"):
        x = torch.randn(3, 3, device=card)
        same(torch.compile(f)(x), f(x))


def test_inference_mode_and_no_grad_are_kept() -> None:
    layer = nn.Linear(3, 3).mlu()
    compiled = torch.compile(layer)
    x = torch.randn(2, 3, device="mlu")
    with torch.inference_mode():
        assert compiled(x).is_inference()
    with torch.no_grad():
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad


# Ways to write it.


def test_the_decorator_module_compile_and_nested_compilation_work() -> None:
    @torch.compile
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    @torch.compile()
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 1

    x = torch.randn(3, device="mlu")
    same(outer(x), x.exp() + 1)
    layer = nn.Linear(3, 3).mlu()
    wanted = layer(x).detach()
    layer.compile()
    same(layer(x).detach(), wanted)
    assert not any(key.startswith("_orig_mod") for key in layer.state_dict())


def test_a_disabled_function_runs_as_it_is_within_compiled_code() -> None:
    calls: list[str] = []

    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        calls.append(type(x).__name__)
        return x * 10

    compiled, counter = counted(lambda x: outside(x + 1) - 1)
    assert compiled(torch.ones(2, device="mlu")).tolist() == [19, 19]
    assert calls == ["Tensor"] and counter.frame_count == 2


def test_the_state_of_a_compiled_module_loads_into_the_plain_one_and_back() -> None:
    model = nn.Linear(3, 2).mlu()
    compiled = torch.compile(model)
    compiled(torch.ones(1, 3, device="mlu"))
    state = {key.removeprefix("_orig_mod."): value for key, value in compiled.state_dict().items()}
    plain = nn.Linear(3, 2)
    plain.load_state_dict({key: value.cpu() for key, value in state.items()})
    with torch.no_grad():
        plain.weight.zero_()
    compiled.load_state_dict({f"_orig_mod.{key}": value for key, value in plain.state_dict().items()})
    out = compiled(torch.ones(1, 3, device="mlu"))
    torch.testing.assert_close(out, model.bias.detach()[None], check_device=True)


def test_a_model_that_was_moved_after_compilation_computes_where_it_is() -> None:
    model = nn.Linear(3, 2)
    compiled = torch.compile(model)
    assert compiled(torch.ones(1, 3)).device.type == "cpu"
    compiled.to("mlu")
    assert compiled(torch.ones(1, 3, device="mlu")).device == torch.device("mlu:0")
    compiled.to("mlu:1")
    assert compiled(torch.ones(1, 3, device="mlu:1")).device == torch.device("mlu:1")
    compiled.cpu()
    assert compiled(torch.ones(1, 3)).device.type == "cpu"


def test_a_compiled_module_is_copied_and_pickled() -> None:
    compiled = torch.compile(nn.Linear(3, 2).mlu())
    x = torch.ones(1, 3, device="mlu")
    wanted = compiled(x).detach()
    same(copy.deepcopy(compiled)(x).detach(), wanted)
    same(pickle.loads(pickle.dumps(compiled))(x).detach(), wanted)


def test_threads_call_one_compiled_function() -> None:
    compiled = torch.compile(lambda x: (x @ x).relu().sum())
    x = torch.randn(8, 8, device="mlu")
    wanted = compiled(x).item()
    results: list[float] = []
    threads = [threading.Thread(target=lambda: results.append(compiled(x).item())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [wanted] * 4


def test_streams_and_synchronisation_may_stand_in_compiled_code() -> None:
    stream = torch.mlu.Stream()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.mlu.synchronize()
        with torch.mlu.stream(stream):
            y = y + 1
        torch.mlu.current_stream().wait_stream(stream)
        return y

    x = torch.ones(3, device="mlu")
    same(torch.compile(f)(x), torch.full((3,), 3.0, device="mlu"))


def test_a_custom_autograd_function_keeps_its_own_gradient() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
            return slope * 7

    x = torch.randn(3, device="mlu", requires_grad=True)
    torch.compile(lambda t: Twice.apply(t).sum(), fullgraph=True)(x).backward()
    assert x.grad.tolist() == [7, 7, 7]


def test_a_custom_operator_with_its_fake_is_called_with_tensors_of_the_card() -> None:
    seen: list[str] = []

    @torch.library.custom_op("habits::triple", mutates_args=())
    def triple(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.device.type)
        return x * 3

    @triple.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    x = torch.ones(3, device="mlu")
    same(torch.compile(lambda t: triple(t + 1) - 1, fullgraph=True)(x), torch.full((3,), 5.0, device="mlu"))
    assert seen == ["mlu"]


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_lies_between_custom_operators_is_compiled_and_agrees_with_eager_mode(dynamic: bool) -> None:
    from torch._inductor.utils import run_and_get_code

    @torch.library.custom_op("habits::split_up", mutates_args=())
    def split_up(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert x.device.type == "mlu"
        return x * 3, x.t().contiguous()

    split_up.register_fake(lambda x: (torch.empty_like(x), x.t().contiguous()))
    split_up.register_autograd(lambda ctx, first, second: first * 3 + second.t())

    @torch.library.custom_op("habits::bump", mutates_args=("x",))
    def bump(x: torch.Tensor) -> None:
        assert x.device.type == "mlu"
        x.add_(1)

    def f(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = split_up((x @ weight).relu() * 2 + 1)
        counter = torch.zeros(2, device="mlu") + x.shape[0]
        bump(counter)
        return (a.sin().cos() @ weight).sum(0) * counter[0], b.exp().t()

    compiled = torch.compile(f, fullgraph=True, dynamic=dynamic)
    for rows in (4, 6, 7):
        x = torch.randn(rows, 5, device="mlu")
        weight = torch.randn(5, 5, device="mlu", requires_grad=True)
        wanted, got = f(x, weight), compiled(x, weight)
        for ours, theirs in zip(got, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
            assert ours.stride() == theirs.stride()
        (slope,) = torch.autograd.grad(sum(value.sum() for value in got), weight)
        (expected,) = torch.autograd.grad(sum(value.sum() for value in wanted), weight)
        torch.testing.assert_close(slope, expected, rtol=1e-3, atol=1e-3)
    torch.compiler.reset()
    with torch.no_grad():
        code = run_and_get_code(torch.compile(f), x, weight)[1]
    assert len(code) >= 2 and all("cpp_fused" in piece for piece in code)


def test_operators_of_torch_mlu_see_the_card_in_compiled_code() -> None:
    compiled = torch.compile(lambda x: torch.ops.torch_mlu.boxes_iou_bev(x * 1.0, x + 0.0))
    boxes = torch.tensor([[0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 0.0]], device="mlu")
    same(compiled(boxes), torch.ops.torch_mlu.boxes_iou_bev(boxes, boxes))


def test_questions_about_the_card_are_answered_in_a_full_graph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if torch.mlu.is_available() and torch.mlu.is_bf16_supported() and torch.mlu.is_initialized():
            x = x + torch.mlu.device_count()
        major, _ = torch.mlu.get_device_capability()
        return x * major + torch.mlu.current_device() if "MLU" in torch.mlu.get_device_name(0) else x

    x = torch.ones(2, device="mlu:0")
    compiled, counter = counted(f, fullgraph=True)
    for card in (0, 1, 0):
        with torch.mlu.device(card):
            same(compiled(x), f(x))
    assert counter.frame_count == 2  # once for each current card


def test_autocast_of_torch_mlu_amp_is_autocast_in_a_full_graph() -> None:
    layer = nn.Linear(4, 4).mlu()
    seen = []
    for autocast in (torch.mlu.amp.autocast, torch_mlu.mlu.amp.autocast):

        @torch.compile(fullgraph=True)
        def f(x: torch.Tensor, autocast: Any = autocast) -> tuple[torch.Tensor, ...]:
            with autocast():
                half = layer(x)
            with autocast(True, torch.bfloat16):
                brain = layer(x)
            with autocast(enabled=False):
                full = layer(x)
            return half, brain, full

        seen.append([out.dtype for out in f(torch.ones(1, 4, device="mlu"))])
    assert seen == [[torch.float16, torch.bfloat16, torch.float32]] * 2


def test_events_memory_and_seeds_may_stand_between_two_graphs() -> None:
    @torch.compile
    def f(x: torch.Tensor) -> tuple[torch.Tensor, float, int]:
        start, end = (torch.mlu.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.mlu.manual_seed(4)
        y = torch.rand_like(x) + x
        end.record()
        end.synchronize()
        y.record_stream(torch.mlu.current_stream())
        torch.mlu.empty_cache()
        with torch.mlu.device(1):
            z = torch.ones(1, device="mlu")
        return y * z.to("mlu:0"), start.elapsed_time(end), torch.mlu.memory_allocated()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, milliseconds, used = f(torch.zeros(3, device="mlu"))
        assert torch.equal(first, f(torch.zeros(3, device="mlu"))[0])
    assert milliseconds >= 0 and used > 0


def test_vmap_grad_and_jacobians_are_compiled() -> None:
    def loss(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    weight, x = torch.randn(4, device="mlu"), torch.randn(5, 4, device="mlu")
    same(torch.compile(per_sample)(weight, x), per_sample(weight, x))
    jacobian = torch.func.jacrev(lambda t: t.sin() * t.sum())
    same(torch.compile(jacobian)(weight), jacobian(weight))


def test_recurrent_and_embedding_layers_are_compiled() -> None:
    embed, rnn = nn.Embedding(10, 4).mlu(), nn.LSTM(4, 6, batch_first=True).mlu()

    def f(index: torch.Tensor) -> torch.Tensor:
        return rnn(embed(index))[0]

    index = torch.randint(0, 10, (2, 5), device="mlu")
    same(torch.compile(f)(index), f(index))
    wanted = torch.autograd.grad(f(index).square().sum(), embed.weight)
    got = torch.autograd.grad(torch.compile(f)(index).square().sum(), embed.weight)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masked", ["causal", "bool", "none"])
def test_attention_is_compiled_with_its_gradients(masked: str) -> None:
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(5, 5, dtype=torch.bool, device="mlu").tril() if masked == "bool" else None
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=masked == "causal")

    given = [torch.randn(2, 3, 5, 8, device="mlu", requires_grad=True) for _ in range(3)]
    compiled = torch.compile(f, fullgraph=True)
    torch.testing.assert_close(compiled(*given), f(*given), rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad(f(*given).square().sum(), given)
    got = torch.autograd.grad(compiled(*given).square().sum(), given)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_memory_of_a_compiled_training_step_is_given_back() -> None:
    model = Block().mlu()
    compiled = torch.compile(model)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        compiled(torch.randn(2, 5, 16, device="mlu")).sum().backward()

    step()
    model.zero_grad(set_to_none=True)
    gc.collect()
    before = torch.mlu.memory_allocated()
    for _ in range(3):
        step()
    model.zero_grad(set_to_none=True)
    gc.collect()
    assert torch.mlu.memory_allocated() == before
    assert torch.mlu.max_memory_allocated() > before


def test_a_failure_inside_compiled_code_is_the_callers_own_error_and_the_function_still_works() -> None:
    compiled = torch.compile(lambda table, index: table[index] * 2)
    table = torch.arange(4.0, device="mlu")
    with pytest.raises((IndexError, RuntimeError), match="out of (bounds|range)"):
        compiled(table, torch.tensor([9], device="mlu"))
    assert compiled(table, torch.tensor([3], device="mlu")).tolist() == [6]


def test_a_shape_that_does_not_fit_is_refused_as_in_eager_mode() -> None:
    with pytest.raises(RuntimeError, match="(?i)size|shape"):
        torch.compile(lambda a, b: a @ b)(torch.ones(2, 3, device="mlu"), torch.ones(4, 5, device="mlu"))


@pytest.mark.parametrize("compiled", [False, True])
def test_what_not_even_the_host_can_hold_is_out_of_memory_in_the_words_of_the_card(compiled: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.expand(1 << 40, 64) + 1

    before = torch.mlu.memory_stats().get("num_ooms", 0)
    with pytest.raises(torch.OutOfMemoryError, match=r"^MLU out of memory\. Tried to allocate .* GiB\."):
        (torch.compile(f) if compiled else f)(torch.ones(1, 1, device="mlu"))
    assert torch.mlu.memory_stats()["num_ooms"] == before + 1


@pytest.mark.parametrize("first", ["torch._dynamo", "torch._inductor.compile_fx", "torch_mlu"])
def test_what_is_imported_first_makes_no_difference(first: str) -> None:
    code = f"""
    import {first}
    import torch, torch_mlu
    import torch._dynamo
    from torch_mlu.mlu.amp import autocast
    def f(x):
        with autocast():
            return x @ x * torch.mlu.device_count()
    out = torch.compile(f, fullgraph=True)(torch.ones(2, 2, device="mlu"))
    print(out.dtype, out.device, out.tolist())
    """
    out = lines(code, fresh=True, MLU_EMULATOR_CARDS="3")
    assert out == ["torch.float16 mlu:0 [[6.0, 6.0], [6.0, 6.0]]"]
