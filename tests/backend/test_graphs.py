"""Graphs: capture rules, and a replay that really computes."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import torch
import torch_mlu  # noqa: F401
from _programs import lines


def captured(function, *inputs: torch.Tensor):
    """A graph of one call on static inputs, and what it returned."""
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph):
        out = function(*inputs)
    return graph, out


def test_a_replay_computes_with_what_the_inputs_hold_now() -> None:
    x = torch.zeros(4, 4, device="mlu")
    w = torch.randn(4, 4, device="mlu")
    graph, out = captured(lambda x: torch.relu(x @ w).sum(0), x)
    for _ in range(3):
        x.copy_(torch.randn(4, 4))
        graph.replay()
        assert torch.allclose(out.cpu(), torch.relu(x.cpu() @ w.cpu()).sum(0))


def test_a_capture_leaves_existing_memory_as_it_was() -> None:
    x = torch.ones(3, device="mlu")
    graph, _ = captured(lambda x: x.add_(1).mul_(2), x)
    assert x.tolist() == [1.0, 1.0, 1.0]
    graph.replay()
    assert x.tolist() == [4.0, 4.0, 4.0]
    graph.replay()
    assert x.tolist() == [10.0, 10.0, 10.0]


def test_views_and_lists_of_tensors_take_part() -> None:
    x = torch.arange(6.0, device="mlu")
    parts = [torch.zeros(3, device="mlu"), torch.zeros(3, device="mlu")]

    def step(x: torch.Tensor) -> torch.Tensor:
        halves = x.view(2, 3)
        torch._foreach_add_(parts, [halves[0], halves[1]])
        return torch.stack(parts).t().contiguous()

    graph, out = captured(step, x)
    graph.replay()
    graph.replay()
    assert parts[1].tolist() == [6.0, 8.0, 10.0]
    assert out[:, 1].tolist() == [6.0, 8.0, 10.0]


def test_a_whole_training_step_is_replayed() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).mlu()
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    plain.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    other = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.zeros(16, 4, device="mlu"), torch.zeros(16, 1, device="mlu")

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.mlu.stream(torch.mlu.Stream()):
        step()
    model.load_state_dict(before)
    for state in optimizer.state.values():
        state["momentum_buffer"].zero_()
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph):
        loss = step()
    for _ in range(4):
        data, target = torch.randn(16, 4), torch.randn(16, 1)
        x.copy_(data)
        y.copy_(target)
        graph.replay()
        other.zero_grad()
        expected = torch.nn.functional.mse_loss(plain(data), target)
        expected.backward()
        other.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours.cpu(), theirs, atol=1e-6)


def test_random_numbers_differ_from_replay_to_replay_and_can_be_repeated() -> None:
    graph, out = captured(lambda: torch.rand(4, device="mlu"))
    torch.mlu.manual_seed(3)
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not torch.equal(first, out)
    torch.mlu.manual_seed(3)
    graph.replay()
    assert torch.equal(first, out)


def test_a_capture_takes_no_random_numbers_from_the_generator() -> None:
    torch.mlu.manual_seed(5)
    before = torch.mlu.get_rng_state()
    captured(lambda: torch.rand(4, device="mlu"))
    assert torch.equal(before, torch.mlu.get_rng_state())


def test_graphed_callables_train_like_the_originals() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).mlu()
    plain = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    plain.load_state_dict(model.state_dict())
    graphed = torch.mlu.make_graphed_callables(model, (torch.randn(4, 3, device="mlu", requires_grad=True),))
    assert graphed is model
    for _ in range(2):
        data = torch.randn(4, 3)
        x, z = data.mlu().requires_grad_(), data.clone().requires_grad_()
        model.zero_grad(set_to_none=True)
        plain.zero_grad(set_to_none=True)
        graphed(x).square().sum().backward()
        plain(z).square().sum().backward()
        assert torch.allclose(x.grad.cpu(), z.grad, atol=1e-5)
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.allclose(ours.grad.cpu(), theirs.grad, atol=1e-5)
    model.eval()
    assert torch.allclose(model(data.mlu()).cpu(), plain(data), atol=1e-6)


def test_several_functions_are_graphed_together() -> None:
    x = torch.ones(2, device="mlu", requires_grad=True)
    double, shift = torch.mlu.make_graphed_callables((lambda x: x * 2, lambda x: x + 3), ((x,), (x,)))
    y = torch.full((2,), 5.0, device="mlu", requires_grad=True)
    out = shift(double(y))
    assert out.tolist() == [13.0, 13.0]
    out.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_the_autocast_cache_has_to_be_off_for_graphed_callables() -> None:
    with torch.autocast("mlu"), pytest.raises(RuntimeError, match="cache_enabled=False"):
        torch.mlu.make_graphed_callables(lambda x: x, (torch.ones(1, device="mlu"),))


def test_an_instance_records_once() -> None:
    graph, _ = captured(lambda x: x + 1, torch.ones(1, device="mlu"))
    text = "^This MLUGraph instance already owns a captured graph. To capture a new graph, create a new instance.$"
    with torch.mlu.stream(torch.mlu.Stream()), pytest.raises(RuntimeError, match=text):
        graph.capture_begin()
    graph.reset()
    with torch.mlu.graph(graph):
        torch.ones(1, device="mlu") + 1


def test_the_default_stream_cannot_be_captured() -> None:
    with pytest.raises(RuntimeError, match="^MLU graphs must be captured on a non-default stream. "):
        torch.mlu.MLUGraph().capture_begin()


def test_a_capture_ends_where_it_began() -> None:
    graph = torch.mlu.MLUGraph()
    with torch.mlu.stream(torch.mlu.Stream()):
        graph.capture_begin()
        with (
            torch.mlu.stream(torch.mlu.Stream()),
            pytest.raises(RuntimeError, match="^Capture must end on the same stream it began on.$"),
        ):
            graph.capture_end()
    assert not torch.mlu.is_current_stream_capturing()


def test_nothing_is_replayed_before_a_capture() -> None:
    with pytest.raises(RuntimeError, match="^Called MLUGraph::replay without a preceding successful capture.$"):
        torch.mlu.MLUGraph().replay()
    with pytest.raises(RuntimeError, match=r"^Called MLUGraph::pool\(\) without a preceding successful capture.$"):
        torch.mlu.MLUGraph().pool()


def test_an_empty_capture_warns() -> None:
    graph = torch.mlu.MLUGraph()
    with pytest.warns(UserWarning, match="^The MLU Graph is empty. "), torch.mlu.graph(graph):
        pass


def test_an_unknown_mode_is_refused() -> None:
    with (
        torch.mlu.stream(torch.mlu.Stream()),
        pytest.raises(RuntimeError, match="`global`, `thread_local`, or `relaxed`"),
    ):
        torch.mlu.MLUGraph().capture_begin(capture_error_mode="strict")


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: x.copy_(torch.ones(3)),
        lambda x: torch.mlu.synchronize(),
        lambda x: torch.mlu.current_stream().synchronize(),
        lambda x: torch._foreach_lerp([x], [x], 0.5),
    ],
)
def test_what_cannot_be_recorded_fails_in_the_library(act) -> None:
    x = torch.ones(3, device="mlu")
    graph = torch.mlu.MLUGraph()
    with pytest.raises(RuntimeError, match="^CNRT error: "), torch.mlu.graph(graph):
        x + 1
        act(x)
    assert not torch.mlu.is_current_stream_capturing()
    assert x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "act", [lambda: torch.mlu.manual_seed(1), lambda: torch.mlu.default_generators[0].get_offset()]
)
def test_seeding_inside_a_capture_is_refused(act) -> None:
    graph = torch.mlu.MLUGraph()
    with pytest.raises(RuntimeError, match="^Cannot call MLUGeneratorImpl::"), torch.mlu.graph(graph):
        torch.ones(1, device="mlu") + 1
        act()


def test_an_optimizer_step_is_captured_only_when_capturable() -> None:
    param = torch.nn.Parameter(torch.ones(2, device="mlu"))
    param.grad = torch.ones(2, device="mlu")
    optimizer = torch.optim.Adam([param])
    optimizer.step()
    with (
        pytest.raises(RuntimeError, match="Attempting MLU graph capture of step"),
        torch.mlu.graph(torch.mlu.MLUGraph()),
    ):
        optimizer.step()


def test_graphs_share_a_pool_by_its_handle() -> None:
    pool = torch.mlu.graph_pool_handle()
    first, second = torch.mlu.MLUGraph(), torch.mlu.MLUGraph()
    with torch.mlu.graph(first, pool=pool):
        a = torch.ones(4, device="mlu") * 2
    with torch.mlu.graph(second, pool=first.pool()):
        b = a + 1
    first.replay()
    second.replay()
    assert (first.pool(), second.pool(), b.tolist()) == (pool, pool, [3.0] * 4)
    assert torch.mlu.graph_pool_handle() != pool


def test_a_recording_can_be_drawn(tmp_path: Path) -> None:
    graph = torch.mlu.MLUGraph()
    graph.enable_debug_mode()
    x = torch.ones(2, device="mlu")
    with torch.mlu.graph(graph):
        y = x * 2
        y + 1
    graph.debug_dump(str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith("digraph") and "aten::mul" in text and "->" in text


def test_another_thread_may_wait_for_the_card_meanwhile() -> None:
    done: list[bool] = []
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph):
        torch.ones(1, device="mlu") + 1
        thread = threading.Thread(target=lambda: (torch.mlu.synchronize(), done.append(True)))
        thread.start()
        thread.join()
    assert done == [True]


def test_a_graph_that_is_dropped_gives_its_memory_back() -> None:
    gc.collect()
    torch.mlu.empty_cache()
    before = torch.mlu.memory_reserved()
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph):
        out = torch.zeros(8 << 20, dtype=torch.uint8, device="mlu") + 1
    assert torch.mlu.memory_reserved() > before and out.is_mlu
    del graph, out
    gc.collect()
    torch.mlu.empty_cache()
    assert torch.mlu.memory_reserved() == before


def test_an_mlu370_has_no_graphs() -> None:
    code = """
    import torch, torch_mlu
    try:
        with torch.mlu.graph(torch.mlu.MLUGraph()):
            pass
    except RuntimeError as error:
        print(error)
    """
    assert lines(code, MLU_EMULATOR_PROFILE="mlu370")[0].startswith("CNRT error: ")
