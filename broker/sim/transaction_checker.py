"""Invariants of transactions, checked whenever a batch is committed. The checker judges by the partitions' logs.

- A transaction ends in the same way in every partition, as its producer asked and as it was answered.
- Nothing joins a transaction after its end.
- A fenced producer writes nothing.
- Readers with read_committed see only what was committed.
- Every transaction ends.

The simulated producers note which batch belongs to which transaction before they send it.

One case is no violation but is counted. With transaction version 1 a producer keeps its epoch. If the coordinator
repeats a marker and the first copy of it arrives late, this copy ends the producer's next transaction in the partition.
Only the epochs of version 2 distinguish the two transactions (KIP-890; KAFKA-19446).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.sim.coverage import Coverage
from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.transactions import (
    CommittedTransactionIsWhole,
    FencedProducerWritesNothing,
    NothingJoinsATransactionThatHasEnded,
    OnlyItsProducerCommitsATransaction,
    ReadersSeeCommittedTransactionsOnly,
    TransactionEndsAsItsProducerWasTold,
    TransactionEndsTheSameEverywhere,
)
from broker.sim.partition_truth import Key, name_of
from broker.sim.transactions_seen import Attempt, end_text
from broker.wire.batch import RawBatch


class TransactionChecker:
    def __init__(self, *, fail: Fail, coverage: Coverage) -> None:
        self._coverage = coverage
        self._fenced, self._nothing_joins = (
            FencedProducerWritesNothing(fail),
            NothingJoinsATransactionThatHasEnded(fail),
        )
        self._same_everywhere, self._by_its_producer = (
            TransactionEndsTheSameEverywhere(fail),
            OnlyItsProducerCommitsATransaction(fail),
        )
        self._as_told, self._is_whole = TransactionEndsAsItsProducerWasTold(fail), CommittedTransactionIsWhole(fail)
        self._readers = ReadersSeeCommittedTransactionsOnly(fail)
        self.attempts: list[Attempt] = []
        self._batches: dict[tuple[Key, int, int, int], tuple[Attempt, tuple[bytes, ...]]] = {}
        self._open: dict[tuple[Key, int], list[Attempt]] = {}  # (partition, producer id) -> those without a marker
        self._epochs: dict[tuple[Key, int], int] = {}  # (partition, producer id) -> the highest epoch seen
        self._of_record: dict[bytes, Attempt] = {}
        self._markers: set[tuple[Key, int, int, bool]] = set()  # (partition, producer id, epoch, is commit)

    # -- what producers do -------------------------------------------------------------------------------------------

    def sending(
        self, attempt: Attempt, key: Key, *, producer: tuple[int, int], base_sequence: int, records: tuple[bytes, ...]
    ) -> None:
        """Note a batch. Called before its first byte leaves the producer."""
        self._batches[(key, *producer, base_sequence)] = (attempt, records)
        for identity in records:
            attempt.sent[identity] = key
            self._of_record[identity] = attempt

    # -- what is committed -------------------------------------------------------------------------------------------

    def data_committed(self, key: Key, *, producer: tuple[int, int], base_sequence: int, offset: int) -> None:
        """A transactional batch is now below the high watermark."""
        producer_id, epoch = producer
        highest = self._epochs.get((key, producer_id), -1)
        where = f"{name_of(key)} offset {offset}"
        self._fenced.check(where, producer_id, epoch, highest=highest)
        self._epochs[(key, producer_id)] = max(highest, epoch)
        known = self._batches.get((key, producer_id, epoch, base_sequence))
        if known is None:
            return  # a coordinator wrote it to an internal topic
        attempt, records = known
        self._nothing_joins.check(where, attempt, has_ended=key in attempt.outcomes)
        attempt.in_log.setdefault(key, set()).update(records)
        waiting = self._open.setdefault((key, producer_id), [])
        if attempt not in waiting:
            waiting.append(attempt)

    def marker_committed(self, key: Key, *, producer: tuple[int, int], is_commit: bool, offset: int) -> None:
        producer_id, epoch = producer
        self._epochs[(key, producer_id)] = max(self._epochs.get((key, producer_id), -1), epoch)
        marker = (key, producer_id, epoch, is_commit)
        is_repeated = marker in self._markers
        self._markers.add(marker)
        for attempt in self._open.pop((key, producer_id), ()):
            if is_repeated and not attempt.bumps_epoch and is_commit not in attempt.asked:
                attempt.is_torn = True
                self._coverage.reached("late marker of version 1")
            if attempt.is_torn:
                attempt.outcomes[key] = is_commit
                continue
            other = attempt.is_committed
            attempt.outcomes[key] = is_commit
            where = f"{attempt.name}: {end_text(is_commit)} in {name_of(key)} at offset {offset}"
            self._same_everywhere.check(where, is_commit=is_commit, elsewhere=other)
            self._by_its_producer.check(where, attempt, is_commit=is_commit)
            self._as_told.marked(where, attempt, is_commit=is_commit)

    def end_answered(self, attempt: Attempt, *, is_commit: bool) -> None:
        attempt.answered = is_commit
        self._coverage.reached("transaction committed" if is_commit else "transaction aborted")
        if not attempt.is_torn:
            self._as_told.answered(attempt, is_commit=is_commit)

    # -- what readers get --------------------------------------------------------------------------------------------

    def read_committed(
        self,
        key: Key,
        batches: Iterable[RawBatch],
        identities: Callable[[RawBatch], list[bytes]],
        aborted: list[tuple[int, int]],
    ) -> None:
        """Check the records of these batches that a consumer with read_committed returns. `aborted` are the (producer
        id, first offset) in the answer."""
        left = sorted(aborted, key=lambda each: each[1])
        skipped: set[int] = set()
        for batch in batches:
            header = batch.header
            while left and left[0][1] <= header.last_offset:
                skipped.add(left.pop(0)[0])
            if header.is_control:
                skipped.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in skipped:
                self._coverage.reached("aborted records skipped by a reader")
                continue
            for identity in identities(batch):
                attempt = self._of_record.get(identity)
                if attempt is not None and not self._readers.check(
                    f"{name_of(key)} offset {header.base_offset}", attempt, outcome=attempt.outcomes.get(key)
                ):
                    return

    # -- at the end --------------------------------------------------------------------------------------------------

    @property
    def has_open(self) -> bool:
        return any(self._open.values())

    def open_text(self) -> str:
        return ", ".join(f"{each.name} in {name_of(key)}" for (key, _), some in self._open.items() for each in some)

    def compare(self) -> None:
        """Check that every acknowledged record of a committed transaction is in its log and committed there."""
        for attempt in self.attempts:
            if attempt.answered is True and not attempt.is_torn:
                for identity in attempt.acked:
                    key = attempt.sent[identity]
                    is_there = identity in attempt.in_log.get(key, ()) and attempt.outcomes.get(key) is True
                    self._is_whole.check(name_of(key), attempt, identity, is_there=is_there)

    def committed_offset(self, producer: str) -> int:
        """The largest offset that a committed transaction of this producer contained, -1 for none."""
        offsets = [
            each.offset
            for each in self.attempts
            if each.name.startswith(f"{producer}:")
            and (each.answered if each.is_torn else each.is_committed)
            and each.offset is not None
        ]
        return max(offsets, default=-1)
