"""Compaction keeps the last record of each key. The records that stay keep their order and their offsets.

Kafka's algorithm:

1. A map from each key to its last offset is built from the part that is not compacted yet.
2. All segments below the end of that part are copied, group by group, without the records that the map supersedes. Each
   group is swapped in.

What else stays or goes: a record without a value (tombstone) stays until its delete horizon, so that readers from the
start can see it (KIP-534). So does an end marker without data. Records of aborted transactions go at once. The last
batch of a producer stays as an empty header, because of its sequence.

A batch whose records nobody can read is kept as it is, and its records supersede no others. A client wrote it, so it
must not stop the compaction of what others write.

`compact` is a generator. It yields the number of bytes that it read after each batch, and 0 within a batch of many
records, so that one thread can serve and compact. The log may change in between. Then it ends with CompactionAborted,
and the current group is unchanged. Shown by tests/broker_log/test_log_compaction.py, which stops it at every step and
every file operation.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from broker.log.config import LogConfig
from broker.log.damage import unreadable
from broker.log.errors import LogCorruptError
from broker.log.partition_log import PartitionLog
from broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from broker.log.transaction_index import AbortedTransaction
from broker.wire.errors import CorruptBatchError
from broker.wire.record_filter import (
    RecordSpan,
    body_of,
    delete_horizon_ms,
    filter_batch,
    record_spans,
    without_records,
)
from broker.wire.records import BatchHeader, RawBatch, parse_batch_header

RECORDS_PER_STEP = 1_000  # about 2 ms
ENTRY_OVERHEAD_BYTES = 120  # cost of one key in the map without the key itself, measured for a dict of bytes to int


class CompactionAborted(Exception):
    """The log was truncated, shortened or closed during the compaction. The caller begins again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """Whether a log is worth compacting. `dirty_ratio` counts bytes below `end_offset`."""

    first_dirty_offset: int
    end_offset: int  # records from here on may not be compacted yet
    dirty_bytes: int
    dirty_ratio: float
    is_due: bool  # max.compaction.lag.ms has passed for some record


@dataclass(slots=True, kw_only=True)
class CompactionResult:
    """What a compaction did. `compact` updates it while it runs."""

    clean_until: int  # the next compaction does not have to map the keys below this offset
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_removed: int = 0


def find_cleanable(log: PartitionLog, *, checkpoint: int, high_watermark: int, now_ms: int) -> Cleanable:
    """`checkpoint` is the `clean_until` of the last compaction, 0 if there was none."""
    config = log.config
    first_dirty = max(checkpoint, log.log_start_offset) if checkpoint <= log.log_end_offset else log.log_start_offset
    stable_offset = log.last_stable_offset(high_watermark)
    end_offset, dirty_bytes, clean_bytes, is_due = log.log_start_offset, 0, 0, False
    for segment, following in pairwise(log.segments):
        is_decided = segment.next_offset <= stable_offset
        is_young = config.min_compaction_lag_ms > 0 and segment.max_timestamp > now_ms - config.min_compaction_lag_ms
        if not is_decided or is_young:
            break
        end_offset = following.base_offset  # the segment itself may end before this offset, or be empty
        if end_offset <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        dirty_bytes += segment.size_bytes
        limit_ms = config.max_compaction_lag_ms
        if limit_ms is not None and 0 <= segment.first_timestamp < now_ms - limit_ms:
            is_due = True
    total_bytes = dirty_bytes + clean_bytes
    return Cleanable(
        first_dirty_offset=min(first_dirty, end_offset),
        end_offset=end_offset,
        dirty_bytes=dirty_bytes,
        dirty_ratio=dirty_bytes / total_bytes if total_bytes else 0.0,
        is_due=is_due,
    )


