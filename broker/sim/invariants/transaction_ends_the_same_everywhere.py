from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.transactions_seen import end_text


class TransactionEndsTheSameEverywhere(Invariant):
    """A transaction is committed in all of its partitions or aborted in all of them."""

    NAME = "a transaction ends the same everywhere"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, *, is_commit: bool, elsewhere: bool | None) -> None:
        if elsewhere is not None and elsewhere != is_commit:
            self.violated(f"{where}, {end_text(elsewhere)} elsewhere")
