"""The state of a log's producers, kept in step with its segments: noted at each append, saved, and rebuilt from them.

Owns: the snapshots, and the entries of aborted transactions in the segments' indexes. Shown by
tests/broker_log/test_log_recovery.py and test_log_transactions.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.log.damage import unreadable
from broker.log.errors import LogCorruptError
from broker.log.filesystem import Buffer, FileSystem
from broker.log.producer_checks import ProducerChecks
from broker.log.producer_snapshots import ProducerSnapshots
from broker.log.producers import ProducerState
from broker.log.segment import Segment
from broker.log.transaction_index import AbortedTransaction
from broker.log.transactions import CompletedTransaction, EndMarker, decode_end_marker
from broker.wire.errors import CorruptBatchError
from broker.wire.records import BatchHeader, RawBatch


class LogProducers:
    """`state` is the state of each producer after its appended batches. `checks` judges the next batch."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self.state = ProducerState()
        self.checks = ProducerChecks(self.state)
        self._snapshots = ProducerSnapshots(filesystem, directory)

    def move_to(self, directory: str) -> None:
        """The state stays. Snapshots are kept in this directory from now on."""
        self._snapshots = ProducerSnapshots(self._filesystem, directory)

    def note(self, header: BatchHeader, buffer: Buffer, position: int, segment: Segment) -> None:
        """A batch with a producer id was appended to `segment`. It stands in `buffer` at `position`."""
        marker = None
        if header.is_control:
            marker = _marker_in(RawBatch(header, memoryview(buffer)[position : position + header.size_bytes]))
        completed = self.state.update(header, marker)
        if header.is_transactional:
            self.checks.guards.end(header.producer_id)
        if completed is not None and not completed.is_commit:
            segment.aborted.append(self._aborted(completed))

    def save(self, *, end_offset: int, active_base: int) -> None:
        self._snapshots.save(self.state, end_offset=end_offset, active_base=active_base)

    def rebuild(
        self, segments: Iterable[Segment], *, start_offset: int, end_offset: int, replay_from: int | None = None
    ) -> None:
        """Load the newest snapshot that is not beyond the log (nor beyond `replay_from`), then replay every batch after
        it."""
        self._snapshots.delete_above(end_offset)
        self._forget()
        start = max(start_offset, self._snapshots.load_newest(self.state, not_beyond=replay_from))
        for segment in segments:
            if segment.next_offset > start:
                self._replay(segment, start)

    def start_over(self) -> None:
        """The log is empty."""
        self._snapshots.delete_above(-1)
        self._forget()

    def _forget(self) -> None:
        self.state.clear()
        self.checks.guards.clear()

    def _replay(self, segment: Segment, start: int) -> None:
        for batch in segment.batches(segment.position_of(start), bodies=False):
            header = batch.header
            if header.producer_id < 0:
                continue
            marker: EndMarker | None = None
            if header.is_control:
                marker = _marker_in(segment.whole(batch))
            completed = self.state.update(header, marker)
            if completed is not None and not completed.is_commit:
                segment.aborted.append(self._aborted(completed))

    def _aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        return AbortedTransaction(
            producer_id=completed.producer_id,
            first_offset=completed.first_offset,
            last_offset=completed.last_offset,
            last_stable_offset=self.state.transactions.stable_offset_after(completed),
        )


def _marker_in(batch: RawBatch) -> EndMarker | None:
    """None for a control batch without an end marker, and for one that was written so that nobody can read it. Such a
    batch ends no transaction, and the log goes on. Raises LogCorruptError if the disk has changed the batch."""
    try:
        return decode_end_marker(batch.buffer)
    except CorruptBatchError as error:
        failure = unreadable(batch, error)
        if isinstance(failure, LogCorruptError):
            raise failure from error
        return None
