"""The device in the ways programs use a GPU, each checked against the CPU or against what torch_mlu is known to do."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import pickle
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_mlu  # noqa: F401
from torch.utils import _pytree
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.set_default_device(None)
    torch.mlu.set_device(0)


def close(got: Any, wanted: Any, **limits: float) -> None:
    for ours, theirs in zip(_pytree.tree_leaves(got), _pytree.tree_leaves(wanted), strict=True):
        if isinstance(ours, torch.Tensor):
            assert ours.device.type == "mlu"
            torch.testing.assert_close(ours.cpu(), theirs, **limits)
        else:
            assert ours == theirs


def both(function: Callable[..., Any], *arguments: torch.Tensor, **limits: float) -> None:
    """The function gives the same on the card as on the CPU."""
    close(function(*(value.mlu() for value in arguments)), function(*arguments), **limits)


# Autograd.


def test_a_function_of_ones_own_saves_and_marks_and_differentiates_twice() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return slope * 3 * x**2

    x = torch.randn(4, dtype=torch.float64, device="mlu", requires_grad=True)
    assert torch.autograd.gradcheck(Cube.apply, (x,)) and torch.autograd.gradgradcheck(Cube.apply, (x,))


def test_a_function_changes_its_input_in_place_and_marks_it() -> None:
    class Fill(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
            return slope * 2

    leaf = torch.ones(2, device="mlu", requires_grad=True)
    Fill.apply(leaf * 1).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


def test_a_saved_tensor_that_was_changed_is_noticed() -> None:
    x = torch.ones(2, device="mlu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_anomaly_mode_names_the_operator_that_made_nan() -> None:
    x = torch.zeros(1, device="mlu", requires_grad=True)
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="SqrtBackward0.* returned nan"):
            (x.sqrt() * 0).sum().backward()


def test_hooks_of_tensors_modules_and_accumulation_see_the_card() -> None:
    seen: list[str] = []
    layer = nn.Linear(2, 2).mlu()
    layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(f"acc {p.grad.device}"))
    layer.register_full_backward_pre_hook(lambda m, slope: seen.append(f"pre {slope[0].device}"))
    layer.register_full_backward_hook(lambda m, before, after: seen.append(f"post {after[0].device}"))
    x = torch.ones(1, 2, device="mlu", requires_grad=True)
    out = layer(x)
    out.register_hook(lambda slope: seen.append(f"tensor {slope.device}"))
    out.sum().backward()
    assert sorted(seen) == ["acc mlu:0", "post mlu:0", "pre mlu:0", "tensor mlu:0"]


def test_saved_tensors_are_kept_on_the_cpu_when_asked() -> None:
    x = torch.randn(64, 64, device="mlu", requires_grad=True)
    packed: list[str] = []

    def pack(value: torch.Tensor) -> torch.Tensor:
        packed.append(value.device.type)
        return value.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value.mlu()):
        y = (x.sin() * x).sum()
    y.backward()
    close(x.grad, (x.cos() * x + x.sin()).detach().cpu())
    assert set(packed) == {"mlu"}
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        z = x.sin().sum()
    x.grad = None
    z.backward()
    close(x.grad, x.cos().detach().cpu())


def test_gradients_come_back_to_the_device_each_leaf_lives_on() -> None:
    on_cpu = torch.ones(2, requires_grad=True)
    first = torch.ones(2, device="mlu:0", requires_grad=True)
    second = torch.ones(2, device="mlu:1", requires_grad=True)
    ((on_cpu.to("mlu:0") * first).to("mlu:1") * second).sum().cpu().backward()
    assert [leaf.grad.device for leaf in (on_cpu, first, second)] == [leaf.device for leaf in (on_cpu, first, second)]


def test_a_gradient_of_another_device_is_refused() -> None:
    x = torch.ones(2, device="mlu", requires_grad=True)
    with pytest.raises(RuntimeError, match="(?i)device"):
        x.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="(?i)device"):
        (x * 2).backward(torch.ones(2))


def test_checkpointing_drops_the_same_numbers_when_it_computes_again() -> None:
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for _ in range(3))).mlu()
    x = torch.randn(4, 8, device="mlu", requires_grad=True)
    grads = []
    for run in (
        layers,
        lambda value: checkpoint(layers, value, use_reentrant=False),
        lambda value: checkpoint(layers, value, use_reentrant=True),
        lambda value: checkpoint_sequential(layers, 3, value, use_reentrant=False),
    ):
        torch.mlu.manual_seed(5)
        (slope,) = torch.autograd.grad(run(x).sum(), x) if "Sequential" in str(type(run)) else (None,)
        if slope is None:
            x.grad = None
            run(x).sum().backward()
            slope = x.grad.clone()
        grads.append(slope)
    assert all(torch.equal(grads[0], other) for other in grads[1:])


def test_forward_mode_and_functional_derivatives_agree_with_the_cpu() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x.roll(1)).cumsum(0)

    x, way = torch.randn(5), torch.randn(5)
    both(lambda x, way: torch.func.jvp(f, (x,), (way,)), x, way)
    both(lambda x: torch.func.jacfwd(f)(x), x)
    both(lambda x: torch.func.jacrev(f)(x), x)
    both(lambda x: torch.func.hessian(lambda t: f(t).square().sum())(x), x, rtol=1e-4, atol=1e-4)
    both(lambda x, way: torch.func.vjp(f, x)[1](way)[0], x, way)
    both(lambda x: torch.func.linearize(f, x)[1](torch.ones_like(x)), x)


def test_ensembles_and_per_sample_gradients_are_mapped() -> None:
    models = [nn.Linear(4, 2).mlu() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x = torch.randn(5, 4, device="mlu")
    out = torch.vmap(lambda p, b: torch.func.functional_call(base, (p, b), (x,)))(parameters, buffers)
    torch.testing.assert_close(out, torch.stack([model(x) for model in models]))

    def loss(state: dict[str, torch.Tensor], one: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(models[0], state, (one[None],)).square().sum()

    slopes = torch.vmap(torch.func.grad(loss), (None, 0))(dict(models[0].named_parameters()), x)
    assert slopes["weight"].shape == (5, 2, 4) and slopes["weight"].device.type == "mlu"


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers_in_vmap_follow_the_mode(randomness: str) -> None:
    x = torch.zeros(6, 50, device="mlu")
    out = torch.vmap(lambda row: row + torch.rand_like(row), randomness=randomness)(x)
    assert torch.equal(out[0], out[1]) is (randomness == "same")
    dropped = torch.vmap(lambda row: F.dropout(row + 1, 0.5), randomness=randomness)(x)
    assert torch.equal(dropped[0], dropped[1]) is (randomness == "same")
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(lambda row: torch.rand_like(row))(x)


# Objects: copies, pickles, subclasses, references.


class Tagged(torch.Tensor):
    """A subclass that stays itself through operators."""


def test_subclasses_stay_themselves() -> None:
    x = torch.ones(2, device="mlu").as_subclass(Tagged)
    assert type(x + 1) is Tagged and type(x.cpu()) is Tagged and type(x.cpu().mlu()) is Tagged
    assert type(pickle.loads(pickle.dumps(x))) is Tagged and pickle.loads(pickle.dumps(x)).device == x.device


def test_wrapper_subclasses_dispatch_with_the_card_inside() -> None:
    class Logged(torch.Tensor):
        calls: list[str] = []

        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Logged:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner: torch.Tensor) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.calls.append(str(function))
            given, named = _pytree.tree_map_only(Logged, lambda t: t.inner, (args, kwargs or {}))
            return _pytree.tree_map_only(torch.Tensor, Logged, function(*given, **named))

    x = Logged(torch.ones(3, device="mlu"))
    out = x * 2 + x
    assert out.device == torch.device("mlu:0") and out.inner.tolist() == [3, 3, 3]
    assert Logged.calls == ["aten.mul.Tensor", "aten.add.Tensor"]


def test_modes_see_operators_of_the_card() -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    with Dispatch(), Function():
        torch.zeros(2, device="mlu").add_(1)
    assert seen == ["zeros", "aten.zeros.default", "add_", "aten.add_.Tensor"]


def test_a_flop_counter_counts_on_the_card() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    layer, x = nn.Linear(8, 16).mlu(), torch.ones(4, 8, device="mlu")
    with FlopCounterMode(display=False) as counter:
        layer(x)
    assert counter.get_total_flops() == 2 * 4 * 8 * 16


def test_weak_references_die_and_memory_returns_with_cycles() -> None:
    gc.collect()
    before = torch.mlu.memory_allocated()
    x = torch.ones(1 << 16, device="mlu")
    reference = weakref.ref(x)
    holder: dict[str, Any] = {"x": x}
    holder["self"] = holder
    del x, holder
    gc.collect()
    assert reference() is None and torch.mlu.memory_allocated() == before


def test_deep_copies_share_what_was_shared_and_nothing_else() -> None:
    layer = nn.Linear(3, 3).mlu()
    tied = nn.ModuleDict({"a": layer, "b": layer})
    twin = copy.deepcopy(tied)
    assert twin["a"].weight is twin["b"].weight and twin["a"].weight.data_ptr() != layer.weight.data_ptr()
    base = torch.arange(6.0, device="mlu")
    whole, part = copy.deepcopy([base, base[2:]])
    part.zero_()
    assert whole.tolist() == [0, 1, 0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="graph leaves|deepcopy protocol"):
        copy.deepcopy(layer.weight * 2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_tensors_parameters_and_modules_are_pickled_with_every_protocol(protocol: int) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).mlu()
    x = torch.tensor([1.5, -2], device="mlu:1", requires_grad=True)
    got, twin = pickle.loads(pickle.dumps((x, model), protocol=protocol))
    assert got.device == torch.device("mlu:1") and got.requires_grad and torch.equal(got, x)
    close(twin(torch.ones(3, 2, device="mlu")), model.cpu()(torch.ones(3, 2)).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", ["cpu", "mlu:1", torch.device("mlu", 1), {"mlu:0": "mlu:1"}, None])
def test_a_checkpoint_moves_where_it_is_told(tmp_path: Path, place: Any) -> None:
    model = nn.Linear(3, 3).mlu()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device="mlu")).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "c.pt")
    state = torch.load(tmp_path / "c.pt", map_location=place, weights_only=True)
    wanted = {"cpu": "cpu", None: "mlu:0"}.get(place if isinstance(place, str) else None, "mlu:1")
    wanted = "mlu:0" if place is None else "cpu" if place == "cpu" else "mlu:1"
    assert str(state["model"]["weight"].device) == wanted
    assert str(state["optimizer"]["state"][0]["exp_avg"].device) == wanted and state["epoch"] == 3


def test_a_map_location_function_sees_the_tag_of_the_card() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2, device="mlu:1"), file)
    tags: list[str] = []
    got = torch.load(io.BytesIO(file.getvalue()), map_location=lambda storage, tag: tags.append(tag) or storage)
    assert tags == ["mlu:1"] and got.device.type == "cpu"
    assert torch.load(io.BytesIO(file.getvalue()), map_location=lambda storage, tag: storage.mlu(0)).device.index == 0


def test_memory_mapped_checkpoints_and_assignment_load_onto_the_card(tmp_path: Path) -> None:
    source = nn.Linear(4, 4)
    torch.save(source.state_dict(), tmp_path / "w.pt")
    model = nn.Linear(4, 4).mlu()
    model.load_state_dict(torch.load(tmp_path / "w.pt", mmap=True, weights_only=True))
    close(model.weight.detach(), source.weight.detach())
    with torch.device("meta"):
        empty = nn.Linear(4, 4)
    empty.load_state_dict(torch.load(tmp_path / "w.pt", map_location="mlu"), assign=True)
    close(empty.weight.detach(), source.weight.detach())
    with torch.device("meta"):
        hollow = nn.Linear(4, 4)
    assert hollow.to_empty(device="mlu:1").weight.device == torch.device("mlu:1")
    with pytest.raises(NotImplementedError, match="meta tensor"):
        nn.Linear(4, 4, device="meta").to("mlu")


def test_an_optimizer_state_follows_parameters_to_the_card() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    on_card = copy.deepcopy(model).mlu()
    again = torch.optim.Adam(on_card.parameters(), lr=0.1)
    again.load_state_dict(state)
    assert again.state[on_card.weight]["exp_avg"].device == torch.device("mlu:0")
    assert again.state[on_card.weight]["step"].device.type == "cpu"


def test_moving_a_module_keeps_its_parameters_objects_and_ties() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    before = model["a"].weight
    model.mlu()
    assert model["a"].weight is before and model["b"].weight is before and before.is_mlu
    assert before.device == torch.device("mlu:0") and before.is_leaf


def test_parametrisations_weight_norm_and_pruning_work() -> None:
    from torch.nn.utils import parametrizations, parametrize, prune

    class Symmetric(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.triu() + x.triu(1).t()

    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    normed, spectral = parametrizations.weight_norm(nn.Linear(3, 3)), parametrizations.spectral_norm(nn.Linear(3, 3))
    orthogonal = parametrizations.orthogonal(nn.Linear(3, 3))
    pruned = prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=0.5)
    for module in (layer, normed, orthogonal, spectral.eval()):
        twin = copy.deepcopy(module).mlu()
        close(twin(torch.ones(2, 3, device="mlu")), module(torch.ones(2, 3)), rtol=1e-4, atol=1e-4)
    pruned.mlu()(torch.ones(1, 4, device="mlu")).sum().backward()
    assert pruned.weight_mask.is_mlu and (pruned.weight == 0).sum().item() == 8


def test_lazy_modules_materialise_on_the_card() -> None:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)).mlu()
    assert model(torch.ones(2, 3, 6, 6, device="mlu")).shape == (2, 2)
    assert all(parameter.is_mlu for parameter in model.parameters())


def test_skip_init_and_device_contexts_build_on_the_card() -> None:
    layer = torch.nn.utils.skip_init(nn.Linear, 3, 3, device="mlu:1")
    assert layer.weight.device == torch.device("mlu:1")
    with torch.device("mlu:1"):
        made = nn.Linear(2, 2)
        assert torch.zeros(1).device == made.weight.device == torch.device("mlu:1")
        assert torch.zeros(1, device="cpu").device.type == "cpu"
        assert torch.tensor([1]).device == torch.arange(3).device == torch.device("mlu:1")
    torch.set_default_device("mlu")
    assert torch.ones(1).device == torch.device("mlu:0") and torch.randperm(4).is_mlu


# Numbers in and out: NumPy, DLPack, Python.


def test_numpy_refuses_tensors_of_the_card_and_takes_copies() -> None:
    x = torch.ones(2, device="mlu")
    for convert in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.sin(x)):
        with pytest.raises(TypeError, match=r"can't convert mlu:0 device type tensor to numpy"):
            convert()
    assert np.asarray(x.cpu()).tolist() == x.numpy(force=True).tolist() == [1, 1]
    assert torch.from_numpy(np.ones(2)).mlu().dtype == torch.float64
    assert torch.as_tensor(np.arange(3), device="mlu").tolist() == [0, 1, 2]
    assert (x * np.float32(3)).tolist() == [3, 3] and (np.float32(3) * x).tolist() == [3, 3]
    assert not hasattr(x, "__cuda_array_interface__")


def test_the_interface_of_cuda_arrays_is_refused_in_torchs_words() -> None:
    with pytest.raises(AttributeError, match="Can't get __cuda_array_interface__ on non-CUDA tensor type"):
        torch.ones(1, device="mlu").__cuda_array_interface__  # noqa: B018


def test_dlpack_is_refused_as_it_is_unsupported_on_a_card() -> None:
    """api_support_lists/torch_api.yaml lists it as unsupported; the words are torch's."""
    for convert in (torch.from_dlpack, lambda x: x.__dlpack_device__()):
        with pytest.raises(ValueError, match="Unknown device type mlu for Dlpack"):
            convert(torch.ones(2, device="mlu"))


