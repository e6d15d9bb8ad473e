"""Append, read and truncate against a simple model: a list of batches."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker.log.config import LogConfig
from broker.log.directory import LogDirectory, directory_name, parse_directory_name
from broker.log.errors import LogCorruptError, LogError, OffsetOutOfRangeError
from broker.log.filesystem import LocalFile
from broker.log.partition_log import PartitionLog
from broker.log.producers import Verdict
from broker.log.results import TruncationResult
from broker.wire.records import decode_records, encode_batch, iter_batches, validate_batches
from tests.broker_log.crashing_filesystem import FailingFileSystem
from tests.broker_log.headers import headers_of
from tests.broker_log.steps import at_once

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def open_log(path: Path, config: LogConfig = SMALL) -> PartitionLog:
    return PartitionLog(str(path / "t-0"), name="t-0", config=config)


def batch(count: int = 2, *, value: bytes = b"value", timestamp: int = 1000) -> bytearray:
    return bytearray(encode_batch([value] * count, timestamps_ms=timestamp))


def sequenced(sequence: int, *, epoch: int = 0) -> bytes:
    return encode_batch([b"v", b"w"], timestamps_ms=1, producer_id=4, producer_epoch=epoch, base_sequence=sequence)


def offsets(data: bytes) -> list[tuple[int, int]]:
    return [(each.header.base_offset, each.header.next_offset) for each in iter_batches(data)]


def all_batches(log: PartitionLog) -> list[tuple[int, int]]:
    return [(header.base_offset, header.next_offset) for header in headers_of(log)]


def test_leader_assigns_offsets_and_epoch_in_place(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(3), leader_epoch=4)
    buffer = batch(2)
    result = log.append(memoryview(buffer), leader_epoch=5, headers=validate_batches(buffer))
    assert (result.verdict, result.base_offset, result.last_offset) == (Verdict.OK, 3, 4)
    (head,) = validate_batches(buffer)
    assert (head.base_offset, head.partition_leader_epoch) == (3, 5)
    assert log.read(3, 10_000) == buffer
    assert log.log_end_offset == 5
    assert [tuple(entry) for entry in log.epochs.entries] == [(4, 0), (5, 3)]


def test_read_only_buffer_is_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(), leader_epoch=0)
    data = bytes(batch())
    log.append(data, leader_epoch=9)
    assert data == batch()
    assert log.read(2, 10_000)[:8] == (2).to_bytes(8, "big")


def test_several_batches_in_one_append(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    result = log.append(batch(2) + batch(3) + batch(1), leader_epoch=1)
    assert (result.base_offset, result.last_offset) == (0, 5)
    assert offsets(log.read(0, 10_000)) == [(0, 2), (2, 5), (5, 6)]


def test_follower_keeps_offsets_and_epochs(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path / "follower")
    for epoch in range(30):
        leader.append(batch(epoch % 3 + 1), leader_epoch=epoch // 4)
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(leader.read(follower.log_end_offset, 500))
    assert all_batches(follower) == all_batches(leader)
    assert follower.epochs.entries == leader.epochs.entries
    assert [follower.read(offset, 1) for offset, _ in all_batches(leader)] == [
        leader.read(offset, 1) for offset, _ in all_batches(leader)
    ]


def test_follower_refuses_what_does_not_continue_its_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(5), leader_epoch=0)
    with pytest.raises(LogCorruptError, match="batch at 0, log ends at 5"):
        log.append_as_follower(batch(5))
    with pytest.raises(LogCorruptError, match="nothing to append"):
        log.append_as_follower(b"")


@pytest.mark.parametrize("seed", range(6))
def test_every_read_returns_whole_batches_from_the_one_that_holds_the_offset(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log = open_log(tmp_path)
    for _ in range(40):
        log.append(batch(rng.randint(1, 4), value=rng.randbytes(rng.choice((1, 50, 700)))), leader_epoch=0)
    assert len(log.segments) > 3
    log.check_invariants()
    batches = {head.base_offset: head for head in headers_of(log)}
    for offset in range(log.log_end_offset):
        for max_bytes in (0, 300, 1000, 10_000):
            for max_offset in (None, rng.randint(0, log.log_end_offset)):
                got = list(iter_batches(log.read(offset, max_bytes, max_offset)))
                if not got:
                    assert max_offset is not None
                    assert (
                        next(head for head in batches.values() if head.last_offset >= offset).last_offset >= max_offset
                    )
                    continue
                assert got[0].header.base_offset <= offset <= got[0].header.last_offset
                assert sum(each.size_bytes for each in got) <= max(max_bytes, got[0].size_bytes)
                assert max_offset is None or got[-1].header.last_offset < max_offset
                validate_batches(b"".join(bytes(each.buffer) for each in got))
                following = batches.get(got[-1].header.next_offset)
                same_segment = following is not None and following.base_offset not in log._segments.base_offsets
                if max_offset is None and same_segment and following is not None:
                    assert sum(each.size_bytes for each in got) + following.size_bytes > max_bytes


def test_read_at_the_end_is_empty_and_outside_is_an_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.read(0, 100) == b""
    log.append(batch(2), leader_epoch=0)
    assert log.read(2, 100) == b""
    assert log.read(0, 10, minimum_one_batch=False) == b""
    assert log.read(0, 10, max_offset=1) == b""
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRangeError, match=rf"offset {offset} is outside of \[0, 2\]"):
            log.read(offset, 100)


def test_following_reads_cross_segments_without_a_gap(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(60):
        log.append(batch(2, value=bytes(100)), leader_epoch=0)
    offset, reads = 0, 0
    while data := log.read(offset, 900):
        found = offsets(data)
        assert found[0][0] == offset
        offset, reads = found[-1][1], reads + 1
    assert offset == log.log_end_offset == 120
    assert reads > len(log.segments) > 3


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 5))])
def test_truncation_anywhere_equals_a_log_that_never_had_the_rest(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 4) for _ in range(30)]
    for number, target in enumerate(range(sum(sizes) + 2)):
        log = open_log(tmp_path / f"{number}")
        for index, size in enumerate(sizes):
            log.append(batch(size, value=bytes(90)), leader_epoch=index // 7)
        before = all_batches(log)
        result = log.truncate_to(target)
        log.check_invariants()
        kept = [each for each in before if each[1] <= target]
        assert all_batches(log) == kept
        end = kept[-1][1] if kept else 0
        assert result == TruncationResult(sum(sizes), end)
        assert log.log_end_offset == end
        assert all(entry.start_offset < end for entry in log.epochs.entries)
        log.append(batch(2), leader_epoch=50)
        assert offsets(log.read(end, 10_000))[0] == (end, end + 2)
        reopened = open_log(tmp_path / f"{number}")
        assert all_batches(reopened) == [*kept, (end, end + 2)]
        assert reopened.epochs.entries == log.epochs.entries
        log.delete()


def test_truncate_fully_starts_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(40):
        log.append(batch(2, value=bytes(100)), leader_epoch=number)
    log.truncate_fully_and_start_at(500)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch, len(log.segments)) == (500, 500, -1, 1)
    assert log.append(batch(2), leader_epoch=41).base_offset == 500
    with pytest.raises(OffsetOutOfRangeError):
        log.read(499, 10)


def test_a_truncation_whose_last_open_fails_leaves_nothing_to_read(tmp_path: Path) -> None:
    """Seed 4930: too many open files. The storage's door looked at the log, and the look raised IndexError."""
    disk = FailingFileSystem()
    log = PartitionLog(str(tmp_path / "t-0"), name="t-0", config=SMALL, filesystem=disk)
    for number in range(40):
        log.append(batch(2, value=bytes(100)), leader_epoch=number)
    disk.fail("open", ".log")
    with pytest.raises(OSError, match="injected"):
        log.truncate_fully_and_start_at(0)
    assert log.read(0, 1 << 20) == b""


