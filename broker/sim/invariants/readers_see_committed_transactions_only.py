from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.transactions_seen import Attempt


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
