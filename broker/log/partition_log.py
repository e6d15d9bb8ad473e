"""The log of one partition: what leader and follower append to, and what is read and truncated.

Owns: offsets, segments in order, when to roll, and keeping epochs and producer state in step with them. It knows
nothing of replicas or the high watermark: those come in as arguments. One thread uses it.
Shown by tests/broker_log/test_log_partition_log.py (append, read, truncate) and test_log_recovery.py.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from broker.log.checkpoints import LEADER_EPOCH_FILE
from broker.log.epochs import LeaderEpochCache
from broker.log.errors import LogCorruptError, OffsetOutOfRangeError
from broker.log.filesystem import LOCAL, Buffer, FileSystem
from broker.log.producers import ProducerState, Verdict
from broker.log.recovery import (
    CLEANED_SUFFIX,
    SWAP_SUFFIX,
    RecoverySummary,
    delete_leftovers,
    delete_stray_files,
    finish_swaps,
    open_segments,
)
from broker.log.segment import SEGMENT_BYTES_MAX, Segment, file_name
from broker.log.transaction_index import AbortedTransaction
from broker.log.transactions import CompletedTransaction, EndMarker, decode_end_marker, encode_end_marker
from broker.log.verification import VerificationGuard, VerificationGuards
from broker.wire.errors import CorruptBatchError
from broker.wire.records import (
    LENGTH_OVERHEAD_BYTES,
    NO_SEQUENCE,
    BatchHeader,
    decode_records,
    iter_batches,
    set_base_offset_and_epoch,
)

PRODUCERS_SUFFIX = ".producers"
_NO_LIMIT = 2**63 - 1
_OK = Verdict.OK  # looked up once: an enum's member costs 70 ns each time


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's names and defaults (dots as underscores). Times in ms; None: no limit."""

    segment_bytes: int = (
        1024 * 1024 * 1024
    )  # roll before a segment grows beyond this; lower: more files, faster recovery
    segment_ms: int = 604_800_000  # roll when a batch is this much younger than the segment's first
    segment_jitter_ms: int = 0  # rolling is spread over up to this much less time
    segment_index_bytes: int = 10 << 20  # roll when an index would outgrow it
    index_interval_bytes: int = 4096  # bytes between two index entries; lower: more memory, fewer reads per fetch
    flush_messages: int | None = None  # fsync after this many records; None: leave it to the operating system
    retention_ms: int | None = None  # None also if cleanup.policy has no `delete`
    retention_bytes: int | None = None
    is_compacted: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int | None = None
    delete_retention_ms: int = 86_400_000  # how long a tombstone is kept, so that readers from the start see it

    def __post_init__(self) -> None:
        if not 61 <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment.bytes {self.segment_bytes} is outside of 61 to {SEGMENT_BYTES_MAX}")
        if self.flush_messages is not None and self.flush_messages < 1:
            raise ValueError(f"flush.messages {self.flush_messages} is below 1")

    @property
    def roll_ms(self) -> int:
        """The active segment is never compacted, so max.compaction.lag.ms ends it too."""
        if self.is_compacted and self.max_compaction_lag_ms is not None:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms


class AppendResult(NamedTuple):
    """Outcome of an append. For DUPLICATE the offsets of the first append; for refusals -1."""

    verdict: Verdict
    base_offset: int
    last_offset: int
    headers: Sequence[BatchHeader]


class TruncationResult(NamedTuple):
    """Records with to_offset <= offset < from_offset are gone."""

    from_offset: int
    to_offset: int


