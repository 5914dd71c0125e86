"""
Random sequences of operators with views, in-place changes, resizing and aliasing: mlu ends where cpu does.

A sequence is a list of steps drawn by hypothesis. Both devices take every step; when one raises, the other
has to raise.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

Tensor = torch.Tensor
LIMIT = 6  # tensors alive at once
NUMEL = 4096


@dataclass
class Machine:
    """The tensors of one device; both devices' machines go through the same steps."""

    device: str
    tensors: list[Tensor] = field(default_factory=list)

    def pick(self, number: int) -> Tensor:
        return self.tensors[number % len(self.tensors)]

    def keep(self, tensor: Tensor) -> None:
        if tensor.numel() <= NUMEL and tensor.untyped_storage().nbytes() <= NUMEL * 16:
            self.tensors.append(tensor)
            del self.tensors[:-LIMIT]


def _dim(tensor: Tensor, number: int) -> int:
    return number % max(tensor.dim(), 1)


def _size(tensor: Tensor, dim: int) -> int:
    return tensor.shape[dim] if tensor.dim() else 1


Step = Callable[[Machine, int, int, int], None]


def fresh(m: Machine, a: int, b: int, c: int) -> None:
    shape = [(), (3,), (2, 3), (4, 1, 2), (0,), (2, 2, 2), (1, 5)][a % 7]
    dtype = [torch.float32, torch.float64, torch.int64, torch.complex64, torch.float16, torch.bool][b % 6]
    count = 1
    for size in shape:
        count *= size
    m.keep((torch.arange(count, device="cpu") + c % 5).reshape(shape).to(dtype).to(m.device))


def transpose(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t.transpose(_dim(t, b), _dim(t, c)))


def narrow(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    start = c % (_size(t, _dim(t, b)) + 1)
    m.keep(t.narrow(_dim(t, b), start, _size(t, _dim(t, b)) - start))


def stepped(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a)[b % 2 :: 1 + c % 3])


def select(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t.select(_dim(t, b), c % max(_size(t, _dim(t, b)), 1)))


def expand(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a).unsqueeze(0).expand(1 + b % 3, *m.pick(a).shape))


def reshape(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a).reshape(-1) if b % 2 else m.pick(a).view(-1))


def strided(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a).as_strided((1 + b % 2, 2), (1 + c % 2, 1), c % 3))


def unfold(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t.unfold(_dim(t, b), 1 + c % 2, 1))


def conj(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t.conj() if b % 3 else torch.imag(t.conj()))


def real_view(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(torch.view_as_real(m.pick(a)))


def detach(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a).detach() if b % 2 else m.pick(a).clone())


def convert(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a).to([torch.float32, torch.int64, torch.complex64, torch.float64][b % 4]))


def add(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a) + m.pick(b))


def multiply_number(m: Machine, a: int, b: int, c: int) -> None:
    m.keep(m.pick(a) * [2, 0.5, 1j, True][b % 4])


def add_in_place(m: Machine, a: int, b: int, c: int) -> None:
    m.pick(a).add_(m.pick(b), alpha=1 + c % 2)


def copy_in_place(m: Machine, a: int, b: int, c: int) -> None:
    m.pick(a).copy_(m.pick(b))


def fill(m: Machine, a: int, b: int, c: int) -> None:
    m.pick(a).fill_(b % 7)


def set_item(m: Machine, a: int, b: int, c: int) -> None:
    m.pick(a)[b % 3] = m.pick(c)


