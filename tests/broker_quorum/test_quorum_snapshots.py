"""The file of a snapshot goes there and back, and a damaged one is never taken for whole."""

from __future__ import annotations

import pytest

from broker.quorum.checkpoint import RECORDS_PER_BATCH, decode_snapshot, encode_snapshot, file_name, parse_file_name
from broker.quorum.log import QuorumLog
from broker.quorum.snapshots import Snapshot, SnapshotDownload, SnapshotId
from broker.quorum.types import DivergingEpoch, LogEntry
from broker.wire.errors import CorruptBatchError
from broker.wire.records import decode_records, iter_batches

CRC_COVERS_FROM = 21  # of a batch: from its attributes on
ID = SnapshotId(end_offset=17, epoch=4)
SNAPSHOT = encode_snapshot(ID, (b"one", b"two" * 100), last_timestamp_ms=1_700_000_000_000)


def test_values_come_back_between_header_and_footer() -> None:
    assert decode_snapshot(SNAPSHOT) == (b"one", b"two" * 100)
    batches = list(iter_batches(SNAPSHOT.data))
    assert [batch.header.is_control for batch in batches] == [True, False, True]
    assert [decode_records(batch)[0][2] for batch in (batches[0], batches[2])] == [b"\0\0\0\3", b"\0\0\0\4"]
    assert {batch.header.partition_leader_epoch for batch in batches} == {4}


def test_a_large_snapshot_has_batches_of_a_bounded_size() -> None:
    values = tuple(b"%d" % number for number in range(2 * RECORDS_PER_BATCH + 1))
    snapshot = encode_snapshot(ID, values, last_timestamp_ms=1)
    assert decode_snapshot(snapshot) == values
    headers = [batch.header for batch in iter_batches(snapshot.data)]
    assert [header.record_count for header in headers] == [1, RECORDS_PER_BATCH, RECORDS_PER_BATCH, 1, 1]
    ends = [header.next_offset for header in headers]
    assert [header.base_offset for header in headers] == [0, *ends[:-1]], "offsets have no gap"


def test_names_are_those_of_kafka() -> None:
    assert file_name(ID) == "00000000000000000017-0000000004.checkpoint"
    assert parse_file_name(file_name(ID)) == ID
    assert parse_file_name("00000000000000000017.log") is None
    assert parse_file_name(file_name(ID) + ".tmp") is None


def test_a_snapshot_cut_at_any_byte_or_changed_is_refused() -> None:
    for size in range(len(SNAPSHOT.data)):
        with pytest.raises(CorruptBatchError):
            decode_snapshot(Snapshot(snapshot_id=ID, data=SNAPSHOT.data[:size]))
    for batch in iter_batches(SNAPSHOT.data):
        for position in range(batch.position + CRC_COVERS_FROM, batch.position + batch.size_bytes):
            data = bytearray(SNAPSHOT.data)
            data[position] ^= 1 << position % 8
            with pytest.raises(CorruptBatchError):
                decode_snapshot(Snapshot(snapshot_id=ID, data=bytes(data)))


def test_pieces_must_follow_each_other() -> None:
    def new() -> SnapshotDownload:
        return SnapshotDownload(snapshot_id=ID, data=bytearray(b"abc"))

    assert new().add(ID, position=3, size=5, piece=b"de")
    assert not new().add(ID, position=2, size=5, piece=b"de")
    assert not new().add(ID, position=3, size=4, piece=b"de")
    assert not new().add(ID, position=3, size=5, piece=b"")
    assert not new().add(ID, position=3, size=1 << 40, piece=b"de")
    assert not new().add(SnapshotId(end_offset=18, epoch=4), position=3, size=5, piece=b"de")


def entry(offset: int, epoch: int, count: int = 1) -> LogEntry:
    return LogEntry(offset=offset, epoch=epoch, is_control=False, values=(b"%d" % offset,) * count)


def test_a_log_of_entries_with_several_values_begins_and_ends_between_them() -> None:
    first, second, third = entry(0, 1, 3), entry(3, 1, 2), entry(5, 2, 4)
    log = QuorumLog((first, second, third))
    assert [log.end_at_or_before(offset) for offset in range(10)] == [0, 0, 0, 3, 3, 5, 5, 5, 5, 9]
    assert [log.epoch_before(offset) for offset in range(10)] == [-1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert log.read(3, 5) == (second,)
    assert log.read(0, 9) == (first, second, third)
    assert log.read_bounded(3, 1) == (second,)
    assert log.read_bounded(3, 1 << 20) == (second, third)
    assert log.read_bounded(9, 1) == ()
    assert not log.can_append((entry(8, 2),))
    log.drop_prefix(5)
    log.check_invariants()
    assert (log.start_offset, log.end_offset, log.read(5, 9)) == (5, 9, (third,))
    assert [log.end_at_or_before(offset) for offset in range(5, 10)] == [5, 5, 5, 5, 9]
    log.truncate(5)
    log.check_invariants()
    assert (log.end_offset, log.last_epoch) == (5, 1)


def test_a_log_behind_a_snapshot_knows_what_it_can_still_tell() -> None:
    log = QuorumLog(tuple(entry(offset, 1 + offset // 3) for offset in range(9)))  # epochs 1 1 1 2 2 2 3 3 3
    log.drop_prefix(4)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (4, 9, 3)
    assert (log.epoch_before(4), log.epoch_before(6), log.epoch_before(7)) == (2, 2, 3)
    assert log.needs_snapshot(fetch_offset=0, last_fetched_epoch=-1)
    assert log.needs_snapshot(fetch_offset=3, last_fetched_epoch=1)
    assert log.needs_snapshot(fetch_offset=5, last_fetched_epoch=1)  # parted from us before the start
    assert not log.needs_snapshot(fetch_offset=4, last_fetched_epoch=2)
    assert log.divergence(fetch_offset=4, last_fetched_epoch=2) is None
    assert log.divergence(fetch_offset=8, last_fetched_epoch=2) == DivergingEpoch(epoch=2, end_offset=6)
    log.truncate(4)
    assert (log.end_offset, log.last_epoch, log.last_entry) == (4, 2, None)
    log.append((entry(4, 2), entry(5, 5)))
    log.check_invariants()
    with pytest.raises(ValueError, match="cannot follow"):
        log.append((entry(6, 4),))