def test_duplicates_and_gaps_write_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(3):
        assert log.append(sequenced(2 * number), leader_epoch=0).verdict is Verdict.OK
    size = log.size_bytes
    again = log.append(sequenced(2), leader_epoch=0)
    assert (again.verdict, again.base_offset, again.last_offset) == (Verdict.DUPLICATE, 2, 3)
    assert log.append(sequenced(9), leader_epoch=0).verdict is Verdict.OUT_OF_ORDER
    log.append(sequenced(0, epoch=1), leader_epoch=0)
    assert log.append(sequenced(6), leader_epoch=0).verdict is Verdict.INVALID_EPOCH
    assert log.log_end_offset == 8
    assert log.size_bytes == size + len(sequenced(0))


def test_producer_state_follows_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(40):  # across several segments, so that snapshots exist on both sides of the cut
        log.append(sequenced(2 * number), leader_epoch=0)
    assert len(log.segments) > 1
    log.truncate_to(20)
    assert log.append(sequenced(38), leader_epoch=0).verdict is Verdict.OUT_OF_ORDER
    assert log.append(sequenced(18), leader_epoch=0).verdict is Verdict.DUPLICATE
    assert log.append(sequenced(20), leader_epoch=0).base_offset == 20


def test_offsets_by_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert at_once(log.find_max_timestamp()) is None
    for number in range(30):
        stamps = [1000 + 10 * number, 1005 + 10 * number]
        log.append(bytearray(encode_batch([b"a", bytes(100)], timestamps_ms=stamps)), leader_epoch=0)
    assert at_once(log.find_timestamp(0)) == (1000, 0)
    assert at_once(log.find_timestamp(1001)) == (1005, 1)
    assert at_once(log.find_timestamp(1200)) == (1200, 40)
    assert at_once(log.find_timestamp(1296)) is None
    assert at_once(log.find_max_timestamp()) == (1295, 59)