class PartitionLog:
    """Invariants: segments are in order without overlap; the last one is appended to and its end is `log_end_offset`.

    Opening it recovers it; see `recovery`.
    """

    def __init__(
        self,
        directory: str,
        *,
        name: str,
        config: LogConfig | None = None,
        filesystem: FileSystem = LOCAL,
        clean: bool = False,
        recovery_point: int | None = None,
        topic_id: str | None = None,
        log_start_offset: int | None = None,
        was_compacted: bool = False,
    ) -> None:
        self.directory = directory
        self.name = name
        self.topic_id = topic_id
        self._config = config or LogConfig()
        self._filesystem = filesystem
        filesystem.make_directory(directory)
        finish_swaps(filesystem, directory, open_segment=self._open_segment)
        found = open_segments(
            filesystem,
            directory,
            clean=clean,
            recovery_point=recovery_point,
            may_have_gaps=self.config.is_compacted or was_compacted,
            open_segment=self._open_segment,
        )
        self._segments = found.segments
        self._active = found.segments[-1]
        self._bases = [segment.base_offset for segment in self._segments]
        self._log_start_offset = max(self._bases[0], log_start_offset or 0)
        self._find_roll_time()
        delete_stray_files(filesystem, directory, set(self._bases))
        # Base offsets of segments with writes since their last fsync. If an earlier life was killed, any segment may be
        # in this set.
        is_synced = clean and not found.scanned_segments
        self._unflushed = set() if is_synced else set(self._bases)
        # Directories with an entry that a loss of power could take away: of a new segment, or of the log itself.
        self._unsynced_directories = set() if is_synced else {directory, directory.rpartition("/")[0] or "."}
        self._records_since_flush = 0
        self.epochs = LeaderEpochCache(filesystem, f"{directory}/{LEADER_EPOCH_FILE}")
        self.epochs.truncate_to(self.log_end_offset + 1)
        has_gaps = self.config.is_compacted or was_compacted  # compaction may have removed the first batch of an epoch
        if recovery_point is not None and found.scanned_from == self._bases[0] and not has_gaps:
            self.epochs.rebuild((head.partition_leader_epoch, head.base_offset) for head in found.scanned_headers)
            self.epochs.truncate_from_start(self._log_start_offset)
        else:
            self._restore_epochs(found.scanned_headers)
        self.producers = ProducerState()
        self._guards = VerificationGuards()
        try:
            self._rebuild_producers(replay_from=found.scanned_from)
        except CorruptBatchError as error:
            raise LogCorruptError(f"{directory}: a segment that was closed cleanly is damaged: {error}") from error
        if self._log_start_offset > self.log_end_offset:
            self.truncate_fully_and_start_at(self._log_start_offset)  # a crash removed the records above it
        self.sync_what_is_counted_on()
        self.recovery = RecoverySummary(
            clean=clean and not found.scanned_segments,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            segments=len(self._segments),
            scanned_segments=found.scanned_segments,
            scanned_batches=len(found.scanned_headers),
            cut_bytes=found.cut_bytes,
            cut_reason=found.cut_reason,
            deleted_segments=found.deleted_segments,
        )

    # -- what it holds

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read; DeleteRecords can move it into the middle of a segment."""
        return self._log_start_offset

    @property
    def first_segment_offset(self) -> int:
        return self._bases[0]

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._active.next_offset

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def has_unflushed(self) -> bool:
        return bool(self._unflushed)

    # -- append

    def append(
        self,
        buffer: Buffer,
        *,
        leader_epoch: int,
        headers: Sequence[BatchHeader] | None = None,
        guard: VerificationGuard | None = None,
        must_be_verified: bool = False,
    ) -> AppendResult:
        """Append as leader: judge sequences, assign offsets and epoch in place, one write.

        `buffer` holds whole valid batches (`validate_batches` returned `headers`). A read-only one is copied first.
        With a producer id there must be one batch, as Kafka demands of every Produce request since version 3.
        With `must_be_verified` the first batch of a transaction needs the `guard` that `begin_verification` gave.
        """
        if headers is None:
            headers = [batch.header for batch in iter_batches(buffer)]
        for header in headers:
            if header.producer_id >= 0:
                assert len(headers) == 1, "batches with a producer id are appended one at a time"
                verdict, first = self.producers.check(
                    header, is_complete=self.log_start_offset == 0 and not self.config.is_compacted
                )
                if verdict is _OK and must_be_verified and header.is_transactional:
                    verdict = self._check_guard(header, guard)
                if verdict is not _OK:
                    base, last = (first.base_offset, first.last_offset) if first else (-1, -1)
                    return AppendResult(verdict, base, last, headers)
        view = buffer if type(buffer) is memoryview else memoryview(buffer)
        if view.readonly:
            view = memoryview(bytearray(view))
        offset, position = self.log_end_offset, 0
        placed: list[BatchHeader] = []
        for header in headers:
            set_base_offset_and_epoch(view, offset, leader_epoch, position)
            placed.append(header.placed(offset, leader_epoch))
            offset += header.last_offset_delta + 1
            position += header.batch_length + LENGTH_OVERHEAD_BYTES
        return self._append_placed(view, placed)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, *, sequence: int = NO_SEQUENCE, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard that the append of a transactional batch needs (KIP-890). None if this producer has an ongoing
        transaction here already."""
        if self.producers.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        return self._guards.begin(
            producer_id, producer_epoch=producer_epoch, sequence=sequence, supports_epoch_bump=supports_epoch_bump
        )

    def may_append_transactionally(
        self, producer_id: int, producer_epoch: int, guard: VerificationGuard | None, *, must_be_verified: bool
    ) -> Verdict:
        """The verdict on a batch without sequences (for example the offsets of a transaction), asked before the batch
        is made."""
        entry = self.producers.entry(producer_id)
        if entry is not None and producer_epoch < entry.epoch:
            return Verdict.INVALID_EPOCH
        if not must_be_verified or self.producers.has_ongoing_transaction(producer_id, producer_epoch):
            return Verdict.OK
        is_verified = guard is not None and guard is self._guards.current(producer_id)
        return Verdict.OK if is_verified else Verdict.INVALID_TXN_STATE

    def _check_guard(self, header: BatchHeader, guard: VerificationGuard | None) -> Verdict:
        if self.producers.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return Verdict.OK
        if guard is None or guard is not self._guards.current(header.producer_id):
            return Verdict.INVALID_TXN_STATE
        is_unknown = self.producers.entry(header.producer_id) is None
        if is_unknown and guard.supports_epoch_bump and header.base_sequence > 0:
            return Verdict.OUT_OF_ORDER  # each transaction has its own epoch, so the very first batch has number 0
        return Verdict.OUT_OF_ORDER if header.base_sequence > guard.lowest_sequence else Verdict.OK

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        marker: EndMarker,
        leader_epoch: int,
        timestamp_ms: int,
        transaction_version: int,
    ) -> AppendResult:
        """Append as leader the control batch that ends this producer's transaction here (WriteTxnMarkers)."""
        verdict = self.producers.check_marker(
            producer_id, producer_epoch, marker, transaction_version=transaction_version
        )
        if verdict is not Verdict.OK:
            return AppendResult(verdict, -1, -1, ())
        batch = encode_end_marker(
            producer_id=producer_id, producer_epoch=producer_epoch, marker=marker, timestamp_ms=timestamp_ms
        )
        return self.append(batch, leader_epoch=leader_epoch)

    def append_as_follower(self, buffer: Buffer, *, headers: Sequence[BatchHeader] | None = None) -> AppendResult:
        """Append what the leader sent, unchanged. Raises LogCorruptError if it does not continue this log."""
        if headers is None:
            headers = [batch.header for batch in iter_batches(buffer)]
        expected = self.log_end_offset
        for header in headers:
            if header.base_offset < expected:
                raise LogCorruptError(f"{self.name}: batch at {header.base_offset}, log ends at {expected}")
            expected = header.next_offset
        return self._append_placed(buffer, headers)

    def _append_placed(self, buffer: Buffer, headers: Sequence[BatchHeader]) -> AppendResult:
        if not headers:
            raise LogCorruptError(f"{self.name}: nothing to append")
        first, last_offset = headers[0], headers[-1].last_offset
        active, config = self._active, self._config
        if not active.has_room_for(len(buffer), last_offset, config.segment_bytes) or (
            first.max_timestamp > self._roll_at_ms or active.larger_index_bytes > config.segment_index_bytes
        ):
            self.roll(first.base_offset)
        is_first = not active.size_bytes
        self._active.append(buffer, headers)
        if is_first or self._active is not active:
            self._find_roll_time()
        self._unflushed.add(self._active.base_offset)
        position, latest_epoch = 0, self.epochs.latest_epoch
        for header in headers:
            if header.partition_leader_epoch > latest_epoch:
                latest_epoch = header.partition_leader_epoch
                self.epochs.assign(latest_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._note_producer(header, buffer, position)
            position += header.batch_length + LENGTH_OVERHEAD_BYTES
        if config.flush_messages is not None:
            self._records_since_flush += last_offset - first.base_offset + 1
            if self._records_since_flush >= config.flush_messages:
                self.flush()
        return AppendResult(_OK, first.base_offset, last_offset, headers)

    def _find_roll_time(self) -> None:
        """The timestamp beyond which a batch begins a new segment. It follows from the active segment's first timestamp
        and the settings."""
        self._roll_at_ms, config = _NO_LIMIT, self._config
        if self._active.size_bytes and self._active.first_timestamp >= 0:
            jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
            if jitter_ms:  # differs for each log and segment, but is the same in each run
                jitter_ms = crc32(f"{self.name}/{self._active.base_offset}".encode()) % jitter_ms
            self._roll_at_ms = self._active.first_timestamp + config.roll_ms - jitter_ms

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """In effect at once; the index interval from the next segment on."""
        self._config = config
        self._find_roll_time()

    def roll(self, base_offset: int | None = None) -> None:
        """End the active segment, so that retention or compaction may process it. An empty segment is not rolled."""
        if self._active.size_bytes:
            self._roll(self.log_end_offset if base_offset is None else base_offset)

    def _note_producer(self, header: BatchHeader, buffer: Buffer, position: int) -> None:
        marker = None
        if header.is_control:
            marker = decode_end_marker(memoryview(buffer)[position : position + header.size_bytes])
        completed = self.producers.update(header, marker)
        if header.is_transactional:
            self._guards.end(header.producer_id)
        if completed is not None and not completed.is_commit:
            self._active.aborted.append(self._aborted(completed))

    def _aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        return AbortedTransaction(
            producer_id=completed.producer_id,
            first_offset=completed.first_offset,
            last_offset=completed.last_offset,
            last_stable_offset=self.producers.transactions.stable_offset_after(completed),
        )

    def _roll(self, base_offset: int) -> None:
        self._active.save_index()
        self._save_producers()
        self._active = self._open_segment(base_offset)
        self._unsynced_directories.add(self.directory)
        self._segments.append(self._active)
        self._bases.append(base_offset)
        self._find_roll_time()

    def assign_epoch(self, leader_epoch: int) -> None:
        """Called on becoming leader, before the first append. Records that are appended from now on have this epoch."""
        self.epochs.assign(leader_epoch, self.log_end_offset)

    # -- read

    def read(
        self, offset: int, max_bytes: int, max_offset: int | None = None, *, minimum_one_batch: bool = True
    ) -> bytes:
        """Whole batches of one segment below `max_offset` (None: the log's end), beginning with the batch that holds
        `offset`.

        At most `max_bytes`, but at least one batch if `minimum_one_batch`. b"" if there is nothing yet.
        """
        limit = _NO_LIMIT if max_offset is None else max_offset
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                offset=offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                name=self.name,
            )
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while number < len(self._segments):  # none at all once a truncation has failed
            segment = self._segments[number]
            data = segment.read(offset, max_bytes, limit, minimum_one_batch)
            if data or (segment.size_bytes and offset < segment.next_offset):
                return data  # an empty segment may be left by compaction: go on with the next one
            number += 1
        return b""

    # -- transactions

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Markers below the high watermark cannot be truncated any more. So the transactions that they ended are
        decided."""
        self.producers.transactions.high_watermark_advanced(high_watermark)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided. A read_committed consumer may read up to it."""
        # a truncation replayed transactions that were decided before
        self.producers.transactions.high_watermark_advanced(high_watermark)
        unstable = self.producers.transactions.first_unstable_offset
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, from_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Aborted transactions with a record in [from_offset, upper_bound). upper_bound is at most the last stable
        offset."""
        found: list[AbortedTransaction] = []
        number = max(0, bisect_right(self._bases, from_offset) - 1)
        for segment in self._segments[number:]:
            if segment.aborted.collect(from_offset, upper_bound, found):
                break
        return found

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        return self.epochs.epoch_at(offset)

    def batch_headers(self, from_offset: int | None = None) -> Iterator[BatchHeader]:
        """Headers of all batches from the one that holds `from_offset` (None: the first)."""
        start = self.log_start_offset if from_offset is None else from_offset
        for segment in self._segments:
            if segment.next_offset > start:
                for batch in segment.batches(segment.position_of(start), bodies=False):
                    yield batch.header

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record at or after `timestamp_ms`, or None."""
        for segment in self._segments:
            found = segment.first_at_or_after(timestamp_ms, self._log_start_offset)
            if found is not None:
                return found
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the record with the largest timestamp (the first such), or None if there is none."""
        first, *others = self._segments
        largest = max((segment.max_timestamp for segment in others), default=-1)
        if self._log_start_offset == first.base_offset:
            largest = max(largest, first.max_timestamp)
        else:  # the largest timestamp may belong to a deleted record
            largest = max(largest, max(self._timestamps_from_log_start(first), default=-1))
        return self.offset_for_timestamp(largest) if largest >= 0 else None

    def _timestamps_from_log_start(self, first: Segment) -> Iterator[int]:
        """The largest timestamp of each batch. If the log start cuts a batch in two, only its remaining
        records count."""
        for batch in first.batches(first.position_of(self._log_start_offset), bodies=False):
            if batch.header.base_offset >= self._log_start_offset:
                yield batch.header.max_timestamp
                continue
            data = first.read(batch.header.base_offset, 0, _NO_LIMIT, minimum_one_batch=True)
            yield from (time for offset, time, *_ in decode_records(data) if offset >= self._log_start_offset)

    # -- the beginning of the log

    def advance_log_start(self, offset: int) -> bool:
        """Readers no longer get records below `offset`. Segments that lie completely below it are deleted."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRangeError(
                offset=offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                name=self.name,
            )
        if offset <= self._log_start_offset:
            return False
        self._log_start_offset = offset
        self.delete_segments_before_start()
        self.epochs.truncate_from_start(offset)
        return True

    def delete_segments_before_start(self) -> None:
        """Deletes whole segments. If the active segment is below the start, it is deleted once it has rolled."""
        while len(self._segments) > 1 and self._bases[1] <= self._log_start_offset:
            self._drop_first_segment()

    def _drop_first_segment(self) -> None:
        segment = self._segments.pop(0)
        self._unflushed.discard(self._bases.pop(0))
        segment.delete()

    @property
    def segments(self) -> Sequence[Segment]:
        """For retention and compaction. Appends go to the last one."""
        return self._segments

    # -- compaction (compaction.py decides what stays)

    def begin_cleaned_segment(self, base_offset: int) -> Segment:
        """An empty segment beside the log, under names that recovery removes."""
        delete_leftovers(self._filesystem, self.directory, CLEANED_SUFFIX)
        return self._open_segment(base_offset, CLEANED_SUFFIX)

    def swap_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put `new` in the place of `old`. The old segments follow one another and do not include the active one.

        Once the log file of `new` is named .swap, recovery finishes an interrupted swap. Before that, recovery undoes
        it. So the state in memory changes at that point too. Raises OSError; the log can then still be read, with all
        segments old or all new.
        """
        first = self._bases.index(old[0].base_offset)
        assert self._segments[first : first + len(old)] == list(old)
        assert old[-1] is not self._active
        new.sync()
        new.save_index()
        new.rename(SWAP_SUFFIX)
        self._segments[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        self._unflushed -= {segment.base_offset for segment in old}
        for segment in old:
            segment.close()
        self._sync_directory()  # before the old ones are removed: a loss of power could take both
        for segment in old[1:]:
            segment.delete()
        old[0].delete_indexes()
        new.rename("")

    # -- truncate

    def truncate_to(self, offset: int) -> TruncationResult:
        """Drop all records from `offset` on. The batch that holds `offset` goes as a whole, so the log may end lower.

        The truncation is on the disk when this returns. Otherwise a loss of power could bring back diverging records
        below a high watermark that was computed for the records after them. Raises OSError.
        """
        before = self.log_end_offset
        if offset >= before:
            return TruncationResult(before, before)
        if offset <= self.log_start_offset:
            return self.truncate_fully_and_start_at(self.log_start_offset)
        if self._segments[-1].base_offset >= offset:
            while self._segments[-1].base_offset >= offset:
                self._drop_last_segment()
            # Otherwise a loss of power could bring one of them back when the log has grown to its base offset again.
            self._sync_directory()
        self._active = self._segments[-1]
        self._active.truncate_to(offset)
        self._active.sync()
        self._unflushed.discard(self._active.base_offset)
        self._find_roll_time()
        after = self.log_end_offset
        # the log start may have been inside the batch that was dropped
        self._log_start_offset = min(self._log_start_offset, after)
        self.epochs.truncate_to(after)
        self._rebuild_producers()
        return TruncationResult(before, after)

    def truncate_fully_and_start_at(self, offset: int) -> TruncationResult:
        """Drop everything; the log then begins and ends at `offset`. On the disk when this returns."""
        before = self.log_end_offset
        while self._segments:
            self._drop_last_segment()
        self._active = self._open_segment(offset)
        self._segments, self._bases = [self._active], [offset]
        self._sync_directory()
        self._log_start_offset = offset
        self._find_roll_time()
        self.epochs.clear()
        self._delete_producer_snapshots(above=-1)
        self.producers.clear()
        self._guards.clear()
        return TruncationResult(before, min(before, offset))

    def _drop_last_segment(self) -> None:
        segment = self._segments.pop()
        self._unflushed.discard(self._bases.pop())
        segment.delete()

    # -- durability

    def flush(self) -> None:
        """fsync every segment that was written to. All records below `log_end_offset` are then on the disk."""
        if self._unflushed:
            for segment in self._segments:
                if segment.base_offset in self._unflushed:
                    segment.sync()
            if self._unsynced_directories:
                for directory in sorted(self._unsynced_directories):
                    self._filesystem.sync_directory(directory)
                self._unsynced_directories.clear()
        self._unflushed.clear()
        self._records_since_flush = 0

    def _sync_directory(self) -> None:
        self._filesystem.sync_directory(self.directory)
        self._unsynced_directories.discard(self.directory)

    def sync_what_is_counted_on(self) -> None:
        """With flush.messages, a leader takes a follower's next fetch offset as proof that all records before it are on
        the follower's disk."""
        if self.config.flush_messages is not None and self._unflushed:
            self.flush()

    def close(self) -> None:
        """Flush, and write index and producer snapshot, so that the next open does not have to scan."""
        self.flush()
        self._active.save_index()
        self._save_producers()
        for segment in self._segments:
            segment.close()

    def abandon(self) -> None:
        """Close the files as they are after one of them has failed. Nothing is flushed, and nothing is marked
        as safe."""
        for segment in self._segments:
            with contextlib.suppress(OSError):
                segment.close()

    def delete(self) -> None:
        """Close and remove the directory."""
        for segment in self._segments:
            segment.close()
        self._filesystem.remove_tree(self.directory)

    # -- state beside the segments

    def _open_segment(self, base_offset: int, suffix: str = "") -> Segment:
        return Segment(
            self._filesystem,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            suffix=suffix,
        )

    def _restore_epochs(self, headers: Sequence[BatchHeader]) -> None:
        """The epoch file is written with each new epoch. If the process crashed in between, the scan of the log
        decides."""
        for header in headers:
            if header.partition_leader_epoch > self.epochs.latest_epoch:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _snapshot_offsets(self) -> list[int]:
        names = self._filesystem.list_directory(self.directory)
        stems = [name.removesuffix(PRODUCERS_SUFFIX) for name in names if name.endswith(PRODUCERS_SUFFIX)]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _delete_producer_snapshots(self, *, above: int) -> None:
        for offset in self._snapshot_offsets():
            if offset > above:
                self._filesystem.remove(f"{self.directory}/{file_name(offset, PRODUCERS_SUFFIX)}")

    def _save_producers(self) -> None:
        """Write a snapshot, named by the end offset that it stands for. The last two are kept. Also kept is the one
        from which the active segment can be replayed, because recovery after a crash needs it."""
        end = self.log_end_offset
        self.producers.save(self._filesystem, f"{self.directory}/{file_name(end, PRODUCERS_SUFFIX)}")
        offsets = self._snapshot_offsets()
        below_active = [offset for offset in offsets if offset <= self._active.base_offset]
        for offset in set(offsets) - {*offsets[-2:], *below_active[-1:]}:
            self._filesystem.remove(f"{self.directory}/{file_name(offset, PRODUCERS_SUFFIX)}")

    def _rebuild_producers(self, *, replay_from: int | None = None) -> None:
        """Load the newest snapshot that is not beyond the log (nor beyond `replay_from`), then replay every batch after
        it."""
        self._delete_producer_snapshots(above=self.log_end_offset)
        start = self.log_start_offset
        self.producers.clear()
        self._guards.clear()
        for offset in reversed(self._snapshot_offsets()):
            if replay_from is not None and offset > replay_from:
                continue
            path = f"{self.directory}/{file_name(offset, PRODUCERS_SUFFIX)}"
            if self.producers.load(self._filesystem, path):
                start = max(start, offset)
                break
        for segment in self._segments:
            if segment.next_offset > start:
                self._replay(segment, start)

    def _replay(self, segment: Segment, start: int) -> None:
        for batch in segment.batches(segment.position_of(start), bodies=False):
            header = batch.header
            if header.producer_id < 0:
                continue
            marker: EndMarker | None = None
            if header.is_control:
                data = segment.read(header.base_offset, 0, _NO_LIMIT, minimum_one_batch=True)
                marker = decode_end_marker(data)
            completed = self.producers.update(header, marker)
            if completed is not None and not completed.is_commit:
                segment.aborted.append(self._aborted(completed))

    def check_invariants(self) -> None:
        assert self._segments
        assert self._active is self._segments[-1]
        assert self._bases == [segment.base_offset for segment in self._segments]
        assert self._bases[0] <= self._log_start_offset <= self.log_end_offset
        for earlier, later in zip(self._segments, self._segments[1:], strict=False):
            assert earlier.next_offset <= later.base_offset
        if self.epochs.entries:
            assert self.epochs.entries[-1].start_offset <= self.log_end_offset
        self.epochs.check_invariants()
        self.producers.transactions.check_invariants()