def test_python_numbers_lists_and_formats_come_out() -> None:
    x = torch.tensor([[1, 2], [3, 4]], device="mlu")
    assert [int(v) for v in x.flatten()] == [1, 2, 3, 4] and float(x[1, 1]) == 4 and bool(x[0, 0])
    assert f"{x[0, 1]:>4}" == "   2" and f"{x[0, 0].float():.2f}" == "1.00"
    assert range(10)[x[1, 0]] == 3 and [5, 6, 7][x[0, 0]] == 6
    assert 3 in x and 9 not in x and len(x) == 2 and x.tolist() == [[1, 2], [3, 4]]
    assert complex(torch.tensor(1 + 2j, device="mlu")) == 1 + 2j
    with pytest.raises(RuntimeError, match="a Tensor with 4 elements cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(x)


def test_text_of_tensors_names_the_card() -> None:
    assert repr(torch.ones(2, device="mlu")) == "tensor([1., 1.], device='mlu:0')"
    assert "device='mlu:1'" in repr(torch.ones(2, device="mlu:1", requires_grad=True))
    assert repr(torch.ones(2, dtype=torch.int8, device="mlu")) == "tensor([1, 1], device='mlu:0', dtype=torch.int8)"
    assert "device='mlu:0'" in repr(nn.Parameter(torch.ones(1, device="mlu")))
    assert "nnz=1" in repr(torch.eye(1, device="mlu").to_sparse()) and "mlu:0" in repr(
        torch.eye(1, device="mlu").to_sparse()
    )
    assert str(torch.device("mlu")) == "mlu" and repr(torch.device("mlu:1")) == "device(type='mlu', index=1)"


def test_comparisons_of_devices_tell_apart_what_they_should() -> None:
    x = torch.ones(1, device="mlu")
    assert x.device == torch.device("mlu", 0) and x.device != torch.device("mlu") and x.device.type == "mlu"
    assert x.device in {torch.device("mlu:0")} and x.get_device() == 0 and x.is_mlu and not x.is_cuda and not x.is_cpu
    assert torch.device(0) == torch.device("mlu:0") and torch.accelerator.current_accelerator().type == "mlu"
    assert torch.ones(1).mlu().to(x.device).device == x.device


# Data: workers, pinned memory, transfer.


def test_transfers_copy_or_do_not_as_on_a_gpu() -> None:
    x = torch.ones(3, device="mlu")
    assert x.to("mlu") is x and x.to("mlu:0") is x and x.mlu() is x and x.to(x) is x
    assert x.to("mlu", copy=True) is not x and x.to("mlu:1").device.index == 1
    host = torch.ones(3).pin_memory()
    assert host.is_pinned() and not x.is_pinned() and not torch.ones(1).is_pinned()
    moved = host.to("mlu", non_blocking=True)
    host.zero_()
    assert moved.tolist() == [1, 1, 1]
    y = torch.empty(3)
    y.copy_(x, non_blocking=True)
    torch.mlu.synchronize()
    assert y.tolist() == [1, 1, 1]
    assert x.to(torch.float16).dtype == torch.float16 and x.to("cpu", torch.int32).dtype == torch.int32
    with pytest.raises(RuntimeError, match="(?i)pin"):
        x.pin_memory()


def test_channels_last_and_strides_survive_transfers() -> None:
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert x.mlu().stride() == x.stride() and x.mlu().cpu().stride() == x.stride()
    conv = nn.Conv2d(3, 6, 3).to(memory_format=torch.channels_last)
    assert copy.deepcopy(conv).mlu()(x.mlu()).is_contiguous(memory_format=torch.channels_last)
    both(lambda t: conv.to(t.device)(t), x, rtol=1e-4, atol=1e-5)
    assert x.t if False else torch.randn(3, 5).t().mlu().stride() == (1, 5)
    assert torch.ones(1, 3, device="mlu").expand(4, 3).cpu().shape == (4, 3)


# Kinds of tensors and layers.


def test_every_recurrent_layer_takes_packed_sequences() -> None:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    x, lengths = torch.randn(3, 6, 4), torch.tensor([6, 2, 4])
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        layer = kind(4, 5, num_layers=2, bidirectional=True, batch_first=True)

        def run(value: torch.Tensor, layer: nn.Module = layer) -> tuple[torch.Tensor, torch.Tensor]:
            packed = pack_padded_sequence(value, lengths, batch_first=True, enforce_sorted=False)
            out, _ = layer.to(value.device)(packed)
            padded, sizes = pad_packed_sequence(out, batch_first=True)
            assert sizes.device.type == "cpu" and sizes.tolist() == [6, 2, 4]
            return padded.detach()

        both(run, x, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="(?i)'lengths' argument should be a 1D CPU int64 tensor"):
        pack_padded_sequence(x.mlu(), lengths.mlu(), batch_first=True, enforce_sorted=False)


def test_transformers_train_and_infer_with_masks() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True)
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    twin = copy.deepcopy(model).mlu()
    close(
        twin(x.mlu(), src_key_padding_mask=padding.mlu()), model(x, src_key_padding_mask=padding), rtol=1e-4, atol=1e-5
    )
    model.eval(), twin.eval()
    with torch.no_grad():
        got = twin(x.mlu(), src_key_padding_mask=padding.mlu())
        close(got[:, :3], model(x, src_key_padding_mask=padding)[:, :3], rtol=1e-4, atol=1e-5)


