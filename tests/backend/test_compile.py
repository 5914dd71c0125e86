"""torch.compile and torch.export on the device: results, gradients and random numbers, compared with eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_mlu  # noqa: F401
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def same(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.device.type == "mlu" and got.device == wanted.device
    torch.testing.assert_close(got.cpu(), wanted.cpu(), rtol=1e-4, atol=1e-5)


def generated(function: Callable[..., object], *arguments: object) -> str:
    """The code inductor made for one call."""
    from torch._inductor.utils import run_and_get_code

    return "\n".join(run_and_get_code(function, *arguments)[1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4)
    )


def test_pointwise_code_is_fused_into_one_kernel_and_results_stay_on_the_card() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * y + torch.relu(x - y)

    x, y = torch.randn(64, device="mlu"), torch.randn(64, device="mlu")
    code = generated(torch.compile(f), x, y)
    same(torch.compile(f)(x, y), f(x, y))
    assert code.count('extern "C"') + code.count("extern 'C'") == 1 and "cpp_fused" in code


def test_a_tensor_of_another_card_gives_results_on_that_card() -> None:
    x = torch.randn(5, device="mlu:1")
    same(torch.compile(lambda t: t.exp() + 1)(x), x.exp() + 1)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(cnn, id="cnn", marks=pytest.mark.slow),
        pytest.param(lambda: nn.Sequential(Attention(), Attention()), id="transformer"),
    ],
)
def test_training_follows_eager_training(make: Callable[[], nn.Module]) -> None:
    model = make().to("mlu")
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin)
    image = isinstance(model[0], nn.Conv2d)
    for module, run in ((model, model), (twin, compiled)):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        generator = torch.Generator().manual_seed(4)
        for _ in range(3):
            x = torch.randn((4, 3, 8, 8) if image else (2, 5, 16), generator=generator).to("mlu")
            optimizer.zero_grad()
            run(x).pow(2).mean().backward()
            optimizer.step()
    for (name, wanted), got in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert got.device.type == "mlu", name
        torch.testing.assert_close(got.cpu(), wanted.cpu(), rtol=1e-3, atol=1e-5)


def test_dropout_repeats_with_the_cards_seed_and_leaves_the_cpus_numbers_alone() -> None:
    layer = torch.compile(nn.Dropout(0.5))
    x = torch.ones(1000, device="mlu")
    before = torch.get_rng_state()
    torch.mlu.manual_seed(7)
    first, second = layer(x), layer(x)
    torch.mlu.manual_seed(7)
    assert torch.equal(layer(x), first) and not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)
    assert set(first.unique().tolist()) == {0.0, 2.0} and 400 < first.count_nonzero().item() < 600


def test_dropout_keeps_its_mask_for_the_gradient() -> None:
    x = torch.ones(200, device="mlu", requires_grad=True)
    out = torch.compile(lambda t: F.dropout(t, 0.3) * 2)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_random_factories_draw_from_the_card() -> None:
    @torch.compile
    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(50, device="mlu"), torch.randint(0, 100, (50,), device="mlu")

    torch.mlu.manual_seed(1)
    a, b = draw()
    c, _ = draw()
    torch.mlu.manual_seed(1)
    d, e = draw()
    assert a.device.type == b.device.type == "mlu"
    assert torch.equal(a, d) and torch.equal(b, e) and not torch.equal(a, c)


def test_dynamic_shapes_compile_once_for_many_sizes() -> None:
    counter = CompileCounterWithBackend("inductor")
    f = torch.compile(lambda x: (x * 2).softmax(-1).sum(0), backend=counter, dynamic=True)
    for n in (3, 7, 12):
        x = torch.randn(n, 4, device="mlu")
        same(f(x), (x * 2).softmax(-1).sum(0))
    assert counter.frame_count == 1


@pytest.mark.slow
def test_a_changed_size_is_compiled_again_as_dynamic_and_stays_right_with_gradients() -> None:
    layer = nn.Linear(4, 4).to("mlu")
    compiled = torch.compile(layer)
    for n in (2, 5, 9):
        x = torch.randn(n, 4, device="mlu", requires_grad=True)
        same(compiled(x), layer(x))
        (wanted,) = torch.autograd.grad(layer(x).sum(), x)
        (got,) = torch.autograd.grad(compiled(x).sum(), x)
        same(got, wanted)


def test_graph_breaks_leave_the_result_right() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum().item() > 0:
            y = y * 2
        torch._dynamo.graph_break()
        return y.cos()

    counter = CompileCounter()
    x = torch.ones(3, device="mlu")
    torch.compile(f, backend=counter)(x)
    assert counter.frame_count > 1
    same(torch.compile(f)(x), f(x))


def test_inputs_changed_in_place_and_returned_views_are_the_callers_own() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1)
        y[1:].mul_(3)
        return x, y[1:]

    x, y = torch.zeros(3, device="mlu"), torch.ones(4, device="mlu")
    address = x.data_ptr()
    out, view = torch.compile(f)(x, y)
    assert x.tolist() == [1, 1, 1] and y.tolist() == [1, 3, 3, 3]
    assert out.data_ptr() == address == x.data_ptr() and view.data_ptr() == y[1:].data_ptr()
    view.zero_()
    assert y.tolist() == [1, 0, 0, 0]


def test_transfers_inside_the_graph_make_copies_on_the_other_side() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.cpu(), y.to("mlu") * x

    x, y = torch.ones(3, device="mlu"), torch.full((3,), 2.0)
    on_cpu, on_card = torch.compile(f)(x, y)
    assert on_cpu.device.type == "cpu"
    same(on_card, torch.full((3,), 2.0, device="mlu"))
    on_cpu.zero_()
    assert x.tolist() == [1, 1, 1]


def test_constants_and_tensors_captured_from_outside_are_found() -> None:
    table = torch.arange(5.0, device="mlu")

    def f(index: torch.Tensor) -> torch.Tensor:
        return table[index] + torch.tensor([1.0, 2.0], device="mlu")

    index = torch.tensor([3, 1], device="mlu")
    same(torch.compile(f)(index), f(index))


def test_a_function_without_tensor_arguments_makes_its_tensors_on_the_card() -> None:
    def f() -> torch.Tensor:
        return torch.arange(4, device="mlu").float() * 2 + torch.ones(4, device="mlu")

    same(torch.compile(f)(), f())


def test_autocast_chooses_the_same_dtypes_as_in_eager_mode() -> None:
    layer = nn.Linear(8, 8).to("mlu")
    x = torch.randn(2, 8, device="mlu")

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("mlu", dtype=torch.bfloat16):
            return layer(x).softmax(-1)

    got, wanted = torch.compile(f)(x), f(x)
    assert got.dtype == wanted.dtype
    torch.testing.assert_close(got.cpu().float(), wanted.cpu().float(), rtol=2e-2, atol=2e-2)


def test_reduce_overhead_and_full_graph_are_accepted() -> None:
    x = torch.randn(4, 4, device="mlu")
    same(torch.compile(lambda t: (t @ t).tanh(), mode="reduce-overhead", fullgraph=True)(x), (x @ x).tanh())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backends_work_on_the_card(backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to("mlu")
    x = torch.randn(3, 4, device="mlu")
    compiled = torch.compile(model, backend=backend)
    same(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model[0].weight.grad.device.type == "mlu"


def test_code_on_the_cpu_is_compiled_as_before() -> None:
    x = torch.randn(6)
    got = torch.compile(lambda t: t.sin() + 1)(x)
    assert got.device.type == "cpu"
    torch.testing.assert_close(got, x.sin() + 1)


def test_memory_of_compiled_results_is_counted_and_given_back() -> None:
    f = torch.compile(lambda x: x * 2)
    x = torch.ones(1 << 16, device="mlu")
    f(x)
    before = torch.mlu.memory_allocated()
    out = f(x)
    assert torch.mlu.memory_allocated() - before >= out.numel() * 4
    del out
    assert torch.mlu.memory_allocated() == before


def test_an_exported_program_runs_on_the_card_and_compiles() -> None:
    model = Attention().to("mlu").eval()
    x = torch.randn(2, 5, 16, device="mlu")
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    same(program.module()(x), model(x))
    bigger = torch.randn(7, 5, 16, device="mlu")
    same(program.module()(bigger), model(bigger))
    same(torch.compile(program.module())(x), model(x))


def test_an_exported_program_survives_saving(tmp_path) -> None:
    model = nn.Linear(3, 2).to("mlu")
    x = torch.randn(4, 3, device="mlu")
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    same(torch.export.load(tmp_path / "model.pt2").module()(x), model(x))


def test_a_profile_that_rounds_is_followed_operator_by_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLU_EMULATOR_PROFILE", "mlu590")
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to("mlu")
    x = torch.ones(3, 4, device="mlu", requires_grad=True)
    compiled = torch.compile(model)
    out = compiled(x)
    out.sum().backward()
    assert out.device.type == "mlu" and x.grad.device.type == "mlu"
    assert "cpp_fused" not in generated(compiled, x)


class Recomputed(nn.Module):
    """Two checkpointed calls of one block."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.outer, self.reentrant = nn.Linear(8, 16), nn.Linear(16, 8), reentrant

    def block(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(x).relu())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = checkpoint(self.block, x, use_reentrant=self.reentrant)
        return first + checkpoint(self.block, x * 2, use_reentrant=self.reentrant)