def test_becoming_leader_starts_an_epoch_before_its_first_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(3), leader_epoch=1)
    log.assign_epoch(2)
    assert log.end_offset_for_epoch(1) == (1, 3)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.epochs.epoch_at(2) == 1
    assert open_log(tmp_path).latest_epoch == 2


class FullDisk(LocalFile):
    """A disk that takes 30 bytes of the next write and then none."""

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        super().write_at(position, data[:30])
        raise OSError(28, "No space left on device")


def test_failed_write_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(sequenced(0), leader_epoch=0)
    good = log._segments.active._file
    log._segments.active._file = FullDisk(str(tmp_path / "t-0" / "00000000000000000000.log"))
    with pytest.raises(OSError, match="No space"):
        log.append(sequenced(2), leader_epoch=1)
    log._segments.active._file = good
    assert (log.log_end_offset, log.latest_epoch) == (2, 0)
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == log.size_bytes
    assert log.append(sequenced(2), leader_epoch=1).base_offset == 2
    assert [row[3] for row in decode_records(log.read(2, 1))] == [b"v", b"w"]


def test_flush_messages_bounds_what_is_unflushed(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=5))
    log.append(batch(3), leader_epoch=0)
    assert log.has_unflushed
    log.append(batch(2), leader_epoch=0)
    assert not log.has_unflushed


@pytest.mark.parametrize("bad", [{"segment_bytes": 60}, {"segment_bytes": 2**31}, {"flush_messages": 0}])
def test_config_out_of_range_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is (outside|below)"):
        LogConfig(**bad)  # type: ignore[arg-type]


def test_directory_keeps_names_ids_and_checkpoints(tmp_path: Path) -> None:
    directory = LogDirectory(str(tmp_path), config=SMALL)
    logs = [directory.open_log("my-topic.1", 3, topic_id="id-1"), directory.open_log("other", 0)]
    logs[0].append(batch(2), leader_epoch=0)
    directory.write_high_watermarks({("my-topic.1", 3): 1, ("other", 0): 0})
    assert directory.read_high_watermarks() == {("my-topic.1", 3): 1, ("other", 0): 0}
    directory.close(logs)
    again = LogDirectory(str(tmp_path), config=SMALL)
    assert again.was_clean_shutdown
    assert again.partitions() == [("my-topic.1", 3), ("other", 0)]
    reopened = again.open_log("my-topic.1", 3)
    assert reopened.topic_id == "id-1"
    assert reopened.recovery.clean
    assert reopened.recovery.scanned_segments == 0
    assert reopened.log_end_offset == 2
    with pytest.raises(LogError, match="belongs to topic id id-1"):
        again.open_log("my-topic.1", 3, topic_id="id-2")
    again.discard_log("other", 0)
    again.remove_discarded()
    assert again.partitions() == [("my-topic.1", 3)]
    assert not LogDirectory(str(tmp_path)).was_clean_shutdown


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "a b", "x" * 250])
def test_topic_names_cannot_leave_the_directory(topic: str) -> None:
    with pytest.raises(LogError, match="not a topic name"):
        directory_name(topic, 0)


def test_directory_names_are_parsed_from_the_right() -> None:
    assert parse_directory_name("a-b-12") == ("a-b", 12)
    assert parse_directory_name("checkpoint") is None
