"""Profiles of programs on the card."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch_mlu  # noqa: F401
from torch.profiler import ProfilerActivity, profile, record_function


@pytest.fixture(scope="module")
def finished() -> profile:
    model = torch.nn.Linear(64, 64).mlu()
    x = torch.randn(32, 64, device="mlu")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.MLU], record_shapes=True, profile_memory=True
    ) as prof:
        with record_function("step"):
            model(x).sum().backward()
    return prof


def test_the_activity_is_that_of_private_devices() -> None:
    assert ProfilerActivity.MLU is ProfilerActivity.PrivateUse1 or ProfilerActivity.MLU == ProfilerActivity.PrivateUse1


def test_the_table_has_columns_for_the_card(finished: profile) -> None:
    table = finished.key_averages().table(sort_by="self_mlu_time_total")
    for column in ("Self MLU", "Self MLU %", "MLU total", "MLU time avg", "MLU Mem", "Self MLU Mem"):
        assert column in table
    assert "Self MLU time total: " in table.splitlines()[-1] or "Self MLU time total: " in table


def test_events_have_device_times_and_no_mlu_ones(finished: profile) -> None:
    events = finished.key_averages()
    linear = next(event for event in events if event.key == "aten::addmm")
    assert linear.device_time_total > 0 and linear.self_device_time_total > 0
    assert not hasattr(linear, "mlu_time_total")


def test_the_word_mlu_in_a_sort_key_works_by_keyword_only(finished: profile) -> None:
    from torch.autograd import profiler_util

    events = finished.key_averages()
    assert profiler_util._build_table(events, sort_by="mlu_time_total")
    with pytest.raises(AttributeError):
        profiler_util._build_table(events, "mlu_time_total")


def test_stacks_are_exported_by_an_mlu_metric(finished: profile, tmp_path: Path) -> None:
    finished.events().export_stacks(str(tmp_path / "stacks.txt"), metric="self_mlu_time_total")
    with pytest.raises(ValueError, match="metric should be one of"):
        finished.events().export_stacks(str(tmp_path / "stacks.txt"), "self_mlu_time_total")


def test_the_card_alone_can_be_profiled() -> None:
    with profile(activities=[ProfilerActivity.MLU]) as prof:
        torch.ones(4, device="mlu").sum()
    assert any(event.device_time_total > 0 for event in prof.key_averages())


def test_the_old_interface_takes_the_device_by_name() -> None:
    with torch.autograd.profiler.profile(use_device="mlu") as prof:
        torch.ones(4, device="mlu") + 1
    assert sum(event.self_device_time_total for event in prof.key_averages()) > 0
    with pytest.raises(TypeError):
        torch.autograd.profiler.profile(use_mlu=True)


def test_emit_cnpx_is_not_reentrant() -> None:
    context = torch.autograd.profiler.emit_cnpx()
    with context:
        torch.ones(1, device="mlu") + 1
        with pytest.raises(RuntimeError, match="CNPX annotation context manager is not reentrant"):
            context.__enter__()
    with torch.autograd.profiler.emit_cnpx(enabled=False) as nothing:
        assert nothing is None


def test_patterns_speak_of_this_device() -> None:
    from torch.profiler import _pattern_matcher as theirs
    from torch_mlu.profiler import ExtraMLUCopyPattern, _pattern_matcher

    assert theirs.ExtraMLUCopyPattern is ExtraMLUCopyPattern
    assert theirs.FP32MatMulPattern is _pattern_matcher.FP32MatMulPattern
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as prof:
        torch.zeros((8, 8)).to("mlu")
    assert [event.name for event in ExtraMLUCopyPattern(prof).matched_events()] == ["aten::to"]


def test_an_evaluation_ranks_events(finished: profile) -> None:
    from torch_mlu.profiler._utils import BasicEvaluation

    evaluation = BasicEvaluation(finished.profiler)
    assert evaluation.metrics and isinstance(evaluation.rank_events(2), list)