def test_nested_tensors_of_both_layouts_compute() -> None:
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    for layout in (torch.strided, torch.jagged):

        def run(*values: torch.Tensor, layout: torch.layout = layout) -> list[torch.Tensor]:
            nested = torch.nested.nested_tensor(list(values), layout=layout)
            return list((nested * 2).softmax(-1).unbind())

        both(run, *parts)
    nested = torch.nested.nested_tensor([part.mlu() for part in parts], layout=torch.jagged, requires_grad=True)
    padded = torch.nested.to_padded_tensor(nested.sin(), 0.0)
    padded.sum().backward()
    assert padded.shape == (2, 3, 4) and nested.grad.device.type == "mlu"


def test_sparse_layouts_convert_multiply_and_differentiate() -> None:
    dense = torch.tensor([[0.0, 2, 0], [3, 0, 4]])
    for make in ("to_sparse", "to_sparse_csr", "to_sparse_csc"):
        both(lambda t, make=make: getattr(t, make)().to_dense(), dense)
        both(lambda t, make=make: getattr(t, make)() @ torch.ones(3, 2, device=t.device), dense)
    weight = dense.mlu().to_sparse().requires_grad_()
    torch.sparse.mm(weight, torch.ones(3, 2, device="mlu")).sum().backward()
    assert weight.grad.is_sparse and weight.grad.device.type == "mlu"
    embed = nn.Embedding(10, 3, sparse=True).mlu()
    embed(torch.tensor([1, 1, 4], device="mlu")).sum().backward()
    assert embed.weight.grad.is_sparse
    torch.optim.SparseAdam(embed.parameters()).step()
    with pytest.raises(RuntimeError, match="(?i)device"):
        torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1, device="mlu"), (2, 2), device="mlu") @ dense


