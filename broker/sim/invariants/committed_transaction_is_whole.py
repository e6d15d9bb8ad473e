from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.transactions_seen import Attempt


class CommittedTransactionIsWhole(Invariant):
    """Every record that was acknowledged within a committed transaction is in the log, and committed."""

    NAME = "a committed transaction is whole"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, attempt: Attempt, identity: bytes, *, is_there: bool) -> None:
        if not is_there:
            self.violated(f"{attempt.name}: {identity!r} of {where} is missing")
