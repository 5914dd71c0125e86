"""DDP, FSDP, distributed tensors, pipelines and checkpoints over cncl, against the same training in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import training_tasks as tasks
from workers import World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(2, "cncl") as started:
        yield started


@pytest.mark.parametrize(
    ("options", "spare"),
    [
        ({}, True),
        ({"bucket_cap_mb": 0.0005}, True),
        ({"gradient_as_bucket_view": True}, True),
        ({"find_unused_parameters": True}, False),
        ({"static_graph": True}, False),
    ],
    ids=["plain", "many buckets", "buckets as views", "unused parameters", "static graph"],
)
def test_ddp_trains_as_one_process_does_with_the_whole_batch(
    world: World, options: dict[str, object], spare: bool
) -> None:
    world.run(tasks.ddp, options, spare)


def test_ddp_keeps_gradients_local_under_no_sync_and_sums_them_afterwards(world: World) -> None:
    world.run(tasks.ddp_accumulates_under_no_sync)


def test_ddp_takes_a_communication_hook_of_ones_own(world: World) -> None:
    world.run(tasks.ddp_hook_of_ones_own)


def test_ddp_sends_weights_and_buffers_from_rank_0(world: World) -> None:
    world.run(tasks.ddp_sends_buffers_and_weights_from_rank_0)


def test_synchronised_batch_norm_gives_the_statistics_and_gradients_of_the_whole_batch(world: World) -> None:
    world.run(tasks.synchronised_batch_norm)


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
@pytest.mark.parametrize("use_orig_params", [False, True], ids=["flat parameters", "original parameters"])
def test_fsdp_trains_as_one_process_does(world: World, strategy: str, use_orig_params: bool) -> None:
    world.run(tasks.fsdp1, strategy, use_orig_params)


def test_fully_shard_trains_as_one_process_does(world: World) -> None:
    world.run(tasks.fsdp2)


def test_fully_shard_computes_in_bfloat16_and_keeps_float32_parameters(world: World) -> None:
    world.run(tasks.fsdp2_in_bfloat16)


def test_distributed_tensors_shard_multiply_and_redistribute(world: World) -> None:
    world.run(tasks.distributed_tensors)


def test_tensor_parallel_layers_give_the_values_and_gradients_of_whole_ones(world: World) -> None:
    world.run(tasks.tensor_parallel)


def test_collectives_inside_a_compiled_graph_reach_the_other_ranks(world: World) -> None:
    world.run(tasks.compiled_collectives)


def test_a_compiled_ddp_model_trains_as_one_process_does(world: World) -> None:
    world.run(tasks.compiled_ddp)


def test_what_surrounds_collectives_is_compiled(world: World) -> None:
    world.run(tasks.compiled_between_collectives)


def test_a_model_compiled_inside_ddp_trains_as_one_process_does(world: World) -> None:
    world.run(tasks.compiled_inside_ddp)


def test_a_compiled_fully_sharded_model_trains_as_one_process_does(world: World) -> None:
    world.run(tasks.compiled_fully_sharded)


@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
def test_a_pipeline_gives_the_outputs_and_gradients_of_the_whole_model(world: World, schedule: str) -> None:
    world.run(tasks.pipeline, schedule)


def test_a_distributed_checkpoint_restores_model_and_optimizer(world: World, tmp_path: Path) -> None:
    world.run(tasks.checkpoint, str(tmp_path / "checkpoint"))
