"""Idempotence of what is committed: each producer's batches are there once, in order, and none is missing."""

from __future__ import annotations

from broker.sim.invariants import Fail, IdempotenceNoBatchIsMissing, IdempotenceNoBatchTwice
from broker.sim.partition_truth import BatchSeen, Key, Truth, name_of


class SequenceChecker:
    def __init__(self, fail: Fail, *, has_strangers: bool) -> None:
        self._not_twice, self._none_missing = IdempotenceNoBatchTwice(fail), IdempotenceNoBatchIsMissing(fail)
        self._has_strangers = has_strangers

    def check(self, truth: Truth, key: Key, batch: BatchSeen) -> None:
        if batch.producer_id < 0 or batch.base_sequence < 0 or batch.is_control:
            return  # nobody's sequences mean nothing; a coordinator writes the offsets of a transaction without any
        known = truth.sequences.get(batch.producer_id)
        if known is None and self._has_strangers:
            return  # of a producer that it does not know a broker takes any sequence
        expected = 0 if known is None or batch.producer_epoch > known[0] else known[1] + 1
        if self._not_twice.check(name_of(key), batch, known=known, expected=expected):
            self._none_missing.check(truth, name_of(key), batch, expected=expected)


def note_sequence(truth: Truth, batch: BatchSeen) -> None:
    if batch.base_sequence >= 0 and not batch.is_control:
        truth.sequences[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)
