from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DeliveryCountOnlyGrows(Invariant):
    """With each delivery of a record its delivery count grows by one, also after a fail-over from the count that was
    confirmed, and it never exceeds the limit."""

    NAME = "the delivery count only grows"
    GROUP = Group.SHARES

    def check(self, where: str, count: int, *, before: int, limit: int) -> None:
        """`before`: the count of the last delivery by this leader, else the count that it read from the state."""
        if count != before + 1:
            self.violated(f"{where}: delivered with count {count} after {before}")
        elif count > limit:
            self.violated(f"{where}: delivered {count} times, the limit is {limit}")
