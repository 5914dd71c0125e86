"""Random numbers on the card."""

from __future__ import annotations

import pytest
import torch
import torch_mlu  # noqa: F401
from _programs import lines


def test_a_state_is_sixteen_bytes_on_the_cpu_seed_then_offset() -> None:
    torch.mlu.manual_seed(7)
    state = torch.mlu.get_rng_state()
    assert (state.dtype, state.shape, state.device.type) == (torch.uint8, (16,), "cpu")
    assert int(state.view(torch.int64)[0]) == 7 and int(state.view(torch.int64)[1]) == 0
    torch.rand(3, device="mlu")
    assert int(torch.mlu.get_rng_state().view(torch.int64)[1]) % 4 == 0


def test_a_restored_state_repeats_the_numbers() -> None:
    state = torch.mlu.get_rng_state("mlu:0")
    first = torch.randn(5, device="mlu")
    assert not torch.equal(first, torch.randn(5, device="mlu"))
    torch.mlu.set_rng_state(state)
    assert torch.equal(first, torch.randn(5, device="mlu"))


def test_eight_bytes_set_the_seed_alone() -> None:
    torch.mlu.set_rng_state(torch.tensor([3], dtype=torch.int64).view(torch.uint8))
    assert torch.mlu.initial_seed() == 3
    assert torch.mlu.get_rng_state().view(torch.int64).tolist() == [3, 0]


@pytest.mark.parametrize("length", [5056, 24, 4])
def test_a_state_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.mlu.set_rng_state(torch.zeros(length, dtype=torch.uint8))


def test_an_offset_has_to_be_a_multiple_of_four() -> None:
    with pytest.raises(RuntimeError, match="multiple of 4"):
        torch.mlu.set_rng_state(torch.tensor([1, 3], dtype=torch.int64).view(torch.uint8))


def test_seeding_before_first_use_waits_and_the_last_one_counts() -> None:
    code = """
    import torch, torch_mlu
    torch.mlu.manual_seed_all(1)
    torch.mlu.manual_seed(2)
    print(torch.mlu.is_initialized())
    torch.mlu.init()
    print(torch.mlu.initial_seed(), torch.mlu.default_generators[1].initial_seed())
    torch.manual_seed(5)
    print([generator.initial_seed() for generator in torch.mlu.default_generators])
    """
    assert lines(code, MLU_EMULATOR_CARDS="2") == ["False", "2 1", "[5, 5]"]


def test_a_queued_call_that_fails_is_swallowed_as_over_there() -> None:
    code = """
    import torch, torch_mlu
    torch.mlu.set_rng_state(torch.zeros(5, dtype=torch.uint8))
    print(torch.zeros(1, device="mlu").item())
    """
    assert lines(code) == ["0.0"]


def test_default_generators_start_at_random_and_new_ones_do_not() -> None:
    code = "import torch, torch_mlu; print(torch.mlu.initial_seed(), torch.Generator('mlu').initial_seed())"
    (first,), (second,) = lines(code), lines(code)
    assert first.split()[0] != second.split()[0]
    assert first.split()[1] == second.split()[1] == "67280421310721"


def test_each_card_has_numbers_of_its_own() -> None:
    torch.mlu.manual_seed_all(4)
    first, second = torch.rand(4, device="mlu:0"), torch.rand(4, device="mlu:1")
    assert torch.equal(first.cpu(), second.cpu())
    states = torch.mlu.get_rng_state_all()
    assert len(states) == torch.mlu.device_count()
    torch.mlu.seed_all()
    assert len({generator.initial_seed() for generator in torch.mlu.default_generators}) == 1
    torch.mlu.set_rng_state_all(states)
    assert torch.mlu.get_rng_state(1).tolist() == states[1].tolist()


def test_a_generator_of_the_card_is_used_where_it_is_given() -> None:
    generator = torch.Generator(device="mlu").manual_seed(9)
    first = torch.randn(3, device="mlu", generator=generator)
    second = torch.randn(3, device="mlu", generator=torch.Generator(device="mlu").manual_seed(9))
    assert torch.equal(first, second)


def test_fork_rng_restores_the_card_when_told_to() -> None:
    torch.mlu.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="mlu"):
        torch.rand(2, device="mlu")
    after = torch.rand(2, device="mlu")
    torch.mlu.manual_seed(1)
    assert torch.equal(after, torch.rand(2, device="mlu"))
