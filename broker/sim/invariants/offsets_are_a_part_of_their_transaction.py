from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class OffsetsAreAPartOfTheirTransaction(Invariant):
    """The offsets in a transaction count if and only if it was committed."""

    NAME = "offsets are a part of their transaction"
    GROUP = Group.TRANSACTIONS

    def check(self, group: str, *, found: int | None, expected: int) -> None:
        if found != expected:
            self.violated(f"{group}: committed {found}, expected {expected}")
