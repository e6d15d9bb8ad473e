"""Idempotence of committed batches: those of each producer are there once, in order, and none is missing."""

from __future__ import annotations

from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.replication import IdempotenceNoBatchIsMissing, IdempotenceNoBatchTwice
from broker.sim.partition_truth import BatchSeen, Key, Truth, name_of


class SequenceChecker:
    def __init__(self, fail: Fail, *, has_strangers: bool) -> None:
        self._not_twice, self._none_missing = IdempotenceNoBatchTwice(fail), IdempotenceNoBatchIsMissing(fail)
        self._has_strangers = has_strangers

    def check(self, truth: Truth, key: Key, batch: BatchSeen) -> None:
        if batch.producer_id < 0 or batch.base_sequence < 0 or batch.is_control:
            return  # no idempotent producer, or the offsets of a transaction, which have no sequences
        known = truth.sequences.get(batch.producer_id)
        if known is None and self._has_strangers:
            return  # a broker accepts any first sequence of a producer that it does not know
        expected = 0 if known is None or batch.producer_epoch > known[0] else known[1] + 1
        if self._not_twice.check(name_of(key), batch, known=known, expected=expected):
            self._none_missing.check(truth, name_of(key), batch, expected=expected)


def note_sequence(truth: Truth, batch: BatchSeen) -> None:
    if batch.base_sequence >= 0 and not batch.is_control:
        truth.sequences[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)