def gradients(model: nn.Module, call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    leaf = x.clone().requires_grad_()
    return list(torch.autograd.grad(call(leaf).square().sum(), [leaf, *model.parameters()]))


@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_inside_a_compiled_module_gives_the_gradients_of_eager_mode(reentrant: bool) -> None:
    model, x = Recomputed(reentrant).mlu(), torch.randn(4, 8, device="mlu")
    if reentrant:  # that kind cannot be asked for gradients of single tensors
        results = []
        for call in (model, torch.compile(model)):
            model.zero_grad()
            call(x.clone().requires_grad_()).square().sum().backward()
            results.append([parameter.grad.clone() for parameter in model.parameters()])
        expected, found = results
    else:
        expected = gradients(model, model, x)
        found = gradients(model, torch.compile(model, fullgraph=True), x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_what_is_computed_again_drops_the_same_numbers() -> None:
    layer = nn.Linear(8, 8).mlu()

    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.dropout(layer(x), 0.5, True)

    def twice(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False) + checkpoint(block, x * 2, use_reentrant=False)

    compiled = torch.compile(twice)

    def run(x: torch.Tensor) -> torch.Tensor:
        torch.mlu.manual_seed(3)
        return compiled(x.detach().requires_grad_()).sum()

    x, way = torch.randn(64, 8, device="mlu"), torch.randn(64, 8, device="mlu")
    leaf = x.clone().requires_grad_()
    torch.mlu.manual_seed(3)
    (slope,) = torch.autograd.grad(compiled(leaf).sum(), leaf)
    # Linear for a given mask, so the difference over any distance is the derivative.
    assert ((run(x + way) - run(x - way)) / 2).item() == pytest.approx((slope * way).sum().item(), rel=1e-4)


@pytest.mark.slow
def test_a_model_on_two_cards_is_compiled_as_one_graph_and_trains() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4).to("mlu:0"), nn.Linear(4, 4).to("mlu:1")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x).relu().to("mlu:1"))

    model, x = Halves(), torch.randn(5, 4, device="mlu:0")
    compiled = torch.compile(model, fullgraph=True)
    assert compiled(x).device == torch.device("mlu:1")
    expected, found = gradients(model, model, x), gradients(model, compiled, x)
    assert [slope.device.index for slope in found] == [0, 0, 0, 1, 1]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("other", ["cpu", "mlu:1"])
