"""What a record that is in a log, however it came there, can do to the log: nothing but be unreadable itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.compaction import RECORDS_PER_STEP, compact, find_cleanable
from broker.log.config import LogConfig
from broker.log.errors import LogCorruptError
from broker.log.filesystem import LOCAL
from broker.log.partition_log import PartitionLog
from broker.wire import record_filter
from broker.wire.record_filter import RecordSpan
from broker.wire.records import BATCH_OVERHEAD_BYTES, encode_batch, iter_batches
from tests.broker_log.steps import at_once
from tests.odd_batches import empty_headers, foreign_name, record, unreadable, with_records

COMPACTED = LogConfig(segment_bytes=1_000, is_compacted=True)
ODD = {
    "a foreign name": foreign_name(),
    "many headers": empty_headers(100_000),
    "torn": unreadable(),
    "torn after one record": with_records(record() + b"no record", 2),
}


def data(key: bytes, value: bytes, *, timestamp: int = 1_000) -> bytes:
    return encode_batch([value], keys=[key], timestamps_ms=timestamp)


def control(key: bytes | None, value: bytes | None) -> bytes:
    return encode_batch(
        [value], keys=[key], timestamps_ms=1, producer_id=1, producer_epoch=0, control=True, transactional=True
    )


def opened(path: Path, config: LogConfig = COMPACTED, *, clean: bool = False) -> PartitionLog:
    return PartitionLog(str(path / "t-0"), name="t-0", config=config, clean=clean)


def compacted(log: PartitionLog) -> None:
    log.roll()
    cleanable = find_cleanable(log, checkpoint=0, high_watermark=log.log_end_offset, now_ms=10_000)
    at_once(compact(log, cleanable, now_ms=10_000, map_bytes_max=1 << 20))
    log.check_invariants()


def stored(log: PartitionLog) -> list[tuple[int, bytes]]:
    """(offset, records) of each batch."""
    found: list[tuple[int, bytes]] = []
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20) if offset < log.log_end_offset else b"":
        for batch in iter_batches(data):
            found.append((batch.header.base_offset, bytes(batch.buffer[BATCH_OVERHEAD_BYTES:])))
            offset = batch.header.next_offset
    return found


@pytest.mark.parametrize("odd", ODD)
def test_compaction_goes_on_and_leaves_the_batch_as_it_is(tmp_path: Path, odd: str) -> None:
    log = opened(tmp_path)
    for batch in (data(b"k", b"old"), data(b"a", b"1"), ODD[odd], data(b"a", b"2"), data(b"b", b"3")):
        log.append(batch, leader_epoch=0)
    compacted(log)
    found = dict(stored(log))
    assert 1 not in found, "a later record of the key supersedes it"
    assert found[2] == ODD[odd][BATCH_OVERHEAD_BYTES:]
    assert (0 in found) is odd.startswith("torn"), "what nobody can read supersedes nothing"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("odd", ODD)
def test_a_restart_keeps_it_and_all_others(tmp_path: Path, odd: str, is_clean: bool) -> None:
    log = opened(tmp_path)
    for batch in (data(b"a", b"1"), ODD[odd], data(b"a", b"2")):
        log.append(batch, leader_epoch=0)
    before, end = stored(log), log.log_end_offset
    if is_clean:
        log.close()
    again = opened(tmp_path, clean=is_clean)
    assert (stored(again), again.log_end_offset) == (before, end)
    again.truncate_to(end - 1)
    again.advance_log_start(1)
    assert again.end_offset_for_epoch(0) == (0, end - 1)


@pytest.mark.parametrize(
    "marker",
    [control(b"\0\0", b""), control(None, None), control(b"\0\0\0\1", b"\0"), control(b"\0\0\0\1", None)],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_control_batch_that_is_no_marker_ends_no_transaction_and_no_log(
    tmp_path: Path, marker: bytes, is_clean: bool
) -> None:
    begun = encode_batch([b"v"], timestamps_ms=1, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log = opened(tmp_path)
    log.append(begun, leader_epoch=0)
    log.append(marker, leader_epoch=0)
    assert log.last_stable_offset(2) == 0
    if is_clean:
        log.close()
    again = opened(tmp_path, clean=is_clean)
    assert again.last_stable_offset(2) == 0
    again.append(data(b"a", b"1"), leader_epoch=0)
    compacted(again)


def test_a_change_by_the_disk_still_ends_a_compaction(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(data(b"a", b"1"), leader_epoch=0)
    LOCAL.open(f"{log.directory}/{0:020d}.log").write_at(BATCH_OVERHEAD_BYTES, b"\xff\xff")
    with pytest.raises(LogCorruptError, match="the disk has changed"):
        compacted(log)


def test_a_batch_of_many_records_is_compacted_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked, most = 0, 0
    spans = record_filter.record_spans

    def counted(*arguments: object):  # type: ignore[no-untyped-def]
        nonlocal walked
        for span in spans(*arguments):  # type: ignore[arg-type]
            walked += 1
            assert isinstance(span, RecordSpan)
            yield span

    monkeypatch.setattr("broker.log.compaction.record_spans", counted)
    log = opened(tmp_path, LogConfig(is_compacted=True))
    count = 10 * RECORDS_PER_STEP
    log.append(
        encode_batch([b"v"] * count, keys=[b"%d" % (each % 7) for each in range(count)], timestamps_ms=1),
        leader_epoch=0,
    )
    log.roll()
    cleanable = find_cleanable(log, checkpoint=0, high_watermark=count, now_ms=10_000)
    for _ in compact(log, cleanable, now_ms=10_000, map_bytes_max=1 << 20):
        most, walked = max(most, walked), 0
    assert most == RECORDS_PER_STEP
    (left,) = [batch.header for batch in iter_batches(log.read(0, 1 << 20))]
    assert left.record_count == 7
