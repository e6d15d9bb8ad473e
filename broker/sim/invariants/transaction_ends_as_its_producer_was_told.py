from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.transactions_seen import Attempt, end_text


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
