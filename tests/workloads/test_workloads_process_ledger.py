"""The records of a client without an outcome: each is taken once, however many others came in between."""

from __future__ import annotations

import numpy as np

from workloads.clients.process.ledger import SLOTS, Ledger


def seqs(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, dtype=np.int64)


def test_a_record_is_taken_once_alone_or_with_others() -> None:
    ledger = Ledger()
    ledger.give(seqs(0, 1, 2, 7), 50)
    assert ledger.take(seqs(2, 0, 2, 5), 9).tolist() == [50, 50, -1, -1]
    assert [ledger.take_one(seq, 10) for seq in (2, 1, 1, -1)] == [-1, 50, -1, -1]
    assert (ledger.open_count, ledger.open_seqs()) == (1, [7])
    assert [ledger.told_at(seq) for seq in (0, 1, 2, 5, 7)] == [9, 10, 9, 0, 0]


def test_a_record_stays_open_while_more_than_all_slots_are_used_by_others() -> None:
    ledger = Ledger()
    ledger.give(seqs(3, 4), 1)
    for first in range(5, 3 * SLOTS, SLOTS // 4):
        many = np.arange(first, first + SLOTS // 4)
        ledger.give(many, first)
        assert (ledger.take(many, 2) == first).all()
    assert (ledger.open_count, ledger.open_seqs()) == (2, [3, 4])
    assert ledger.open_seqs(written_until_us=0) == []
    assert (ledger.take(seqs(4), 3).tolist(), ledger.take_one(3, 3)) == ([1], 1)
    assert (ledger.take(seqs(4), 3).tolist(), ledger.open_count) == ([-1], 0)
    assert ledger.was_given(4)
    assert not ledger.was_given(10 * SLOTS)


def test_what_was_written_until_a_time_is_told_apart() -> None:
    ledger = Ledger()
    ledger.give(seqs(0, 1), 10)
    ledger.give(seqs(2, SLOTS + 1), 20)  # 1 is kept aside
    assert ledger.open_seqs(10) == [0, 1]
    assert ledger.open_seqs(20) == [0, 1, 2, SLOTS + 1]
