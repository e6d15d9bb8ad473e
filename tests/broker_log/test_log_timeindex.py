"""Offsets by timestamp against a scan of all records: any order of timestamps, reopened, cut, damaged."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.log.config import LogConfig
from broker.log.filesystem import LOCAL
from broker.log.partition_log import PartitionLog
from broker.log.timeindex import TimeIndex
from broker.wire.records import encode_batch
from tests.amount import examples
from tests.broker_log.steps import at_once

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200)


def append(log: PartitionLog, timestamps: list[int]) -> None:
    log.append(encode_batch([b"x" * 40] * len(timestamps), timestamps_ms=timestamps), leader_epoch=0)


def expected(records: list[tuple[int, int]], timestamp: int) -> tuple[int, int] | None:
    return next(((time, offset) for offset, time in records if time >= timestamp), None)


@settings(max_examples=examples(60), deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=4), min_size=1, max_size=40),
    cut_at=st.integers(0, 160),
    start_at=st.integers(0, 30),
    ask=st.lists(st.integers(0, 310), min_size=1, max_size=12),
    is_clean=st.booleans(),
)
@example(batches=[[0] * 22, [0, 0, 2, 0], [1]], cut_at=27, start_at=25, ask=[0], is_clean=False)  # 2 is deleted
@pytest.mark.thorough
def test_the_first_record_at_or_after_a_time_is_found(
    batches: list[list[int]], cut_at: int, start_at: int, ask: list[int], is_clean: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = PartitionLog(directory, name="t-0", config=CONFIG)
        for timestamps in batches:
            append(log, timestamps)
        log.truncate_to(cut_at)
        kept = [(offset, time) for offset, time in enumerate(time for each in batches for time in each)]
        kept = kept[: log.log_end_offset]
        log.advance_log_start(min(start_at, log.log_end_offset))
        kept = kept[log.log_start_offset :]
        start = log.log_start_offset
        for _ in range(2):
            for timestamp in ask:
                assert at_once(log.find_timestamp(timestamp)) == expected(kept, timestamp)
            largest = max((time for _, time in kept), default=-1)
            if kept:
                assert at_once(log.find_max_timestamp()) == expected(kept, largest)
            log.close()
            log = PartitionLog(directory, name="t-0", config=CONFIG, clean=is_clean, log_start_offset=start)


def test_a_lost_or_damaged_time_index_is_rebuilt(tmp_path: Path) -> None:
    log = PartitionLog(str(tmp_path), name="t-0", config=CONFIG)
    rng = random.Random(1)
    times = [rng.randrange(1000) for _ in range(200)]
    for time in times:
        append(log, [time])
    log.close()
    records = list(enumerate(times))
    for number, path in enumerate(sorted(tmp_path.glob("*.timeindex"))):
        if number % 3 == 0:
            path.unlink()
        elif number % 3 == 1:
            path.write_bytes(path.read_bytes()[:-5])
    again = PartitionLog(str(tmp_path), name="t-0", config=CONFIG, clean=True)
    assert again.recovery.scanned_segments > 0
    assert again.recovery.cut_bytes == 0
    for timestamp in range(0, 1001, 20):
        assert at_once(again.find_timestamp(timestamp)) == expected(records, timestamp)


def test_entries_grow_and_the_file_is_that_of_kafka(tmp_path: Path) -> None:
    index = TimeIndex()
    for timestamp, offset in ((10, 1), (10, 4), (8, 6), (30, 9), (40, 9)):
        index.add(timestamp, offset)
    assert index.last == (30, 9)
    assert [index.offset_before(timestamp) for timestamp in (5, 10, 11, 30, 31)] == [0, 0, 1, 1, 9]
    index.save(LOCAL, str(tmp_path / "i"))
    assert (tmp_path / "i").read_bytes().hex() == "000000000000000a00000001" + "000000000000001e00000009"
    assert TimeIndex().load(LOCAL, str(tmp_path / "i"), relative_end_offset=10)
    assert not TimeIndex().load(LOCAL, str(tmp_path / "i"), relative_end_offset=9)