def test_complex_numbers_go_through_views_transforms_and_layers() -> None:
    x = torch.randn(4, 6, dtype=torch.complex64)
    both(lambda t: (t.conj() @ t.t(), t.real + t.imag, t.abs(), t.angle()), x, rtol=1e-4, atol=1e-5)
    both(lambda t: torch.fft.ifft2(torch.fft.fft2(t)), x, rtol=1e-4, atol=1e-5)
    both(lambda t: torch.view_as_complex(torch.view_as_real(t) * 2), x)
    both(lambda t: torch.istft(torch.stft(t, 64, return_complex=True), 64), torch.randn(512), rtol=1e-4, atol=1e-4)
    leaf = x.mlu().requires_grad_()
    (leaf * leaf.conj()).real.sum().backward()
    close(leaf.grad, 2 * x)


def test_masked_tensors_and_special_dtypes_work() -> None:
    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32):
        x = torch.ones(3, device="mlu").to(dtype)
        assert x.dtype == dtype and x.cpu().dtype == dtype and x.clone().to(torch.complex64).real.tolist() == [1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        masked = torch.masked.masked_tensor(
            torch.arange(3.0, device="mlu"), torch.tensor([True, False, True], device="mlu")
        )
        assert masked.sum().item() == 2


def test_foreach_and_fused_operators_agree_with_the_cpu() -> None:
    values = [torch.randn(3), torch.randn(2, 2), torch.randn(())]

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        tensors = [value.clone() for value in given]
        torch._foreach_mul_(tensors, 2.0)
        torch._foreach_add_(tensors, torch._foreach_sqrt(torch._foreach_abs(tensors)), alpha=0.5)
        torch._foreach_lerp_(tensors, [torch.zeros_like(t) for t in tensors], 0.25)
        return [*torch._foreach_norm(tensors), *tensors, *torch._foreach_maximum(tensors, 0.1)]

    both(run, *values)
    for kind in ("Adam", "AdamW", "SGD", "Adagrad"):
        leaf = torch.ones(3, device="mlu", requires_grad=True)
        leaf.grad = torch.ones(3, device="mlu")
        getattr(torch.optim, kind)([leaf], lr=0.1, fused=True).step()
        assert leaf[0].item() < 1
    with pytest.raises(RuntimeError, match="(?i)same device|on cpu|devices"):
        torch._foreach_add_([torch.ones(1, device="mlu")], [torch.ones(2)])


def test_indexing_in_every_form_agrees_with_the_cpu() -> None:
    x, index = torch.randn(5, 6), torch.tensor([4, 0, 2])
    mask = torch.rand(5, 6) > 0.5
    both(
        lambda t, i, m: (t[i], t[:, i], t[m], t[i, i], t[..., None, ::2], t[1:4, i[:1]], t[i[:, None], i]),
        x,
        index,
        mask,
    )

    def write(t: torch.Tensor, i: torch.Tensor, m: torch.Tensor) -> list[torch.Tensor]:
        out = [t.clone() for _ in range(6)]
        out[0][i] = 1
        out[1][m] = torch.arange(int(m.sum()), dtype=t.dtype, device=t.device)
        out[2].index_put_((i, i), torch.ones(3, device=t.device), accumulate=True)
        out[3].scatter_(0, i[None, :], 7.0)
        out[4].index_add_(0, i, torch.ones(3, 6, device=t.device))
        out[5].masked_fill_(m, -1)
        return out

    both(write, x, index, mask)
    with pytest.raises((IndexError, RuntimeError), match="out of (bounds|range)"):
        x.mlu()[torch.tensor([9], device="mlu")]
    with pytest.raises(IndexError, match="The shape of the mask"):
        x.mlu()[torch.ones(3, 3, dtype=torch.bool, device="mlu")]


def test_decompositions_of_linear_algebra_agree_with_the_cpu() -> None:
    a = torch.randn(4, 4)
    spd = a @ a.t() + 4 * torch.eye(4)
    both(lambda t: torch.linalg.cholesky(t), spd, rtol=1e-4, atol=1e-4)
    both(lambda t: torch.linalg.solve(t, torch.eye(4, device=t.device)), spd, rtol=1e-4, atol=1e-4)
    both(lambda t: torch.linalg.svdvals(t), a, rtol=1e-4, atol=1e-4)
    both(lambda t: torch.linalg.eigvalsh(t), spd, rtol=1e-4, atol=1e-4)
    both(
        lambda t: (torch.linalg.inv(t), torch.linalg.det(t), torch.linalg.matrix_exp(t / 8)), spd, rtol=1e-3, atol=1e-3
    )
    both(lambda t: torch.linalg.lstsq(t, torch.ones(4, 1, device=t.device)).solution, spd, rtol=1e-3, atol=1e-3)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(-spd.mlu())


def test_quantisation_with_observers_and_int8_tensors() -> None:
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0])
    both(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.1, 0, -128, 127), x)
    quantised = torch.quantize_per_tensor(x.mlu(), 0.1, 0, torch.qint8)
    assert quantised.device.type == "mlu" and quantised.int_repr().tolist() == [-10, 0, 5, 10]
    close(quantised.dequantize(), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize())
    both(lambda a, b: torch._int_mm(a, b), torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8))


