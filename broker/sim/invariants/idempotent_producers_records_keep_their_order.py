from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class IdempotentProducersRecordsKeepTheirOrder(Invariant):
    """The records of an idempotent producer are in the log in the order in which they were sent."""

    NAME = "an idempotent producer's records keep their order"
    GROUP = Group.END

    def check(self, where: str, numbers: list[int]) -> None:
        if numbers != sorted(numbers):
            self.violated(where)
