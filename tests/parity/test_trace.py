"""The trace on disk."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from mlu_backend.parity import trace
from mlu_backend.parity.statistics import Stats, measure

KIND = trace.Kind((2, 3), "float32", "mlu")


def written(folder: Path, rows: int = 3) -> Path:
    trace.write_meta(folder, label="test")
    writer = trace.Writer(folder)
    for i in range(rows):
        writer.stat(KIND, Stats(float(i), -1.0, 2.0, 0.5, 0, (1 << 64) - 1 - i, (1.0, math.inf)))
    writer.event(k="step", step=0, opt=0, lr=[0.1])
    writer.close()
    return folder


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    read = trace.read(written(tmp_path / "t"))
    process = read.processes[0]
    assert [e["k"] for e in process.events] == ["step"]
    assert process.rows[2].kind == KIND
    assert process.rows[2].stats == Stats(2.0, -1.0, 2.0, 0.5, 0, (1 << 64) - 3, (1.0, math.inf))


def test_more_rows_than_a_chunk_keep_their_numbers(tmp_path: Path) -> None:
    process = trace.read(written(tmp_path / "t", trace.CHUNK_ROWS * 2 + 5)).processes[0]
    assert len(process.rows) == trace.CHUNK_ROWS * 2 + 5
    assert [row.stats.norm for row in process.rows if row.stats] == [float(i) for i in range(len(process.rows))]
    assert len(list((tmp_path / "t").glob("p*/stats-*.safetensors"))) == 3


def test_a_tensor_that_could_not_be_measured_is_a_row_without_numbers(tmp_path: Path) -> None:
    trace.write_meta(tmp_path)
    writer = trace.Writer(tmp_path)
    writer.stat(KIND, None)
    writer.close()
    assert trace.read(tmp_path).processes[0].rows[0].stats is None


def test_an_event_cut_off_by_a_kill_is_dropped_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "t")
    events = next(folder.glob("p*/events.jsonl"))
    with events.open("a") as file:
        file.write('{"k":"call","id":')
    assert [e["k"] for e in trace.read(folder).processes[0].events] == ["step"]


def test_events_whose_numbers_a_killed_process_did_not_write_are_dropped(tmp_path: Path) -> None:
    trace.write_meta(tmp_path)
    writer = trace.Writer(tmp_path)
    first = writer.stat(KIND, Stats(1.0, -1.0, 2.0, 0.5, 0, 1))
    writer.event(k="loss", step=0, roots=[["0", first]])
    writer.event(k="loss", step=1, roots=[["0", 7]])
    writer.flush()
    assert [e["step"] for e in trace.read(tmp_path).processes[0].events] == [0]
    writer.event(k="end", reason="exit")
    writer.close()
    with pytest.raises(trace.TraceError, match="statistics are missing"):
        trace.read(tmp_path)


@pytest.mark.parametrize("line", ["[]", "null", "5", "{}", '{"k": 3}'])
def test_a_line_that_is_no_event_names_file_and_line(tmp_path: Path, line: str) -> None:
    folder = written(tmp_path / "t")
    events = next(folder.glob("p*/events.jsonl"))
    events.write_text(line + "\n" + events.read_text())
    with pytest.raises(trace.TraceError, match=r"events\.jsonl:1: not an event"):
        trace.read(folder)


def test_damage_in_the_middle_names_file_and_line(tmp_path: Path) -> None:
    folder = written(tmp_path / "t")
    events = next(folder.glob("p*/events.jsonl"))
    events.write_text("not json\n" + events.read_text())
    with pytest.raises(trace.TraceError, match=r"events\.jsonl:1"):
        trace.read(folder)


def test_a_folder_without_a_trace_and_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(trace.TraceError, match="no trace here"):
        trace.read(tmp_path)
    (tmp_path / "meta.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(trace.TraceError, match="version 99, wanted 1"):
        trace.read(tmp_path)


def test_a_packed_trace_is_one_file_and_reads_the_same(tmp_path: Path) -> None:
    folder = written(tmp_path / "t")
    trace.pack(folder, tmp_path / "carried.zip")
    packed, plain = trace.read(tmp_path / "carried.zip"), trace.read(folder)
    assert packed.processes[0].rows == plain.processes[0].rows
    assert packed.processes[0].events == plain.processes[0].events


def test_a_packed_trace_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("meta.json", json.dumps({"version": 1}))
        archive.writestr("../../escaped.txt", "no")
        archive.writestr("/absolute.txt", "no")
    trace.read(bad)
    assert not (tmp_path.parent / "escaped.txt").exists() and not (tmp_path / "escaped.txt").exists()


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"hello")
    with pytest.raises(trace.TraceError, match="not a trace"):
        trace.read(path)


def test_whole_tensors_are_kept_on_request(tmp_path: Path) -> None:
    trace.write_meta(tmp_path)
    writer = trace.Writer(tmp_path)
    tensor = torch.randn(4, 5).t()
    index = writer.stat(trace.Kind((5, 4), "float32", "cpu"), measure(tensor))
    writer.tensor(str(index), tensor)
    writer.close()
    kept = trace.read(tmp_path).processes[0].tensor("0")
    assert kept is not None and torch.equal(kept, tensor)


def test_processes_that_begin_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    first, second = trace.Writer(tmp_path, order=0), trace.Writer(tmp_path, order=0)
    assert first.folder != second.folder
    first.close()
    second.close()


def test_an_event_that_is_no_text_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    trace.write_meta(tmp_path)
    writer = trace.Writer(tmp_path)
    writer.event(k="first", n=1)
    writer.event(k="odd", value=object())
    writer.event(k="last", n=2)
    writer.close()
    events = trace.read(tmp_path).processes[0].events
    assert [e["k"] for e in events] == ["first", "trouble", "last"]
    assert events[1]["text"].startswith("odd: Object of type object is not JSON")


def test_a_signal_of_the_programs_while_rows_are_added_leaves_the_others_in_their_places(tmp_path: Path) -> None:
    """A handler may raise before any line of ours: each in turn, once for a row and once for a full chunk."""
    trace.write_meta(tmp_path)
    writer = trace.Writer(tmp_path)
    lines: list[int] = []
    numbers: dict[int, float] = {}

    def watch(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != trace.__file__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == stop:
                raise KeyboardInterrupt
        return watch

    def add(value: float) -> None:
        numbers[writer.stat(KIND, Stats(value, 0.0, 0.0, 0.0, 0, 0, ()))] = value

    for stop in (*range(1, 16), *range(15, 60)):
        for i in range(trace.CHUNK_ROWS - 1 if stop > 15 else 0):
            add(float(i))
        lines.clear()
        sys.settrace(watch)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                add(-float(stop))
        finally:
            sys.settrace(None)
        add(float(stop))
    writer.close()
    rows = trace.read(tmp_path).processes[0].rows
    assert {number: rows[number].stats.norm for number in numbers} == numbers  # type: ignore[union-attr]


def test_a_signal_of_the_programs_while_events_are_written_doubles_none_and_cuts_none(tmp_path: Path) -> None:
    trace.write_meta(tmp_path)
    writer = trace.Writer(tmp_path)

    def watch(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and frame.f_code.co_name == "_line":
            raise KeyboardInterrupt
        return watch if frame.f_code.co_filename == trace.__file__ else None

    for i in range(5):
        writer.event(k="step", step=i)
    sys.settrace(watch)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            writer.flush()
    finally:
        sys.settrace(None)
    writer.close()
    assert [e["step"] for e in trace.read(tmp_path).processes[0].events] == list(range(5))