# Streams, events, graphs, memory.


def test_a_prefetcher_on_a_side_stream_delivers_in_order() -> None:
    stream = torch.mlu.Stream()
    batches, out = [torch.full((4,), float(i)).pin_memory() for i in range(4)], []
    ready = None
    for batch in [*batches, None]:
        if ready is not None:
            torch.mlu.current_stream().wait_stream(stream)
            ready.record_stream(torch.mlu.current_stream())
            out.append(ready.sum().item())
        if batch is not None:
            with torch.mlu.stream(stream):
                ready = batch.to("mlu", non_blocking=True)
    assert out == [0, 4, 8, 12]


def test_a_graph_of_a_training_step_with_a_scaler_replays() -> None:
    model = nn.Linear(4, 1).mlu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 4, device="mlu"), torch.randn(8, 1, device="mlu")
    stream = torch.mlu.Stream()
    with torch.mlu.stream(stream):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            F.mse_loss(model(x), y).backward()
            optimizer.step()
    torch.mlu.current_stream().wait_stream(stream)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.mlu.MLUGraph()
    with torch.mlu.graph(graph):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    losses = []
    for _ in range(5):
        graph.replay()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]


def test_peak_memory_of_a_block_is_measured_as_people_do() -> None:
    torch.mlu.empty_cache()
    torch.mlu.reset_peak_memory_stats()
    start = torch.mlu.memory_allocated()
    x = torch.ones(1 << 20, device="mlu")
    y = x * 2
    del x, y
    assert torch.mlu.memory_allocated() == start
    # The number two takes a block of its own for a moment.
    assert 2 * (4 << 20) <= torch.mlu.max_memory_allocated() - start <= 2 * (4 << 20) + 512
    free, total = torch.mlu.mem_get_info()
    assert 0 < free <= total == torch.mlu.get_device_properties(0).total_memory
    assert torch.accelerator.memory_allocated() == start and "allocated" in torch.mlu.memory_summary().lower()


