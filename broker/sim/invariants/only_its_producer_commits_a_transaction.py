from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.transactions_seen import Attempt


class OnlyItsProducerCommitsATransaction(Invariant):
    """A transaction whose producer never asked to commit it is not committed."""

    NAME = "only its producer commits a transaction"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, *, is_commit: bool) -> None:
        if is_commit and True not in attempt.asked:
            self.violated(f"{where}, its producer never asked for it")
