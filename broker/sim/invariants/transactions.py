"""Invariants of transactions."""

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import Watched
from broker.sim.transactions_seen import Attempt, end_text


class TransactionEndsTheSameEverywhere(Invariant):
    """A transaction is committed in all of its partitions or aborted in all of them."""

    NAME = "a transaction ends the same everywhere"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, *, is_commit: bool, elsewhere: bool | None) -> None:
        if elsewhere is not None and elsewhere != is_commit:
            self.violated(f"{where}, {end_text(elsewhere)} elsewhere")


class OnlyItsProducerCommitsATransaction(Invariant):
    """A transaction whose producer never asked to commit it is not committed."""

    NAME = "only its producer commits a transaction"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, *, is_commit: bool) -> None:
        if is_commit and True not in attempt.asked:
            self.violated(f"{where}, its producer never asked for it")


class TransactionEndsAsItsProducerWasTold(Invariant):
    """A transaction ends in the logs in the way that the answer to its producer said."""

    NAME = "a transaction ends as its producer was told"
    GROUP = Group.TRANSACTIONS

    def marked(self, where: str, attempt: Attempt, *, is_commit: bool) -> None:
        if attempt.answered is not None and attempt.answered != is_commit:
            self.violated(f"{where}, {end_text(attempt.answered)} was answered")

    def answered(self, attempt: Attempt, *, is_commit: bool) -> None:
        if attempt.is_committed not in (None, is_commit):
            self.violated(f"{attempt.name}: answered {end_text(is_commit)}, marked not")


class NothingJoinsATransactionThatHasEnded(Invariant):
    """No batch of a transaction is committed after the marker that ended it."""

    NAME = "nothing joins a transaction that has ended"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, *, has_ended: bool) -> None:
        if has_ended and not attempt.is_torn:
            self.violated(f"{where}: a batch of {attempt.name} after its marker")


class FencedProducerWritesNothing(Invariant):
    """No batch of an older producer epoch is committed after one of a newer epoch."""

    NAME = "a fenced producer writes nothing"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, producer_id: int, epoch: int, *, highest: int) -> None:
        if epoch < highest:
            self.violated(f"{where}: producer {producer_id} epoch {epoch} after epoch {highest}")


class LastStableOffsetNeverFallsWithinAnEpoch(Invariant):
    """The last stable offset of a leader does not fall within a leader epoch."""

    NAME = "the last stable offset never falls within an epoch"
    GROUP = Group.TRANSACTIONS

    def check(self, node_id: int, where: str, before: Watched, now: Watched) -> None:
        """Both states are of the same leader epoch."""
        if before.is_leader == now.is_leader and now.last_stable_offset < before.last_stable_offset:
            self.violated(
                f"broker {node_id} {where} epoch {now.leader_epoch}: "
                f"{before.last_stable_offset} to {now.last_stable_offset}"
            )


class ReadersSeeCommittedTransactionsOnly(Invariant):
    """A reader with read_committed gets no record of a transaction that was aborted or is not decided."""

    NAME = "readers see committed transactions only"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, *, outcome: bool | None) -> bool:
        """`outcome` is the end of the transaction in that partition. None if it has not ended there yet.

        Returns whether the invariant holds.
        """
        if attempt.is_torn or outcome is True:
            return True
        self.violated(
            f"{where}: a record of {attempt.name}, which is {'aborted' if outcome is False else 'not decided yet'}"
        )
        return False


class CommittedTransactionIsWhole(Invariant):
    """Every record that was acknowledged within a committed transaction is in the log, and committed."""

    NAME = "a committed transaction is whole"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, identity: bytes, *, is_there: bool) -> None:
        if not is_there:
            self.violated(f"{attempt.name}: {identity!r} of {where} is missing")


class OffsetsAreAPartOfTheirTransaction(Invariant):
    """The offsets in a transaction count if and only if it was committed."""

    NAME = "offsets are a part of their transaction"
    GROUP = Group.TRANSACTIONS

    def check(self, group: str, *, found: int | None, expected: int) -> None:
        if found != expected:
            self.violated(f"{group}: committed {found}, expected {expected}")
