"""Whether a producer's batch may be appended: its sequence, its epoch, and the proof that its transaction is ongoing.

Owns: the guards of producers that are being verified (verification.py). Shown by
tests/broker_log/test_log_transactions.py.
"""

from __future__ import annotations

from broker.log.producers import AppendedBatch, ProducerState, Verdict
from broker.log.verification import VerificationGuard, VerificationGuards
from broker.wire.records import NO_SEQUENCE, BatchHeader

_OK = Verdict.OK  # Looked up once, because each access to an enum's member costs 70 ns.


class ProducerChecks:
    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers
        self.guards = VerificationGuards()

    def judge(
        self, header: BatchHeader, *, is_complete: bool, guard: VerificationGuard | None, must_be_verified: bool
    ) -> tuple[Verdict, AppendedBatch | None]:
        """The verdict on a batch with a producer id, and for DUPLICATE the batch as it was first appended.

        `is_complete`: the log still has its first record, so a producer that is unknown here has written nothing.
        """
        verdict, first = self._producers.check(header, is_complete=is_complete)
        if verdict is _OK and must_be_verified and header.is_transactional:
            return self._check_guard(header, guard), None
        return verdict, first

    def begin_verification(
        self, producer_id: int, producer_epoch: int, *, sequence: int = NO_SEQUENCE, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard that the append of a transactional batch needs (KIP-890). None if this producer has an ongoing
        transaction here already."""
        if self._producers.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        return self.guards.begin(
            producer_id, producer_epoch=producer_epoch, sequence=sequence, supports_epoch_bump=supports_epoch_bump
        )

    def may_append_transactionally(
        self, producer_id: int, producer_epoch: int, guard: VerificationGuard | None, *, must_be_verified: bool
    ) -> Verdict:
        """The verdict on a batch without sequences, for example the offsets of a transaction. It is asked for before
        the batch is built."""
        entry = self._producers.entry(producer_id)
        if entry is not None and producer_epoch < entry.epoch:
            return Verdict.INVALID_EPOCH
        if not must_be_verified or self._producers.has_ongoing_transaction(producer_id, producer_epoch):
            return _OK
        is_verified = guard is not None and guard is self.guards.current(producer_id)
        return _OK if is_verified else Verdict.INVALID_TXN_STATE

    def _check_guard(self, header: BatchHeader, guard: VerificationGuard | None) -> Verdict:
        if self._producers.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return _OK
        if guard is None or guard is not self.guards.current(header.producer_id):
            return Verdict.INVALID_TXN_STATE
        is_unknown = self._producers.entry(header.producer_id) is None
        if is_unknown and guard.supports_epoch_bump and header.base_sequence > 0:
            return Verdict.OUT_OF_ORDER  # each transaction has its own epoch, so its first batch has sequence 0
        return Verdict.OUT_OF_ORDER if header.base_sequence > guard.lowest_sequence else _OK
