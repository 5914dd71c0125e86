from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from mlu_migrate import pool


def work(context: object, item: str) -> str:
    """Does what the item says, so that real processes can be made to fail in real ways."""
    word, _, rest = item.partition(" ")
    if word == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "exit":
        os._exit(7)
    if word == "hang":
        time.sleep(600)
    if word == "eat":
        return str(len(bytearray(64 * 1024**3)))
    if word == "raise":
        raise ValueError("no\nway")
    if word == "once":  # dies the first time only
        mark = Path(rest)
        if not mark.exists():
            mark.touch()
            os._exit(9)
    if word == "pid":
        return str(os.getpid())
    return f"{context}:{item}"


def outcomes(*items: str, jobs: int = 2, seconds: float = 30.0) -> list[pool.Outcome[str]]:
    return list(pool.run(work, "c", items, [len(item) for item in items], jobs=jobs, seconds=seconds))


def test_results_come_in_the_order_of_the_items_whatever_their_size() -> None:
    items = [f"item{n} " + "x" * (n * 997 % 5000) for n in range(300)]
    assert [outcome.value for outcome in outcomes(*items)] == [f"c:{item}" for item in items]


def test_nothing_to_do_starts_nothing() -> None:
    assert outcomes() == []


def test_a_few_small_items_need_one_process_only() -> None:
    assert len({outcome.value for outcome in outcomes(*["pid"] * 20, jobs=8)}) == 1


def test_work_is_done_in_another_process() -> None:
    assert outcomes("pid")[0].value != str(os.getpid())


@pytest.mark.parametrize(("item", "reason"), [("die", "SIGSEGV"), ("exit", "status 7")])
def test_an_item_that_kills_its_worker_costs_only_itself(item: str, reason: str) -> None:
    results = outcomes(*(["fine"] * 70), item, *(["fine"] * 70))
    assert reason in (results[70].reason or "")
    assert [r.value for i, r in enumerate(results) if i != 70] == ["c:fine"] * 140


def test_a_worker_that_was_killed_from_outside_has_its_item_tried_again(tmp_path: Path) -> None:
    results = outcomes("fine", f"once {tmp_path / 'mark'}", "fine")
    assert [outcome.reason for outcome in results] == [None, None, None]


def test_every_item_may_kill_its_worker_and_the_run_still_ends() -> None:
    assert all("SIGSEGV" in (outcome.reason or "") for outcome in outcomes(*["die"] * 5))


def test_an_item_over_the_time_limit_is_given_up_and_the_rest_goes_on() -> None:
    results = outcomes("fine", "hang", "fine", seconds=1.0)
    assert [outcome.value for outcome in results] == ["c:fine", None, "c:fine"]
    assert "longer than 1 s" in (results[1].reason or "")


def test_running_out_of_memory_is_an_outcome() -> None:
    results = outcomes("eat", "fine")
    assert results[0].reason == "ran out of memory"
    assert results[1].value == "c:fine"


def test_an_exception_is_an_outcome_in_one_line() -> None:
    assert outcomes("raise")[0].reason == "internal error: ValueError: no way"


def test_large_items_are_started_first_and_still_come_in_place() -> None:
    items = ["small"] * 10 + ["large"]
    got = list(pool.run(work, "c", items, [1] * 10 + [10**6], jobs=1))
    assert [outcome.value for outcome in got] == [f"c:{item}" for item in items]


def test_stopping_early_leaves_no_process_behind() -> None:
    stream = pool.run(work, "c", ["fine", *["hang"] * 4], [1] * 5, jobs=2)
    assert next(stream).value == "c:fine"
    stream.close()
    assert multiprocessing.active_children() == []


def test_workers_can_be_spawned_as_well_as_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.sys, "platform", "darwin")
    assert [outcome.value for outcome in outcomes("a", "b")] == ["c:a", "c:b"]
