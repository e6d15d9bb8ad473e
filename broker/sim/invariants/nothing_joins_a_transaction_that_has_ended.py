from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.transactions_seen import Attempt


class NothingJoinsATransactionThatHasEnded(Invariant):
    """No batch of a transaction is committed after the marker that ended it."""

    NAME = "nothing joins a transaction that has ended"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, *, has_ended: bool) -> None:
        if has_ended and not attempt.is_torn:
            self.violated(f"{where}: a batch of {attempt.name} after its marker")
