"""Streams and events."""

from __future__ import annotations

import pytest
import torch
import torch_mlu  # noqa: F401


def test_a_stream_is_current_inside_its_context_only() -> None:
    before = torch.mlu.current_stream()
    stream = torch.mlu.Stream()
    with torch.mlu.stream(stream):
        assert torch.mlu.current_stream() == stream
        assert torch.accelerator.current_stream().stream_id == stream.stream_id
    assert torch.mlu.current_stream() == before
    with torch.mlu.stream(None):
        assert torch.mlu.current_stream() == before


def test_the_stream_of_another_card_makes_that_card_current() -> None:
    stream = torch.mlu.Stream(device="mlu:1")
    before = torch.mlu.current_device()
    with torch.mlu.stream(stream):
        assert torch.mlu.current_device() == 1
        assert torch.mlu.current_stream() == stream
    assert torch.mlu.current_device() == before
    assert torch.mlu.current_stream(1) == torch.mlu.default_stream(1)


def test_a_stream_shows_its_card_and_queue() -> None:
    stream = torch.mlu.Stream(device=1)
    assert repr(stream) == f"<torch.mlu.Stream device=mlu:1 mlu_stream={stream.mlu_stream:#x}>"
    assert isinstance(stream, torch.Stream)
    assert stream._as_parameter_.value == stream.mlu_stream


def test_priorities_go_from_zero_down_to_minus_three() -> None:
    assert torch.mlu.Stream.priority_range() == (0, -3)
    assert [torch.mlu.Stream(priority=level).priority for level in (0, -1, -2, -3)] == [0, -1, -2, -3]
    assert torch.mlu.Stream(priority=-9).priority == -3
    with pytest.raises(RuntimeError, match="Expected mlu stream priority to be less than or equal to 0, got 1"):
        torch.mlu.Stream(priority=1)


def test_after_thirty_two_streams_the_first_comes_again() -> None:
    streams = [torch.mlu.Stream(priority=-2) for _ in range(33)]
    assert len({stream.mlu_stream for stream in streams[:32]}) == 32
    assert streams[32] == streams[0] and hash(streams[32]) == hash(streams[0])


def test_equality_with_anything_else_is_false() -> None:
    stream = torch.mlu.Stream()
    assert stream != torch.Stream(device="cpu") and stream != 3 and (stream == None) is False  # noqa: E711


def test_an_external_stream_has_the_address_it_was_given() -> None:
    outside = torch.mlu.ExternalStream(0x1234, device=0)
    with torch.mlu.stream(outside):
        assert torch.mlu.current_stream().mlu_stream == 0x1234
    with pytest.raises(RuntimeError, match="Priority was explicitly set for a external stream"):
        torch.mlu.ExternalStream(0x1234, device=0, priority=-1)


def test_streams_wait_for_each_other_and_are_done() -> None:
    first, second = torch.mlu.Stream(), torch.mlu.Stream()
    second.wait_stream(first)
    event = first.record_event()
    second.wait_event(event)
    second.synchronize()
    assert second.query() and event.query()
    x = torch.ones(2, device="mlu")
    x.record_stream(second)


def test_events_measure_in_milliseconds_and_microseconds() -> None:
    start, end = torch.mlu.Event(enable_timing=True), torch.mlu.Event(enable_timing=True)
    start.record()
    torch.mlu._sleep(3_000_000)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 3.0
    assert start.hardware_time(end) == pytest.approx(start.elapsed_time(end) * 1000)


def test_an_event_that_was_not_placed_cannot_be_measured() -> None:
    start, end = torch.mlu.Event(enable_timing=True), torch.mlu.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="Both notifiers must be placed before calculating elapsed time."):
        start.elapsed_time(end)
    start.record()
    with pytest.raises(RuntimeError, match="Both notifiers must be placed before calculating hardware time."):
        start.hardware_time(end)


@pytest.mark.parametrize("options", [{}, {"enable_timing": True, "interprocess": True}])
def test_an_event_without_timing_fails_in_the_library(options: dict[str, bool]) -> None:
    start, end = torch.mlu.Event(**options), torch.mlu.Event(enable_timing=True)
    start.record()
    end.record()
    with pytest.raises(RuntimeError, match="^CNRT error: "):
        start.elapsed_time(end)


def test_an_event_shows_whether_it_was_placed() -> None:
    event = torch.mlu.Event(blocking=True)
    assert repr(event) == "<torch.mlu.Event uninitialized>"
    assert event.mlu_event == 0 and event.device is None
    event.record(torch.mlu.Stream(device=1))
    assert repr(event) == f"<torch.mlu.Event {event.mlu_event:#x}>"
    assert event.device == torch.device("mlu:1")


def test_an_event_belongs_to_the_card_it_was_placed_on() -> None:
    event = torch.mlu.Event()
    event.record(torch.mlu.Stream(device=0))
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record(torch.mlu.Stream(device=1))


def test_an_interprocess_event_has_a_handle() -> None:
    event = torch.mlu.Event(interprocess=True)
    event.record()
    again = torch.mlu.Event.from_ipc_handle(torch.device("mlu:0"), event.ipc_handle())
    assert again.query() and again.device == torch.device("mlu:0")
    with pytest.raises(RuntimeError, match="^CNRT error: "):
        torch.mlu.Event().ipc_handle()


def test_generic_streams_and_events_of_torch_work() -> None:
    stream = torch.Stream(device="mlu")
    start = torch.Event(device="mlu", enable_timing=True)
    end = torch.Event(device="mlu", enable_timing=True)
    start.record(stream)
    end.record(stream)
    assert start.elapsed_time(end) >= 0
    with stream:
        assert torch.accelerator.current_stream() == stream


def test_collectives_have_no_stream_before_there_is_a_group() -> None:
    assert torch.mlu.cncl_stream() == []
