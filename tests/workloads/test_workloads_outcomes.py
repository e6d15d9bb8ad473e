"""The sink of a producer: one by one, batch by batch and with times of their own, outcomes become the same rows."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runlog.streams.schema import SEND, SendStatus
from runlog.streams.segment import read_segments
from workloads import outcomes as outcomes_module
from workloads.clients.protocol import TIMED_OUTCOME
from workloads.outcomes import OutcomeLog, topic_of, wall_clock_offset_us

T0_NS = time.monotonic_ns()


def _log(
    directory: Path, *, topics: int = 1, log_append_time: bool = False, told: list[str] | None = None
) -> OutcomeLog:
    log = OutcomeLog(
        directory, producer=3, incarnation=0, t0_ns=T0_NS, topics=topics, partitions=4, log_append_time=log_append_time,
        on_problem=(told if told is not None else list[str]()).append,
    )  # fmt: skip
    intended_us = np.arange(20, dtype=np.int64) * 1_000
    log.hand_over(0, intended_us, T0_NS + 50_000_000, np.arange(100, 120, dtype=np.int32))
    return log


def _rows(directory: Path, log: OutcomeLog) -> dict[int, dict[str, int]]:
    log.close()
    (content,) = read_segments(directory, SEND)
    names = [column.name for column in SEND.columns]
    return {row["seq"]: row for row in (dict(zip(names, found, strict=True)) for found in content.rows.tolist())}


def test_outcomes_one_by_one_and_in_a_batch_give_the_same_rows(tmp_path: Path) -> None:
    one, many = _log(tmp_path / "one"), _log(tmp_path / "many")
    for seq in range(5):
        one.one(seq, SendStatus.ACKED, 0, 2, 70 + seq)
    one.one(5, SendStatus.UNKNOWN, 7, -1, -1)
    many.many([0, 1, 2, 3, 4], SendStatus.ACKED, 0, 2, 70)
    many.many((5,), SendStatus.UNKNOWN, 7, -1, -1)
    assert one.completed == many.completed == 6
    first, second = _rows(tmp_path / "one", one), _rows(tmp_path / "many", many)
    assert sorted(first) == sorted(second) == list(range(6))
    for seq in range(6):
        acked_us = [rows[seq].pop("acked_us") for rows in (first, second)]
        assert min(acked_us) > 0
        assert first[seq] == second[seq]
    assert first[4] == {
        "producer": 3, "incarnation": 0, "seq": 4, "partition": 2, "status": 0, "error": 0, "size_bytes": 104,
        "intended_us": 4_000, "sent_us": 50_000, "offset": 74, "appended_us": -1,
    }  # fmt: skip
    assert (first[5]["status"], first[5]["error"], first[5]["offset"]) == (SendStatus.UNKNOWN, 7, -1)


def test_partitions_are_dense_over_topics_and_absent_ones_stay_absent(tmp_path: Path) -> None:
    log = _log(tmp_path, topics=3)
    log.one(0, SendStatus.ACKED, 0, 1, 5)
    log.many([1, 2, 3], SendStatus.ACKED, 0, 2, 10)
    log.many([4, 5], SendStatus.FAILED, 10, -1, -1)
    rows = _rows(tmp_path, log)
    assert [topic_of(3, seq, 3) for seq in range(4)] == [0, 1, 2, 0]
    assert [rows[seq]["partition"] for seq in range(6)] == [1, 6, 10, 2, -1, -1]


def test_times_that_a_client_took_itself_are_kept_and_append_times_put_on_the_axis(tmp_path: Path) -> None:
    log = _log(tmp_path, log_append_time=True)
    before_us = (time.monotonic_ns() - T0_NS) // 1_000
    append_ms = time.time_ns() // 1_000_000
    after_us = (time.monotonic_ns() - T0_NS) // 1_000
    fields: dict[str, Any] = {"sent_ns": T0_NS + 7_000_000, "acked_ns": T0_NS + 9_000_000, "append_ms": append_ms}
    outcomes = np.zeros(2, dtype=TIMED_OUTCOME)
    for name, value in {**fields, "seq": [8, 9], "offset": [40, 41], "partition": 3}.items():
        outcomes[name] = value
    log.timed(outcomes)
    log.many([0], SendStatus.ACKED, 0, 0, 1, append_ms)
    log.one(1, SendStatus.ACKED, 0, 0, 2, append_ms)
    log.one(2, SendStatus.UNKNOWN, 0, 0, -1, -1)
    rows = _rows(tmp_path, log)
    assert (rows[8]["sent_us"], rows[8]["acked_us"], rows[9]["offset"]) == (7_000, 9_000, 41)
    assert (rows[8]["intended_us"], rows[8]["size_bytes"]) == (8_000, 108)
    for seq in (0, 1, 8, 9):
        assert before_us - 1_100 <= rows[seq]["appended_us"] <= after_us + 200
    assert rows[2]["appended_us"] == -1


class Interrupted:
    """Stands in for the module `time`. Before each reading the host takes the processor away for so long, in ns."""

    AHEAD_NS = 1_700_000_000_000_000_000  # of the wall clock

    def __init__(self, *away_ns: int) -> None:
        self._away_ns, self._now_ns = list(away_ns), 1_000_000_000

    def monotonic_ns(self) -> int:
        self._now_ns += self._away_ns.pop(0) if self._away_ns else 0
        return self._now_ns

    def time_ns(self) -> int:
        return self.AHEAD_NS + self.monotonic_ns()


@pytest.mark.parametrize("away_ns", [(), (0, 9_000_000), (0, 0, 9_000_000), (0, 9_000_000, 0, 0, 5_000_000, 0)])
def test_a_host_that_is_busy_does_not_move_append_times(
    monkeypatch: pytest.MonkeyPatch, away_ns: tuple[int, ...]
) -> None:
    monkeypatch.setattr(outcomes_module, "time", Interrupted(*away_ns))
    assert wall_clock_offset_us(0) == Interrupted.AHEAD_NS // 1_000


def test_clocks_that_are_always_interrupted_are_compared_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes_module, "time", Interrupted(*[1_000_000] * 100))
    assert abs(wall_clock_offset_us(0) - Interrupted.AHEAD_NS // 1_000) <= 1_000


def test_an_outcome_of_a_send_that_was_never_handed_over_is_a_bug_of_the_adapter(tmp_path: Path) -> None:
    log = _log(tmp_path)
    with pytest.raises(KeyError):
        log.one(25, SendStatus.ACKED, 0, 0, 0)
    log.take_back(18, 2)
    with pytest.raises(KeyError):
        log.many([17, 18], SendStatus.ACKED, 0, 0, 0)
    log.close()


def test_outcomes_that_the_disk_does_not_take_are_told_and_do_not_keep_the_producer_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    log = _log(tmp_path, told=told)

    def refuse(_descriptor: int, _offset: int, _size_bytes: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", refuse)
        log.one(0, SendStatus.ACKED, 0, 2, 70)
        log.many([1, 2], SendStatus.ACKED, 0, 2, 71)
    assert log.completed == 3
    assert told == ["outcomes of sends could not be written down: [Errno 28] No space left on device"], "once"
    log.one(3, SendStatus.ACKED, 0, 2, 73)
    assert list(_rows(tmp_path, log)) == [3], "the ring says that the others are unknown"


def test_a_run_log_that_cannot_be_closed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    log = _log(tmp_path, told=told)
    log.one(0, SendStatus.ACKED, 0, 2, 70)

    def fail(_descriptor: int, _size_bytes: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "ftruncate", fail)
    log.close()
    assert told == ["its run log could not be closed: [Errno 5] Input/output error"]
