"""The process group cncl, its rules and its results, on groups of two and four processes."""

from __future__ import annotations

from collections.abc import Iterator

import collective_tasks as tasks
import pytest
from workers import World


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(request.param) as started:
        yield started


def test_sum_product_min_max_and_avg_agree_with_arithmetic_in_every_dtype_cncl_has(world: World) -> None:
    world.run(tasks.reduce_operations)


def test_bool_travels_as_uint8_and_its_sum_stays_a_bool(world: World) -> None:
    world.run(tasks.booleans)


def test_bitwise_operations_short_integers_sparse_and_cpu_tensors_are_refused_in_cncls_words(world: World) -> None:
    world.run(tasks.refusals)


def test_complex_tensors_sum_and_average_and_nothing_else(world: World) -> None:
    world.run(tasks.complex_numbers)


def test_broadcast_and_reduce_reach_every_root_and_leave_the_others_alone(world: World) -> None:
    world.run(tasks.broadcast_and_reduce)


def test_gathers_and_scatter_keep_the_order_of_ranks_also_for_uneven_and_overlapping_tensors(world: World) -> None:
    world.run(tasks.gathers)


def test_tensors_that_are_not_contiguous_or_are_empty_or_scalars_are_written_in_place(world: World) -> None:
    world.run(tasks.strided_tensors)


def test_reduce_scatter_gives_each_rank_its_part_and_keeps_the_input(world: World) -> None:
    world.run(tasks.reduce_scatters)


def test_all_to_all_exchanges_even_and_uneven_parts(world: World) -> None:
    world.run(tasks.all_to_alls)


def test_sends_and_receives_meet_blocking_pending_batched_and_polled(world: World) -> None:
    world.run(tasks.point_to_point)


def test_python_objects_travel(world: World) -> None:
    world.run(tasks.objects)


def test_handles_know_when_they_are_done_and_futures_carry_the_tensors(world: World) -> None:
    world.run(tasks.handles_and_futures)


def test_coalesced_collectives_are_waited_for_together(world: World) -> None:
    world.run(tasks.coalesced)


def test_new_groups_work_on_a_part_of_the_ranks_and_can_be_destroyed(world: World) -> None:
    world.run(tasks.groups)


def test_new_groups_work_when_the_world_is_bound_to_a_device(world: World) -> None:
    world.run(tasks.groups_of_a_bound_device)


def test_cpu_tensors_go_through_gloo_in_the_same_group(world: World) -> None:
    world.run(tasks.both_devices)


def test_a_collective_without_its_partner_times_out_and_says_so_everywhere(world: World) -> None:
    world.run(tasks.a_missing_rank_times_out)


def test_names_options_and_the_default_timeout_are_those_of_torch_mlu(world: World) -> None:
    world.run(tasks.options_and_names)


def test_float64_goes_out_as_float32_only_where_the_profile_says_so(world: World) -> None:
    world.run(tasks.wire_width)


def test_functional_collectives_agree_with_the_others(world: World) -> None:
    world.run(tasks.functional)


def test_no_collective_is_recorded_unless_the_environment_asks_for_it(world: World) -> None:
    world.run(tasks.nothing_recorded_unasked)


def test_the_flight_record_names_the_last_collectives_with_shapes_frames_and_how_they_ended(world: World) -> None:
    world.run(tasks.flight_record)
