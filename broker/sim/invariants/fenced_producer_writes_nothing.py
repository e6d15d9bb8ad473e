from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class FencedProducerWritesNothing(Invariant):
    """No batch of an older producer epoch is committed after one of a newer epoch."""

    NAME = "a fenced producer writes nothing"
    GROUP = Group.TRANSACTIONS

    def check(self, where: str, producer_id: int, epoch: int, *, highest: int) -> None:
        if epoch < highest:
            self.violated(f"{where}: producer {producer_id} epoch {epoch} after epoch {highest}")