def compact(
    log: PartitionLog, cleanable: Cleanable, *, now_ms: int, map_bytes_max: int
) -> Generator[int, None, CompactionResult]:
    """Compact everything below `cleanable.end_offset`, as far as the map of keys has room."""
    segments = [segment for segment in log.segments[:-1] if segment.base_offset < cleanable.end_offset]
    aborted = _AbortedRanges(log.aborted_transactions(log.log_start_offset, cleanable.end_offset))
    keys = _KeyMap(bytes_max=map_bytes_max, start_offset=cleanable.first_dirty_offset)
    dirty = [segment for segment in segments if segment.next_offset > cleanable.first_dirty_offset]
    yield from _fill(log, keys, dirty, aborted, cleanable.end_offset)
    result = CompactionResult(clean_until=keys.end_offset)
    segments = [segment for segment in segments if segment.base_offset < keys.end_offset]
    # Producers whose transaction is committed or undecided, and which still have data in the part copied so far.
    kept_data: set[int] = set()
    for group in _groups(segments, log.config):
        yield from _clean_group(
            log, group, _Judge(keys=keys, aborted=aborted, log=log, now_ms=now_ms), kept_data, result
        )
    return result


@dataclass(slots=True)
class _KeyMap:
    """Maps each key in [start_offset, end_offset) to its last offset."""

    bytes_max: int
    start_offset: int
    end_offset: int = 0
    offsets: dict[bytes, int] = field(default_factory=dict)
    size_bytes: int = 0

    def __post_init__(self) -> None:
        self.end_offset = self.start_offset

    def note(self, key: bytes, offset: int) -> None:
        if key not in self.offsets:
            self.size_bytes += len(key) + ENTRY_OVERHEAD_BYTES
        self.offsets[key] = offset


