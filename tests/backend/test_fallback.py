"""The boxed fallback: devices checked, memory shared, identity kept, nothing of the CPU left behind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

SAME = "Expected all tensors to be on the same device"


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: torch.mm(a, b),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: a + b,
        lambda a, b: a.add_(b),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: torch.nn.functional.linear(a, b),
        lambda a, b: torch.nn.functional.conv2d(a[None, None], b[None, None]),
        lambda a, b: torch.bmm(a[None], b[None]),
        lambda a, b: torch.gather(a, 0, b.long()),
        lambda a, b: torch.add(a, a, out=b),
        lambda a, b: torch._foreach_add([a], [b]),
        lambda a, b: torch.nn.functional.layer_norm(a, (4,), b[0], b[0]),
    ],
)
@pytest.mark.parametrize("other", ["cpu", "mlu:1"])
def test_tensors_of_two_devices_are_refused(card: Any, call: Callable[..., Any], other: str) -> None:
    with pytest.raises(RuntimeError, match=SAME):
        call(torch.ones(4, 4, device="mlu"), torch.ones(4, 4, device=other))


def test_a_number_on_the_cpu_may_take_part_but_not_be_written(card: Any) -> None:
    tensor, number = torch.arange(3.0, device="mlu"), torch.tensor(2.0)
    assert (tensor * number).tolist() == [0.0, 2.0, 4.0] and (tensor * number).device.type == "mlu"
    assert tensor.masked_fill(tensor > 1, number).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match=SAME):
        torch.sum(tensor, 0, out=number)


def test_indices_may_be_on_the_cpu_as_on_a_gpu(card: Any) -> None:
    tensor = torch.arange(12.0, device="mlu").view(3, 4)
    assert tensor[torch.tensor([2, 0])].tolist() == [[8.0, 9.0, 10.0, 11.0], [0.0, 1.0, 2.0, 3.0]]
    tensor[torch.tensor([0])] = 7.0
    assert tensor[0].tolist() == [7.0] * 4


def test_packed_sequences_keep_their_batch_sizes_on_the_cpu(card: Any) -> None:
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(5, 3, 2, device="mlu"), [5, 3, 2])
    assert packed.data.device.type == "mlu" and packed.batch_sizes.device.type == "cpu"
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(torch.nn.LSTM(2, 4).mlu()(packed)[0])
    assert padded.shape == (5, 3, 4) and padded.device.type == "mlu" and lengths.tolist() == [5, 3, 2]


def test_an_out_argument_is_the_result_and_is_resized(card: Any) -> None:
    out = torch.empty(0, device="mlu")
    result = torch.add(torch.ones(2, 3, device="mlu"), 1, out=out)
    assert result is out and out.tolist() == [[2.0] * 3] * 2
    values, indices = torch.empty(0, device="mlu"), torch.empty(0, dtype=torch.int64, device="mlu")
    torch.sort(torch.tensor([3.0, 1.0, 2.0], device="mlu"), out=(values, indices))
    assert values.tolist() == [1.0, 2.0, 3.0] and indices.tolist() == [1, 2, 0]


def test_an_out_argument_that_is_a_view_writes_into_its_base(card: Any) -> None:
    base = torch.zeros(8, device="mlu")
    view = base[:4]
    torch.arange(4.0, device="mlu", out=view)
    assert base.tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]


def test_in_place_operators_return_the_tensor_itself_and_reach_its_views(card: Any) -> None:
    tensor = torch.zeros(2, 3, device="mlu")
    column = tensor[:, 1]
    assert column.add_(5) is column and tensor.sum().item() == 10
    assert tensor.clamp_(max=2) is tensor and column.tolist() == [2.0, 2.0]
    tensor.t_()
    assert tensor.shape == (3, 2) and tensor._version > 0


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.view(6),
        lambda t: t.t(),
        lambda t: t[1:],
        lambda t: t.unfold(1, 2, 1),
        lambda t: t.diagonal(),
        lambda t: t.expand(4, 2, 3),
        lambda t: t.as_strided((2,), (4,), 1),
        lambda t: t.detach(),
        lambda t: t.unbind(0)[1],
        lambda t: t.split(2, 1)[1],
        lambda t: t.view(torch.int32),
        lambda t: torch.view_as_complex(t.flatten().view(3, 2)),
    ],
)
def test_views_share_memory_and_strides_with_their_base(
    card: Any, view: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    here = torch.arange(6.0).view(2, 3)
    there = here.mlu()
    a, b = view(here), view(there)
    assert b.untyped_storage().data_ptr() == there.untyped_storage().data_ptr()
    assert (a.shape, a.stride(), a.storage_offset(), a.dtype) == (b.shape, b.stride(), b.storage_offset(), b.dtype)
    here.fill_(3)
    there.fill_(3)
    assert torch.equal(a, b.cpu())


def test_conjugated_and_negated_views_are_lazy_and_right(card: Any) -> None:
    tensor = torch.randn(3, 3, dtype=torch.complex64)
    there = tensor.mlu()
    conj = there.conj()
    assert conj.is_conj() and conj.data_ptr() == there.data_ptr()
    torch.testing.assert_close((conj @ there).cpu(), tensor.conj() @ tensor)
    torch.testing.assert_close(conj.cpu(), tensor.conj())
    assert conj.imag.is_neg()
    torch.testing.assert_close((conj.imag + 1).cpu(), tensor.conj().imag + 1)
    torch.testing.assert_close(conj.clone().cpu(), tensor.conj().clone())
    conj[0, 0] = 1 + 2j
    assert there[0, 0].item() == 1 - 2j


def test_views_follow_when_their_storage_is_reallocated(card: Any) -> None:
    tensor = torch.ones(4, device="mlu")
    other = tensor[:2]
    tensor.resize_(1 << 16).fill_(2)
    assert other.tolist() == [2.0, 2.0]
    assert other.untyped_storage().nbytes() == 4 << 16


def test_sparse_tensors_live_on_the_card(card: Any) -> None:
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    sparse = dense.mlu().to_sparse()
    assert sparse.is_sparse and sparse.device.type == "mlu" and sparse.indices().device.type == "mlu"
    torch.testing.assert_close(torch.sparse.mm(sparse, dense.mlu()).cpu(), dense @ dense)
    doubled = (sparse + sparse).coalesce()
    torch.testing.assert_close(doubled.to_dense().cpu(), 2 * dense)
    assert sparse.cpu().to_dense().equal(dense) and dense.to_sparse().mlu().to_dense().cpu().equal(dense)
    sparse.mul_(3)
    torch.testing.assert_close(sparse.to_dense().cpu(), 3 * dense)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_compressed_tensors_live_on_the_card(card: Any, layout: torch.layout) -> None:
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = dense.mlu().to_sparse(layout=layout)
        assert there.layout == layout and there.values().device.type == "mlu"
        torch.testing.assert_close((there @ dense.mlu()).cpu(), dense @ dense)
        assert there.cpu().to_dense().equal(dense)


def test_quantised_tensors_live_on_the_card(card: Any) -> None:
    dense = torch.randn(4, 4)
    here = torch.quantize_per_tensor(dense, 0.1, 3, torch.qint8)
    there = torch.quantize_per_tensor(dense.mlu(), 0.1, 3, torch.qint8)
    assert there.is_quantized and there.device.type == "mlu"
    assert there.dequantize().cpu().equal(here.dequantize()) and there.int_repr().cpu().equal(here.int_repr())


def test_nested_tensors_live_on_the_card(card: Any) -> None:
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = torch.nested.nested_tensor([p.mlu() for p in parts])
        assert there.is_nested and there.device.type == "mlu"
        padded = torch.nested.to_padded_tensor(there, 0.0)
    assert padded.device.type == "mlu" and padded[1].cpu().equal(parts[1]) and padded[0, 2:].abs().sum().item() == 0


def test_random_operators_use_the_generator_of_their_card_and_leave_the_cpu_s_alone(card: Any) -> None:
    state = torch.get_rng_state()
    torch.mlu.manual_seed(5)
    first = [torch.randn(5, device="mlu"), torch.nn.functional.dropout(torch.ones(64, device="mlu"), 0.5)]
    torch.mlu.manual_seed(5)
    again = [torch.randn(5, device="mlu"), torch.nn.functional.dropout(torch.ones(64, device="mlu"), 0.5)]
    assert all(a.equal(b) for a, b in zip(first, again, strict=True))
    assert not torch.randn(5, device="mlu").equal(first[0])
    assert torch.get_rng_state().equal(state)
    generator = torch.Generator("mlu").manual_seed(5)
    assert torch.randn(5, device="mlu", generator=generator).equal(first[0])


def test_an_operator_without_a_kernel_on_the_card_warns_once(card: Any) -> None:
    tensor = torch.rand(3, device="mlu")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.special.bessel_y1(tensor)
            tensor + tensor
    texts = [str(w.message) for w in seen]
    assert len(texts) == 1 and "special_bessel_y1' is not currently supported on the MLU backend" in texts[0]
    assert "will fall back to run on the CPU. This may have performance implications." in texts[0]


def test_with_falling_back_switched_off_such_an_operator_is_refused(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import torch, mlu_backend, torch_mlu\nx = torch.rand(3, device='mlu')\nprint((x @ x).shape)\n"
        "try:\n    torch.special.bessel_y1(x)\nexcept NotImplementedError as error:\n    print(error)",
        ENABLE_FALLBACK_TO_CPU="off",
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "torch.Size([])", done.stderr
    assert lines[1].startswith("The operator 'aten::special_bessel_y1")
    assert "is not currently implemented for the MLU device." in lines[1]


def test_an_error_of_a_kernel_leaves_the_arguments_as_they_were(card: Any) -> None:
    tensor = torch.ones(2, 3, device="mlu")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tensor @ tensor
    with pytest.raises(IndexError):
        tensor.sum(7)
    assert tensor.device.type == "mlu" and tensor.sum().item() == 6


def test_gradients_flow_through_views_and_in_place_operators(card: Any) -> None:
    def run(device: str) -> torch.Tensor:
        leaf = torch.arange(6.0, device=device).requires_grad_()
        work = leaf * 2
        work.view(2, 3)[0].mul_(3)
        (work.pow(2).sum() + leaf[2:].exp().sum()).backward()
        assert leaf.grad is not None
        return leaf.grad.cpu()

    torch.testing.assert_close(run("mlu"), run("cpu"))


def test_inference_mode_works(card: Any) -> None:
    with torch.inference_mode():
        tensor = torch.ones(3, device="mlu")
        tensor.add_(1).mul_(tensor[:1].clone())
        assert tensor.is_inference() and tensor.tolist() == [4.0, 4.0, 4.0]


def test_operators_of_other_libraries_with_a_cpu_kernel_run_on_the_card(card: Any) -> None:
    library = torch.library.Library("mlu_test_ops", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = torch.ops.mlu_test_ops.twice(torch.ones(2, device="mlu"))
    assert result.device.type == "mlu" and result.tolist() == [2.0, 2.0]
