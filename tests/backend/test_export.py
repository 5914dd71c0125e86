"""torch.export of programs on the device: run, other sizes, files, compilation, decomposition, other devices."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_mlu  # noqa: F401
from torch.export import Dim, export

pytestmark = pytest.mark.slow  # minutes in all: for the nightly run


class Net(nn.Module):
    """A convolution, dropout, a buffer that changes and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)
        self.register_buffer("scale", torch.full((1,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.drop(self.norm(self.conv(x)).relu()).flatten(2).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(tokens, tokens, tokens)
        return self.head(mixed.mean(1)) * self.scale


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().mlu().eval()


def image(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, 6, 6, device="mlu")


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.device == wanted.device
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_an_exported_model_computes_what_the_model_does_and_names_the_card(net: Net) -> None:
    program = export(net, (image(),))
    x = image()
    close(program.module()(x), net(x))
    assert {value.device.type for value in program.state_dict.values()} == {"mlu"}


@pytest.mark.parametrize("strict", [False, True])
def test_sizes_that_were_left_open_may_change_and_others_may_not(net: Net, strict: bool) -> None:
    program = export(net, (image(),), dynamic_shapes=({0: Dim("batch", min=1, max=16)},), strict=strict)
    for batch in (1, 5, 16):
        x = image(batch)
        close(program.module()(x), net(x))
    with pytest.raises(Exception, match="(?i)guard|shape|expected"):
        program.module()(torch.randn(2, 3, 7, 6, device="mlu"))


def test_dim_auto_finds_what_may_change(net: Net) -> None:
    program = export(net, (image(),), dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},))
    x = torch.randn(3, 3, 9, 5, device="mlu")
    close(program.module()(x), net(x))


def test_a_saved_program_is_loaded_on_the_card_with_its_weights(net: Net, tmp_path: Path) -> None:
    file = tmp_path / "net.pt2"
    torch.export.save(export(net, (image(),)), file)
    loaded = torch.export.load(file)
    x = image()
    close(loaded.module()(x), net(x))
    assert loaded.state_dict["conv.weight"].device == torch.device("mlu:0")


def test_a_loaded_program_compiles(net: Net, tmp_path: Path) -> None:
    torch.compiler.reset()
    torch.export.save(export(net, (image(),)), tmp_path / "net.pt2")
    x = image()
    close(torch.compile(torch.export.load(tmp_path / "net.pt2").module())(x), net(x))


def test_decomposition_keeps_results(net: Net) -> None:
    x = image()
    close(export(net, (x,)).run_decompositions().module()(x), net(x))


def test_a_model_exported_for_training_trains(net: Net) -> None:
    net.train()
    module = export(net, (image(),)).module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = module.conv.weight.detach().clone()
    module(image()).square().sum().backward()
    optimizer.step()
    assert not torch.equal(module.conv.weight, before) and module.conv.weight.device.type == "mlu"


def test_a_buffer_that_changes_goes_on_changing() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x * self.calls

    module = export(Counter().mlu(), (torch.ones(2, device="mlu"),)).module()
    assert [module(torch.ones(1 + 1, device="mlu"))[0].item() for _ in range(3)] == [1, 2, 3]


def test_control_flow_and_named_arguments_are_exported() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor, *, factor: torch.Tensor) -> dict[str, torch.Tensor]:
            out = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
            return {"out": out * factor, "made": torch.arange(3, device=x.device)}

    x, factor = torch.ones(3, device="mlu"), torch.tensor(3.0, device="mlu")
    module = export(Branch(), (x,), {"factor": factor}).module()
    assert module(x, factor=factor)["out"].tolist() == [6, 6, 6]
    assert module(-x, factor=factor)["out"].tolist() == [-6, -6, -6]
    assert module(x, factor=factor)["made"].device.type == "mlu"


def test_a_program_moves_to_another_device() -> None:
    from torch.export.passes import move_to_device_pass

    layer = nn.Linear(3, 2)
    program = export(layer, (torch.ones(1, 3),))
    moved = move_to_device_pass(program, "mlu:1")
    x = torch.randn(1, 3)
    out = moved.module()(x.to("mlu:1"))
    assert out.device == torch.device("mlu:1")
    torch.testing.assert_close(out.cpu(), layer(x))
    back = move_to_device_pass(export(nn.Linear(3, 2).mlu(), (torch.ones(1, 3, device="mlu"),)), "cpu")
    assert back.module()(x).device.type == "cpu"


def test_operators_of_two_devices_are_refused_while_exporting() -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        export(Mixed(), (torch.ones(2, device="mlu"), torch.ones(2)))


def test_jit_traced_and_scripted_modules_run_save_and_load_on_the_card(net: Net, tmp_path: Path) -> None:
    x = image()
    for made in (torch.jit.trace(net, x), torch.jit.script(net)):
        close(made(x), net(x))
        made.save(str(tmp_path / "net.pt"))
        close(torch.jit.load(str(tmp_path / "net.pt"), map_location="mlu:1")(x.to("mlu:1")), net(x).to("mlu:1"))
        close(torch.jit.load(str(tmp_path / "net.pt"))(x), net(x))


def test_fx_traces_and_runs_on_the_card(net: Net) -> None:
    x = image()
    close(torch.fx.symbolic_trace(net)(x), net(x))


def test_make_fx_records_operators_of_the_card() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + torch.zeros(3, device="mlu")

    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(f, tracing_mode=mode)(torch.ones(3, device="mlu"))
        devices = [node.kwargs["device"] for node in graph.graph.nodes if "device" in node.kwargs]
        assert devices and all(device.type == "mlu" for device in devices)
        close(graph(torch.ones(3, device="mlu")), f(torch.ones(3, device="mlu")))
