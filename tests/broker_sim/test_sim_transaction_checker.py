"""What the checker of transactions lets pass and what it does not, on hand-made histories."""

from __future__ import annotations

import pytest

from broker.sim.coverage import Coverage
from broker.sim.transaction_checker import TransactionChecker
from broker.sim.transactions_seen import Attempt

KEY = ("t", 0)
PRODUCER = (7, 3)


class History:
    """One producer and one partition; what the checker complains of is in `failures`."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.coverage = Coverage()
        self.checker = TransactionChecker(
            fail=lambda invariant, _: self.failures.append(invariant), coverage=self.coverage
        )
        self._offset = 0

    def attempt(self, number: int, *, bumps_epoch: bool = False) -> Attempt:
        made = Attempt(name=f"tx:1:{number}", number=number, bumps_epoch=bumps_epoch)
        self.checker.attempts.append(made)
        return made

    def batch(self, attempt: Attempt) -> None:
        self._offset += 1
        records = (f"record {self._offset}".encode(),)
        self.checker.sending(attempt, KEY, producer=PRODUCER, base_sequence=self._offset, records=records)
        self.checker.data_committed(KEY, producer=PRODUCER, base_sequence=self._offset, offset=self._offset)
        attempt.acked.update(records)

    def marker(self, *, is_commit: bool) -> None:
        self._offset += 1
        self.checker.marker_committed(KEY, producer=PRODUCER, is_commit=is_commit, offset=self._offset)

    def end(self, attempt: Attempt, *, is_commit: bool) -> None:
        attempt.asked.add(is_commit)
        self.marker(is_commit=is_commit)
        self.checker.end_answered(attempt, is_commit=is_commit)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_late_marker_of_version_1_ends_the_next_transaction_and_is_excused_and_counted(is_commit: bool) -> None:
    history = History()
    first, second = history.attempt(1), history.attempt(2)
    history.batch(first)
    history.end(first, is_commit=is_commit)
    history.batch(second)
    history.marker(is_commit=is_commit)  # sent before the one that ended the first, and come after it
    history.batch(second)
    history.end(second, is_commit=not is_commit)
    history.checker.compare()
    assert history.failures == []
    assert history.coverage.counts["late marker of version 1"] == 1


def test_version_2_has_an_epoch_for_each_transaction_and_no_excuse() -> None:
    history = History()
    first, second = history.attempt(1, bumps_epoch=True), history.attempt(2, bumps_epoch=True)
    history.batch(first)
    history.end(first, is_commit=False)
    history.batch(second)
    history.marker(is_commit=False)
    history.batch(second)
    assert history.failures == ["nothing joins a transaction that has ended"]


def test_a_marker_that_was_never_there_before_is_not_late() -> None:
    history = History()
    first = history.attempt(1)
    history.batch(first)
    history.marker(is_commit=True)
    assert history.failures == ["only its producer commits a transaction"]