def masked(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    t.masked_fill_(t == t.reshape(-1)[b % max(t.numel(), 1)], c % 5)


def transpose_in_place(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    t.transpose_(_dim(t, b), _dim(t, c)) if b % 2 else t.unsqueeze_(0)


def out_of_other_shape(m: Machine, a: int, b: int, c: int) -> None:
    torch.add(m.pick(a), m.pick(b), out=m.pick(c))


def out_fresh(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    out = torch.empty(0, dtype=t.dtype, device=m.device)
    torch.cat([t, t], dim=_dim(t, b), out=out)
    m.keep(out)


def resize(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    t.resize_((1 + b % 4, 1 + c % 5))
    t.fill_(b % 5)  # new memory holds anything


def storage_resize(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    storage = t.untyped_storage()
    before = storage.nbytes()
    storage.resize_(before + 16 * (b % 4))
    torch.empty(0, dtype=torch.uint8, device=m.device).set_(storage)[before:].fill_(1)


def set_to_other(m: Machine, a: int, b: int, c: int) -> None:
    m.pick(a).set_(m.pick(b))


def set_to_storage(m: Machine, a: int, b: int, c: int) -> None:
    t, other = m.pick(a), m.pick(b)
    if other.untyped_storage().nbytes() >= 2 * t.element_size():
        t.set_(other.untyped_storage(), 0, (2,), (1,))


def reduce(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t.sum(_dim(t, b), keepdim=bool(c % 2)) if t.dim() else t.sum())


def product(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t @ t.transpose(-1, -2) if t.dim() > 1 else t.outer(t))


def sort(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    for result in t.sort(dim=_dim(t, b), stable=True):
        m.keep(result)


def index(m: Machine, a: int, b: int, c: int) -> None:
    t = m.pick(a)
    m.keep(t[torch.tensor([b % 3, 0], device=m.device if c % 2 else "cpu")])


def foreach(m: Machine, a: int, b: int, c: int) -> None:
    torch._foreach_add_([m.pick(a), m.pick(b)], 1)


def drop(m: Machine, a: int, b: int, c: int) -> None:
    if len(m.tensors) > 1:
        del m.tensors[a % len(m.tensors)]


STEPS: list[Step] = [
    fresh, transpose, narrow, stepped, select, expand, reshape, strided, unfold, conj, real_view, detach, convert, add,
    multiply_number, add_in_place, copy_in_place, fill, set_item, masked, transpose_in_place, out_of_other_shape,
    out_fresh, resize, storage_resize, set_to_other, set_to_storage, reduce, product, sort, index, foreach, drop,
]  # fmt: skip


def attempt(step: Step, machine: Machine, numbers: tuple[int, int, int]) -> BaseException | None:
    try:
        step(machine, *numbers)
    except Exception as error:
        return error
    return None


def compare(cpu: Machine, mlu: Machine, story: str) -> None:
    assert len(cpu.tensors) == len(mlu.tensors), story
    for number, (a, b) in enumerate(zip(cpu.tensors, mlu.tensors, strict=True)):
        assert b.device.type == "mlu", story
        left = (a.shape, a.stride(), a.storage_offset(), a.dtype, a.is_conj(), a.is_neg(), a.untyped_storage().nbytes())
        right = (
            b.shape,
            b.stride(),
            b.storage_offset(),
            b.dtype,
            b.is_conj(),
            b.is_neg(),
            b.untyped_storage().nbytes(),
        )
        assert left == right, f"{story}: tensor {number} is {right} on mlu, {left} on cpu"
        for other in range(number):
            shared = a.untyped_storage().data_ptr() == cpu.tensors[other].untyped_storage().data_ptr()
            shared_there = b.untyped_storage().data_ptr() == mlu.tensors[other].untyped_storage().data_ptr()
            assert shared == shared_there, f"{story}: tensors {other} and {number} share memory on one device only"
        torch.testing.assert_close(
            b.cpu(), a.resolve_conj().resolve_neg(), equal_nan=True, msg=lambda m: f"{story}: {m}"
        )


def play(steps: list[tuple[int, int, int, int]]) -> None:
    cpu, mlu = Machine("cpu"), Machine("mlu")
    for machine in (cpu, mlu):
        fresh(machine, 2, 0, 0)
        fresh(machine, 5, 3, 1)
    story = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for which, *numbers in steps:
            step = STEPS[which % len(STEPS)]
            story += f" {step.__name__}{tuple(numbers)}"
            a = attempt(step, cpu, tuple(numbers))
            b = attempt(step, mlu, tuple(numbers))
            assert (a is None) == (b is None), f"{story}: cpu {a!r}, mlu {b!r}"
            compare(cpu, mlu, story)


NUMBER = st.integers(0, 30)
SEQUENCES = st.lists(st.tuples(st.integers(0, len(STEPS) - 1), NUMBER, NUMBER, NUMBER), min_size=1, max_size=14)
CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@given(SEQUENCES)
@settings(max_examples=250, deadline=None, suppress_health_check=CHECKS, derandomize=True)
def test_random_sequences_of_operators_agree(card: Any, steps: list[tuple[int, int, int, int]]) -> None:
    play(steps)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_random_sequences_agree(card: Any, part: int) -> None:
    """A thousand sequences of each part's own, so that the parts may run at once (``pytest -n``)."""

    @seed(part)
    @settings(max_examples=1_000, deadline=None, suppress_health_check=CHECKS, database=None)
    @given(SEQUENCES)
    def agree(steps: list[tuple[int, int, int, int]]) -> None:
        play(steps)

    agree()


def test_sequences_leave_no_memory_behind(card: Any) -> None:
    play([(i * 7, i, i + 3, i + 5) for i in range(40)])
    gc.collect()
    before = card.memory_stats(0)["allocated_bytes"]["all"]["current"]
    for start in range(20):
        with contextlib.suppress(AssertionError):
            play([(start + i * 7, i, i + start, i + 5) for i in range(12)])
    gc.collect()
    assert card.memory_stats(0)["allocated_bytes"]["all"]["current"] == before


def test_threads_train_at_once_and_get_the_numbers_of_one(card: Any) -> None:
    def train(device: str, seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(8, 8, generator=generator).to(device).requires_grad_()
        data = torch.randn(4, 8, generator=generator).to(device)
        for _ in range(10):
            loss = (data @ weight).tanh().pow(2).mean()
            (gradient,) = torch.autograd.grad(loss, weight)
            with torch.no_grad():
                weight -= 0.1 * gradient
        return loss.item()

    results: dict[int, float] = {}
    threads = [threading.Thread(target=lambda s=s: results.__setitem__(s, train(f"mlu:{s % 3}", s))) for s in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {s: pytest.approx(train("cpu", s), rel=1e-5) for s in range(6)}