class _AbortedRanges:
    """Which batches belong to an aborted transaction."""

    def __init__(self, transactions: Sequence[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for transaction in transactions:
            self._by_producer.setdefault(transaction.producer_id, []).append(transaction)

    def holds(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            each.first_offset <= header.base_offset < each.last_offset
            for each in self._by_producer.get(header.producer_id, ())
        )


def _check(log: PartitionLog, segments: Sequence[Segment]) -> None:
    present = log.segments[:-1]
    if any(segment not in present for segment in segments):
        raise CompactionAborted(f"{log.name}: its segments changed")


def _batches(log: PartitionLog, segments: Sequence[Segment]) -> Generator[tuple[Segment, RawBatch], None, None]:
    """Every whole batch of the segments. The log is checked before each read, because others may have changed it."""
    for segment in segments:
        position = 0
        while position < segment.size_bytes:
            _check(log, segments)
            header = segment.header_at(position)
            data = segment.read_bytes_at(position, header.size_bytes)
            yield segment, RawBatch(header, memoryview(data), position)
            position += header.size_bytes


def _fill(
    log: PartitionLog, keys: _KeyMap, segments: Sequence[Segment], aborted: _AbortedRanges, end_offset: int
) -> Generator[int, None, None]:
    for _, batch in _batches(log, segments):
        header = batch.header
        if header.last_offset < keys.start_offset:
            continue
        if keys.size_bytes > keys.bytes_max:
            return  # the rest is left for the next compaction
        if not header.is_control and not aborted.holds(header):
            _, spans = (yield from _unpacked(batch)) or (b"", ())
            for span in spans:
                if span.key is not None and span.offset >= keys.start_offset:
                    keys.note(span.key, span.offset)
        keys.end_offset = header.next_offset
        yield header.size_bytes
    keys.end_offset = end_offset


def _unpacked(batch: RawBatch) -> Generator[int, None, tuple[bytes, list[RecordSpan]] | None]:
    """The body and all its records, or None if nobody can read them. Raises LogCorruptError if the disk has changed
    them."""
    spans: list[RecordSpan] = []
    try:
        body = body_of(batch)
        for span in record_spans(batch.header, body):
            spans.append(span)
            if len(spans) % RECORDS_PER_STEP == 0:
                yield 0
    except CorruptBatchError as error:
        failure = unreadable(batch, error)
        if isinstance(failure, LogCorruptError):
            raise failure from error
        return None
    return body, spans


def _groups(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Neighbours that together fit one segment, so that compaction does not leave many small ones."""
    groups: list[list[Segment]] = []
    for segment in segments:
        group = groups[-1] if groups else []
        fits = (
            group
            and sum(each.size_bytes for each in group) + segment.size_bytes <= config.segment_bytes
            and sum(each.index_bytes() for each in group) + segment.index_bytes() <= config.segment_index_bytes
            and segment.next_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            group.append(segment)
        else:
            groups.append([segment])
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    keys: _KeyMap
    aborted: _AbortedRanges
    log: PartitionLog
    now_ms: int

    def rewrite(self, batch: RawBatch, kept_data: set[int]) -> Generator[int, None, bytes | None]:
        """What becomes of a batch: the same bytes, other bytes, or None. `kept_data` is updated."""
        header = batch.header
        if header.base_offset >= self.keys.end_offset:
            return bytes(batch.buffer)  # beyond the part that the map covers
        if header.is_control:
            return (yield from self._marker(batch, kept_data))
        kept = None if self.aborted.holds(header) else (yield from self._data(batch))
        if kept is None and self._is_last_of_producer(header):
            kept = without_records(header)
        if kept is not None and header.is_transactional and not self.aborted.holds(header):
            kept_data.add(header.producer_id)
        return kept

    def _data(self, batch: RawBatch) -> Generator[int, None, bytes | None]:
        horizon_ms = delete_horizon_ms(batch.header)
        is_expired = horizon_ms is not None and self.now_ms >= horizon_ms
        offsets, end_offset = self.keys.offsets, self.keys.end_offset

        def keep(offset: int, key: bytes | None, has_value: bool) -> bool:
            if offset >= end_offset:
                return True
            if key is None or offset < offsets.get(key, -1):
                return False
            return has_value or not is_expired

        unpacked = yield from _unpacked(batch)
        if unpacked is None:
            return bytes(batch.buffer)
        return filter_batch(batch, *unpacked, keep, new_horizon_ms=self._new_horizon_ms())

    def _marker(self, batch: RawBatch, kept_data: set[int]) -> Generator[int, None, bytes | None]:
        """A marker stays for delete.retention.ms after the data of its transaction is gone."""
        header = batch.header
        if header.producer_id in kept_data:
            kept_data.discard(header.producer_id)
            return bytes(batch.buffer)
        horizon_ms = delete_horizon_ms(header)
        if horizon_ms is not None and self.now_ms >= horizon_ms and not self._is_last_of_producer(header):
            return None
        unpacked = yield from _unpacked(batch)
        if unpacked is None:
            return bytes(batch.buffer)
        return filter_batch(batch, *unpacked, lambda *_: True, new_horizon_ms=self._new_horizon_ms())

    def _new_horizon_ms(self) -> int:
        return self.now_ms + self.log.config.delete_retention_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """The log's producer state depends on this batch. Without it, a rebuild of that state would miss the
        producer."""
        entry = self.log.producers.entry(header.producer_id) if header.producer_id >= 0 else None
        if entry is None or entry.epoch != header.producer_epoch:
            return False
        if not entry.batches:
            return header.is_control
        return entry.batches[-1].last_offset == header.last_offset


def _clean_group(
    log: PartitionLog, group: list[Segment], judge: _Judge, kept_data: set[int], result: CompactionResult
) -> Generator[int, None, None]:
    """Copy a group into one new segment and swap it in. If nothing can be removed and the group is one segment, it
    stays as it is."""
    cleaned = log.begin_cleaned_segment(group[0].base_offset)
    changed = len(group) > 1
    removed = 0
    try:
        for segment, batch in _batches(log, group):
            header = batch.header
            kept = yield from judge.rewrite(batch, kept_data)
            if kept is not None:
                placed = parse_batch_header(kept)
                cleaned.append(kept, [placed])
                removed += header.record_count - placed.record_count
            else:
                removed += header.record_count
            changed = changed or kept is None or len(kept) != header.size_bytes or kept != batch.buffer
            if header.is_control and kept is not None:
                for entry in segment.aborted.entries:
                    if entry.last_offset == header.base_offset:
                        cleaned.aborted.append(entry)
            yield header.size_bytes
        _check(log, group)
    except BaseException:
        cleaned.delete()
        raise
    before = sum(segment.size_bytes for segment in group)
    result.segments_before += len(group)
    result.bytes_before += before
    result.segments_after += 1
    result.bytes_after += cleaned.size_bytes if changed else before
    result.records_removed += removed
    if changed:
        log.swap_segments(group, cleaned)
    else:
        cleaned.delete()