def test_an_operator_of_two_devices_is_refused_when_compiled(other: str) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.compile(lambda a, b: a + b)(torch.ones(3, device="mlu:0"), torch.ones(3, device=other))


@pytest.mark.slow
def test_branches_taken_by_a_tensor_are_compiled_with_their_gradients() -> None:
    yes, no = nn.Linear(4, 4).mlu(), nn.Linear(4, 4).mlu()
    compiled = torch.compile(lambda x: torch.cond(x.sum() > 0, lambda x: yes(x).relu(), lambda x: no(x).sin(), (x,)))
    for sign in (1, -1):
        leaf = (torch.rand(3, 4, device="mlu") * sign).requires_grad_()
        (found,) = torch.autograd.grad(compiled(leaf).sum(), leaf)
        (expected,) = torch.autograd.grad((yes(leaf).relu() if sign > 0 else no(leaf).sin()).sum(), leaf)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_sizes_that_depend_on_data_are_compiled() -> None:
    def selected(x: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] * 2).sum() + x.max().item()

    settings = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
    with torch._dynamo.config.patch(**settings):
        compiled = torch.compile(selected, fullgraph=True)
        for _ in range(2):
            x = torch.randn(20, device="mlu")
            torch.testing.assert_close(compiled(x), selected(x))


@pytest.mark.slow
def test_a_compiled_optimizer_step_changes_parameters_as_in_eager_mode() -> None:
    model = nn.Linear(4, 4).mlu()
    twin = copy.deepcopy(model)
    eager = torch.optim.AdamW(model.parameters(), lr=0.1)
    compiled = torch.optim.AdamW(twin.parameters(), lr=0.1)
    step = torch.compile(compiled.step)
    x = torch.randn(3, 4, device="mlu")
    for _ in range(3):
        for net, go in ((model, eager.step), (twin, step)):
            net.zero_grad()
            net(x).square().sum().backward()
            go()
    torch.testing.assert_close(list(twin.parameters()), list(model.parameters()), rtol=1e-4, atol=1e-5)
