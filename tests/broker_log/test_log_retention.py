"""What is too old or too much goes, oldest first, below the high watermark; DeleteRecords; rolling by time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.log.config import LogConfig
from broker.log.directory import LogDirectory
from broker.log.errors import OffsetOutOfRangeError
from broker.log.partition_log import PartitionLog
from broker.log.retention import Expiry, apply_retention
from broker.wire.records import encode_batch, iter_batches
from tests.broker_log.steps import at_once

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100)


def append(log: PartitionLog, timestamp: int, *, count: int = 2, epoch: int = 0) -> None:
    log.append(encode_batch([b"x" * 50] * count, timestamps_ms=timestamp), leader_epoch=epoch)


def filled(path: Path, config: LogConfig = SMALL, *, batches: int = 6) -> PartitionLog:
    """One batch of two records a segment, timestamps 0, 1000, 2000 .."""
    log = PartitionLog(str(path / "t-0"), name="t-0", config=config)
    for number in range(batches):
        append(log, 1000 * number)
    assert len(log.segments) == batches
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segments_older_than_retention_ms_go(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.config = replace(SMALL, retention_ms=2500)
    result = apply_retention(log, now_ms=5000, high_watermark=12)
    assert (result.deleted_segments, log.log_start_offset, bases(log)) == (3, 6, [6, 8, 10])
    assert not (tmp_path / "t-0" / f"{0:020d}.log").exists()
    assert not (tmp_path / "t-0" / f"{0:020d}.timeindex").exists()
    log.check_invariants()


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.config = replace(SMALL, retention_ms=0, retention_bytes=0)
    assert apply_retention(log, now_ms=10**9, high_watermark=3).log_start_offset == 2


def test_everything_too_old_leaves_an_empty_segment(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.config = replace(SMALL, retention_ms=0)
    result = apply_retention(log, now_ms=10**9, high_watermark=12)
    assert (result.deleted_segments, log.log_start_offset, log.log_end_offset, log.size_bytes) == (6, 12, 12, 0)
    append(log, 10**9)
    assert log.log_end_offset == 14
    assert apply_retention(log, now_ms=10**9, high_watermark=14).deleted_segments == 0


def test_size_is_brought_below_retention_bytes_by_whole_segments(tmp_path: Path) -> None:
    log = filled(tmp_path)
    one = log.segments[0].size_bytes
    log.config = replace(SMALL, retention_bytes=3 * one + 1)
    assert apply_retention(log, now_ms=0, high_watermark=12).deleted_segments == 2  # a third would go below the limit
    assert log.size_bytes == 4 * one


def test_what_retention_deletes_is_told_before_it_is_gone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    one = log.segments[0].size_bytes
    log.config = replace(SMALL, retention_bytes=4 * one)
    told: list[tuple[Expiry, int]] = []
    apply_retention(log, now_ms=0, high_watermark=12, before=lambda expiry: told.append((expiry, log.log_start_offset)))
    assert told == [(Expiry(from_offset=0, log_start_offset=4, expired=((2, 5 * one), (4, 4 * one))), 0)]
    assert log.log_start_offset == 4
    apply_retention(log, now_ms=0, high_watermark=12, before=lambda expiry: told.append((expiry, -1)))
    assert len(told) == 1  # nothing more is too much


def test_a_log_that_is_too_old_as_a_whole_is_told_up_to_its_end(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=2)
    log.advance_log_start(3)  # by DeleteRecords: the first segment is gone, and half of the second
    log.config = replace(SMALL, retention_ms=0)
    told: list[Expiry] = []
    apply_retention(log, now_ms=10**9, high_watermark=4, before=told.append)
    assert told == [Expiry(from_offset=3, log_start_offset=4, expired=((4, 0),))]
    assert log.log_start_offset == 4


def test_no_limit_keeps_everything(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert apply_retention(log, now_ms=10**15, high_watermark=12).deleted_segments == 0


def test_log_start_may_lie_inside_a_segment_and_survives_a_clean_stop(tmp_path: Path) -> None:
    directory = LogDirectory(str(tmp_path), config=LogConfig())
    log = directory.open_log("t", 0)
    append(log, 1, count=10)
    append(log, 2, count=10, epoch=3)
    assert log.advance_log_start(5)
    assert not log.advance_log_start(4)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(4, 1000)
    assert next(iter_batches(log.read(5, 1))).header.base_offset == 0  # whole batches, as in Kafka
    assert at_once(log.find_timestamp(1)) == (1, 5)
    directory.close([log])
    again = LogDirectory(str(tmp_path)).open_log("t", 0)
    assert (again.log_start_offset, again.log_end_offset) == (5, 20)
    assert again.epochs.epoch_at(5) == 0
    again.advance_log_start(12)
    assert [tuple(entry) for entry in again.epochs.entries] == [(3, 12)]


def test_cutting_the_batch_that_holds_the_log_start_moves_the_start_back(tmp_path: Path) -> None:
    log = PartitionLog(str(tmp_path / "t-0"), name="t-0")
    append(log, 1, count=4)
    append(log, 2, count=10)
    log.advance_log_start(7)
    log.truncate_to(9)  # in the same batch of 4..13, which goes as a whole
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    log.check_invariants()


def test_log_starts_of_logs_that_are_not_open_are_not_forgotten(tmp_path: Path) -> None:
    directory = LogDirectory(str(tmp_path))
    logs = [directory.open_log("t", partition) for partition in range(2)]
    for log in logs:
        append(log, 1, count=10)
        log.advance_log_start(3)
    directory.close(logs)
    again = LogDirectory(str(tmp_path))
    first = again.open_log("t", 0)
    again.write_log_start_offsets([first])
    assert again.open_log("t", 1).log_start_offset == 3


def test_a_log_that_lost_more_than_it_deleted_begins_at_its_start(tmp_path: Path) -> None:
    log = PartitionLog(str(tmp_path / "t-0"), name="t-0", log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_whole_segments_below_the_new_start_are_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.advance_log_start(7)
    assert (log.log_start_offset, bases(log)) == (7, [6, 8, 10])
    log.check_invariants()


def test_a_segment_that_was_active_when_the_start_moved_behind_it_goes_once_it_has_rolled(tmp_path: Path) -> None:
    """Found by the simulation: it stayed until the start moved again, without retention for ever."""
    log = filled(tmp_path, batches=2)
    log.advance_log_start(log.log_end_offset)
    append(log, 2000)
    assert bases(log) == [2, 4]
    apply_retention(log, now_ms=2000, high_watermark=6)
    assert (bases(log), log.log_start_offset) == ([4], 4)
    log.check_invariants()


def test_a_segment_is_rolled_by_the_time_of_its_first_batch(tmp_path: Path) -> None:
    log = PartitionLog(str(tmp_path / "t-0"), name="t-0", config=LogConfig(segment_ms=1000))
    for timestamp in (5000, 6000, 6001, 6500, 9000):
        append(log, timestamp)
    assert bases(log) == [0, 4, 8]


def test_compacted_logs_roll_for_max_compaction_lag_and_indexes_do_not_outgrow_their_limit(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=10**9, is_compacted=True, max_compaction_lag_ms=500)
    log = PartitionLog(str(tmp_path / "a-0"), name="a-0", config=config)
    for timestamp in (0, 400, 600):
        append(log, timestamp)
    assert bases(log) == [0, 4]
    log = PartitionLog(
        str(tmp_path / "b-0"), name="b-0", config=LogConfig(index_interval_bytes=0, segment_index_bytes=40)
    )
    for timestamp in range(12):
        append(log, timestamp)
    assert len(log.segments) == 3


def test_jitter_shortens_the_time_differently_for_each_log(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    ends = set()
    for name in ("a-0", "b-0", "c-0", "d-0"):
        log = PartitionLog(str(tmp_path / name), name=name, config=config)
        for timestamp in range(0, 6000, 50):
            append(log, timestamp)
        ends.add(tuple(bases(log)))
    assert len(ends) > 1