def test_a_batch_size_is_halved_until_it_fits() -> None:
    torch.mlu.set_per_process_memory_fraction(0.001)
    try:
        size, tried = 1 << 26, 0
        while True:
            try:
                x = torch.zeros(size, device="mlu") + 1
                break
            except torch.OutOfMemoryError as error:
                assert "MLU out of memory" in str(error)
                torch.mlu.empty_cache()
                size, tried = size // 2, tried + 1
        assert tried > 0 and x.numel() == size
    finally:
        torch.mlu.set_per_process_memory_fraction(1.0)


def test_storages_are_resized_shared_and_viewed_as_bytes() -> None:
    x = torch.arange(4, dtype=torch.int32, device="mlu")
    storage = x.untyped_storage()
    assert storage.device == torch.device("mlu:0") and storage.nbytes() == 16 and len(storage) == 16
    assert x.view(torch.uint8).shape == (16,) and x.view(torch.float32).view(torch.int32).tolist() == [0, 1, 2, 3]
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(16)
    x.fill_(3)
    assert x.tolist() == [3] * 4
    y = torch.empty(0, dtype=torch.int32, device="mlu").set_(storage, 1, (2,), (1,))
    y.zero_()
    assert x.tolist() == [3, 0, 0, 3]
    assert torch.tensor([], device="mlu").set_(x.float()).tolist() == [3, 0, 0, 3]


