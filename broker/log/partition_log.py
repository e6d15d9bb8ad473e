"""The log of one partition: what leader and follower append to, and what is read and truncated.

Owns: offsets, segments in order, when to roll, and keeping epochs and producer state in step with them. It knows
nothing of replicas or the high watermark: those come in as arguments. One thread uses it.
Shown by tests/broker_log/test_log_partition_log.py (append, read, truncate) and test_log_recovery.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.log.config import LogConfig
from broker.log.errors import LogCorruptError, OffsetOutOfRangeError
from broker.log.filesystem import LOCAL, Buffer, FileSystem
from broker.log.log_producers import LogProducers
from broker.log.opening import open_files
from broker.log.placing import expect_continuing, place
from broker.log.producers import Verdict
from broker.log.recovery import CLEANED_SUFFIX, delete_leftovers
from broker.log.results import AppendResult, TruncationResult
from broker.log.segment import Segment
from broker.log.segments import NO_LIMIT
from broker.log.time_search import Steps, TimeAndOffset, first_at_or_after, largest_timestamp
from broker.log.transaction_index import AbortedTransaction
from broker.log.transactions import EndMarker, encode_end_marker
from broker.log.verification import VerificationGuard
from broker.wire.errors import CorruptBatchError
from broker.wire.records import LENGTH_OVERHEAD_BYTES, BatchHeader, iter_batches

_OK = Verdict.OK  # Looked up once, because each access to an enum's member costs 70 ns.


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
        opened = open_files(
            filesystem,
            directory,
            clean=clean,
            recovery_point=recovery_point,
            may_have_gaps=self._config.is_compacted or was_compacted,
            log_start_offset=log_start_offset,
            open_segment=self._open_segment,
        )
        found, self._segments, self.epochs = opened.found, opened.segments, opened.epochs
        self._log_start_offset = opened.log_start_offset
        self._find_roll_time()
        self._records_since_flush = 0
        self._kept = LogProducers(filesystem, directory)
        self.producers, self.checks = self._kept.state, self._kept.checks
        try:
            self._rebuild_producers(replay_from=found.scanned_from)
        except CorruptBatchError as error:
            raise LogCorruptError(f"{directory}: a segment that was closed cleanly is damaged: {error}") from error
        if self._log_start_offset > self.log_end_offset:
            self.truncate_fully_and_start_at(self._log_start_offset)  # a crash removed the records above it
        self.sync_what_is_counted_on()
        self.recovery = opened.summary(self._log_start_offset, self.log_end_offset)

    # -- what it holds

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read; DeleteRecords can move it into the middle of a segment."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._segments.active.next_offset

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def has_unflushed(self) -> bool:
        return self._segments.has_unflushed

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
        With `must_be_verified` the first batch of a transaction needs the `guard` that `checks` gave (KIP-890).
        """
        if headers is None:
            headers = [batch.header for batch in iter_batches(buffer)]
        for header in headers:
            if header.producer_id >= 0:
                assert len(headers) == 1, "batches with a producer id are appended one at a time"
                is_complete = self._log_start_offset == 0 and not self._config.is_compacted
                verdict, first = self.checks.judge(
                    header, is_complete=is_complete, guard=guard, must_be_verified=must_be_verified
                )
                if verdict is not _OK:
                    base, last = (first.base_offset, first.last_offset) if first else (-1, -1)
                    return AppendResult(verdict, base, last, headers)
        view, placed = place(buffer, headers, self.log_end_offset, leader_epoch)
        return self._append_placed(view, placed)

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
        expect_continuing(headers, self.log_end_offset, self.name)
        return self._append_placed(buffer, headers)

    def _append_placed(self, buffer: Buffer, headers: Sequence[BatchHeader]) -> AppendResult:
        if not headers:
            raise LogCorruptError(f"{self.name}: nothing to append")
        first, last_offset = headers[0], headers[-1].last_offset
        active, config = self._segments.active, self._config
        if not active.has_room_for(len(buffer), last_offset, config.segment_bytes) or (
            first.max_timestamp > self._roll_at_ms or active.larger_index_bytes > config.segment_index_bytes
        ):
            self.roll(first.base_offset)
            active = self._segments.active
        is_first = not active.size_bytes
        active.append(buffer, headers)
        if is_first:
            self._find_roll_time()
        self._segments.active_was_written()
        position, latest_epoch = 0, self.epochs.latest_epoch
        for header in headers:
            if header.partition_leader_epoch > latest_epoch:
                latest_epoch = header.partition_leader_epoch
                self.epochs.assign(latest_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._kept.note(header, buffer, position, active)
            position += header.batch_length + LENGTH_OVERHEAD_BYTES
        if config.flush_messages is not None:
            self._records_since_flush += last_offset - first.base_offset + 1
            if self._records_since_flush >= config.flush_messages:
                self.flush()
        return AppendResult(_OK, first.base_offset, last_offset, headers)

    def _find_roll_time(self) -> None:
        self._roll_at_ms = self._config.roll_at_ms(self.name, self._segments.active)

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """The new settings are in effect at once. Only the index interval waits for the next segment."""
        self._config = config
        self._find_roll_time()

    def roll(self, base_offset: int | None = None) -> None:
        """End the active segment, so that retention or compaction may process it. An empty segment is not rolled."""
        active = self._segments.active
        if not active.size_bytes:
            return
        active.save_index()
        self._save_producers()
        self._segments.begin(self.log_end_offset if base_offset is None else base_offset)
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
        limit = NO_LIMIT if max_offset is None else max_offset
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                offset=offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                name=self.name,
            )
        return self._segments.read(offset, max_bytes, limit, minimum_one_batch=minimum_one_batch)

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
        return self._segments.aborted(from_offset, upper_bound)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def find_timestamp(self, timestamp_ms: int) -> Steps[TimeAndOffset | None]:
        """(timestamp, offset) of the first record at or after `timestamp_ms`, or None. The log may change between two
        steps; whoever takes the next step knows that the log is still open."""
        return first_at_or_after(lambda: self._segments, timestamp_ms, lambda: self._log_start_offset)

    def find_max_timestamp(self) -> Steps[TimeAndOffset | None]:
        """(timestamp, offset) of the record with the largest timestamp (the first such), or None if there is none."""
        largest = yield from largest_timestamp(lambda: self._segments, self._log_start_offset)
        return (yield from self.find_timestamp(largest)) if largest >= 0 else None

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
        """Delete the segments that lie below the log start. The active one is deleted only after it has rolled."""
        self._segments.drop_first_below(self._log_start_offset)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments in order, for retention and compaction. Appends go to the last one."""
        return self._segments.row

    # -- compaction (compaction.py decides what stays)

    def begin_cleaned_segment(self, base_offset: int) -> Segment:
        """An empty segment beside the log, under names that recovery removes."""
        delete_leftovers(self._filesystem, self.directory, CLEANED_SUFFIX)
        return self._open_segment(base_offset, CLEANED_SUFFIX)

    def swap_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put `new` in the place of `old`. The old segments follow one another and do not include the active one.
        Raises OSError. The log can still be read then, with either all the old segments or the new one."""
        self._segments.swap(old, new)

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
        self._segments.truncate_to(offset)
        self._find_roll_time()
        after = self.log_end_offset
        # the log start may have been inside the batch that was dropped
        self._log_start_offset = min(self._log_start_offset, after)
        self.epochs.truncate_to(after)
        self._rebuild_producers()
        return TruncationResult(before, after)

    def truncate_fully_and_start_at(self, offset: int) -> TruncationResult:
        """Drop everything. The log then begins and ends at `offset`, and this is on the disk when the call returns."""
        before = self.log_end_offset
        self._segments.start_over_at(offset)
        self._log_start_offset = offset
        self._find_roll_time()
        self.epochs.clear()
        self._kept.start_over()
        return TruncationResult(before, min(before, offset))

    # -- durability

    def flush(self) -> None:
        """fsync every segment that was written to. All records below `log_end_offset` are then on the disk."""
        self._segments.sync()
        self._records_since_flush = 0

    def sync_what_is_counted_on(self) -> None:
        """With flush.messages, a leader takes a follower's next fetch offset as proof that all records before it are on
        the follower's disk."""
        if self.config.flush_messages is not None and self._segments.has_unflushed:
            self.flush()

    def close(self) -> None:
        """Flush, and write index and producer snapshot, so that the next open does not have to scan."""
        self.flush()
        self._segments.active.save_index()
        self._save_producers()
        self._segments.close()

    def abandon(self) -> None:
        """Call this after a file has failed. The files are closed as they are: nothing is flushed, and nothing is
        marked as safe."""
        self._segments.abandon()

    def delete(self) -> None:
        """Close and remove the directory."""
        self._segments.close()
        self._filesystem.remove_tree(self.directory)

    def move_into(self, other: PartitionLog) -> None:
        """Go on with the files of `other`, which holds the same records in another directory. `other` must not be used
        any more. The old files are closed and remain. Whoever has a reference to this log reads the new files."""
        assert other.log_end_offset == self.log_end_offset
        assert other.log_start_offset == self._log_start_offset
        for entry in self.epochs.entries:  # an epoch that has appended nothing yet is in no record
            if entry.epoch > other.epochs.latest_epoch:
                other.epochs.assign(entry.epoch, entry.start_offset)
        old, self._segments, self.epochs, self.directory = (
            self._segments,
            other._segments,
            other.epochs,
            other.directory,
        )
        self._kept.move_to(other.directory)
        self._find_roll_time()
        self._save_producers()  # also those whose records are not in the log any more
        old.abandon()

    # -- state beside the segments

    def _open_segment(self, base_offset: int, suffix: str = "") -> Segment:
        return Segment(
            self._filesystem,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            suffix=suffix,
        )

    def _save_producers(self) -> None:
        self._kept.save(end_offset=self.log_end_offset, active_base=self._segments.active.base_offset)

    def _rebuild_producers(self, *, replay_from: int | None = None) -> None:
        self._kept.rebuild(
            self._segments,
            start_offset=self.log_start_offset,
            end_offset=self.log_end_offset,
            replay_from=replay_from,
        )

    def check_invariants(self) -> None:
        self._segments.check_invariants()
        assert self._segments.first_offset <= self._log_start_offset <= self.log_end_offset
        if self.epochs.entries:
            assert self.epochs.entries[-1].start_offset <= self.log_end_offset
        self.epochs.check_invariants()
        self.producers.transactions.check_invariants()
