from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class AcknowledgedRecordIsWhereItWasSaid(Invariant):
    """An acknowledged record is at the offset that its acknowledgement named."""

    NAME = "an acknowledged record is where it was said"
    GROUP = Group.END

    def check(self, identity: bytes, offset: int, *, found: list[int]) -> None:
        if found and offset >= 0 and offset not in found:
            self.violated(f"{identity!r}: {offset}, found at {found}")