def test_addresses_are_memory_that_ctypes_can_read() -> None:
    """What an extension compiled for the host would see."""
    x = torch.tensor([1.5, 2.5], device="mlu")
    assert list((ctypes.c_float * 2).from_address(x.data_ptr())) == [1.5, 2.5]


# Modules of torch that know devices by name.


def test_utilities_that_ask_for_the_device_module_find_torch_mlu() -> None:
    assert torch.get_device_module("mlu") is torch.mlu and torch.get_device_module() is torch.mlu
    assert torch._utils._get_device_module("mlu") is torch.mlu and torch._C._get_accelerator().type == "mlu"
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == torch.mlu.device_count()
    torch.accelerator.set_device_index(1)
    assert torch.mlu.current_device() == 1 and torch.accelerator.current_device_index() == 1
    torch.accelerator.synchronize()
    stream = torch.accelerator.current_stream()
    assert stream.device == torch.device("mlu:1")


def test_random_state_is_kept_around_a_block_when_the_device_is_named() -> None:
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type="mlu"):
        inside = torch.rand(2, device="mlu")
    assert torch.equal(torch.rand(2, device="mlu"), inside)
    states = torch.mlu.get_rng_state_all()
    first = torch.rand(3, device="mlu:1")
    torch.mlu.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="mlu:1"), first)


def test_a_generator_travels_with_its_state() -> None:
    generator = torch.Generator("mlu:1").manual_seed(9)
    assert generator.device == torch.device("mlu:1") and generator.initial_seed() == 9
    twin = torch.Generator("mlu:1")
    twin.set_state(generator.get_state())
    draw = [torch.rand(3, device="mlu:1", generator=one) for one in (generator, twin)]
    assert torch.equal(*draw)
    copied = generator.clone_state()
    third, fourth = (torch.rand(2, device="mlu:1", generator=one) for one in (copied, generator))
    assert torch.equal(third, fourth)
    x = torch.ones(4, device="mlu")
    for draw in (
        lambda cpu: torch.rand(2, device="mlu", generator=cpu),
        lambda cpu: x.normal_(generator=cpu),
        lambda cpu: torch.multinomial(x, 2, generator=cpu),
        lambda cpu: torch.bernoulli(x, generator=cpu),
        lambda cpu: nn.init.normal_(x, generator=cpu),
    ):
        with pytest.raises(RuntimeError, match="Expected a 'mlu' device type for generator but found 'cpu'"):
            draw(torch.Generator())
    assert torch.randperm(3, device="mlu", generator=torch.Generator()).is_mlu
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.rand(2, generator=generator)


def test_distributions_sample_and_score_on_the_card() -> None:
    import torch.distributions as d

    loc = torch.zeros(3, device="mlu", requires_grad=True)
    for made in (d.Normal(loc, 1.0), d.Laplace(loc, 1.0), d.LogNormal(loc, 0.5), d.Uniform(loc, loc + 1)):
        sample = made.rsample((4,))
        assert sample.device.type == "mlu" and made.log_prob(sample.detach()).shape == (4, 3)
    assert d.Categorical(logits=torch.zeros(5, device="mlu")).sample((7,)).max() < 5
    assert d.MultivariateNormal(torch.zeros(2, device="mlu"), torch.eye(2, device="mlu")).sample().is_mlu
    assert d.Bernoulli(probs=torch.full((2,), 0.5, device="mlu")).sample().is_mlu
    assert d.Gamma(torch.ones(2, device="mlu"), torch.ones(2, device="mlu")).rsample().min() > 0
    assert d.Dirichlet(torch.ones(3, device="mlu")).sample().sum().item() == pytest.approx(1, abs=1e-5)
    assert d.kl_divergence(d.Normal(loc, 1.0), d.Normal(loc + 1, 1.0)).sum().item() == pytest.approx(1.5)


def test_averaged_models_and_schedulers_follow_the_card() -> None:
    model = nn.Linear(2, 2).mlu()
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5), use_buffers=True
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=4)
    for _ in range(3):
        model(torch.ones(1, 2, device="mlu")).sum().backward()
        optimizer.step()
        scheduler.step()
        averaged.update_parameters(model)
    assert averaged.module.weight.is_mlu and averaged.n_averaged.item() == 3
    loader = [torch.ones(2, 2, device="mlu")]
    torch.optim.swa_utils.update_bn(loader, averaged, device="mlu")


def test_flattening_clipping_and_vectors_of_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).mlu()
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(vector * 0, model.parameters())
    assert vector.is_mlu and all(not parameter.any() for parameter in model.parameters())
    model(torch.ones(1, 3, device="mlu")).sum().backward()
    for foreach in (False, True):
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=foreach)
        assert norm.is_mlu
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
    with pytest.raises(RuntimeError, match="non-finite"):
        model[0].weight.grad.fill_(float("inf"))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)


def test_losses_of_every_kind_agree_with_the_cpu() -> None:
    scores, target = torch.randn(4, 5), torch.tensor([1, 0, 4, -100])
    both(lambda s, t: F.cross_entropy(s, t, label_smoothing=0.1, weight=torch.ones(5, device=s.device)), scores, target)
    both(lambda s: F.kl_div(s.log_softmax(-1), s.softmax(-1), reduction="batchmean"), scores, rtol=1e-4, atol=1e-6)
    both(lambda s: F.triplet_margin_loss(s, s.roll(1, 0), s.roll(2, 0)), scores)
    both(lambda s: F.gaussian_nll_loss(s, s.roll(1), s.abs() + 1), scores)
    both(lambda s: F.multi_margin_loss(s, torch.tensor([1, 0, 4, 2], device=s.device)), scores)
    both(lambda s: F.huber_loss(s, s * 2) + F.smooth_l1_loss(s, s * 3) + F.poisson_nll_loss(s, s.abs()), scores)
    with pytest.raises((IndexError, RuntimeError), match="(?i)target .* out of bounds"):
        F.cross_entropy(scores.mlu(), torch.tensor([9, 0, 0, 0], device="mlu"))


def test_images_are_resized_sampled_padded_and_unfolded_as_on_the_cpu() -> None:
    x = torch.randn(2, 3, 8, 8)
    for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
        both(lambda t, mode=mode: F.interpolate(t, scale_factor=1.5, mode=mode), x, rtol=1e-4, atol=1e-5)
    both(lambda t: F.grid_sample(t, F.affine_grid(torch.eye(2, 3, device=t.device)[None].expand(2, 2, 3), t.shape)), x)
    for mode in ("constant", "reflect", "replicate", "circular"):
        both(lambda t, mode=mode: F.pad(t, (1, 2, 2, 1), mode=mode), x)
    both(lambda t: F.fold(F.unfold(t, 3, padding=1), (8, 8), 3, padding=1), x)
    both(lambda t: F.pixel_unshuffle(F.pixel_shuffle(t.repeat(1, 4, 1, 1), 2), 2), x)
    pool = nn.MaxPool2d(2, return_indices=True)
    both(lambda t: nn.MaxUnpool2d(2)(*pool(t)), x)
    both(lambda t: F.adaptive_avg_pool2d(t, (3, 5)) + F.adaptive_max_pool2d(t, (3, 5)), x, rtol=1e-4, atol=1e-5)


def test_an_ordered_dict_of_devices_and_a_model_over_cards() -> None:
    model = nn.Sequential(OrderedDict(a=nn.Linear(2, 2).to("mlu:0"), b=nn.Linear(2, 2).to("mlu:1")))
    x = torch.ones(1, 2, device="mlu:0")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        model(x)
    assert model.b(model.a(x).to("mlu:1")).device == torch.device("mlu:1")
    total = torch.stack([p.detach().square().sum().to("mlu:0") for p in model.parameters()]).sum()
    assert total.device == torch.device("mlu:0")
    norm = torch.nn.utils.get_total_norm([p.detach() for p in model.parameters()])
    assert norm.item() == pytest.approx(total.sqrt().item(), rel=1e-5)
