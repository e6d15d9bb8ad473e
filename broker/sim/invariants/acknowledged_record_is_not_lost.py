from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class AcknowledgedRecordIsNotLost(Invariant):
    """A record that was acknowledged with acks=all is in the log of the leader."""

    NAME = "an acknowledged record is not lost"
    GROUP = Group.END

    def check(self, identity: bytes, offset: int, *, found: list[int]) -> None:
        if not found:
            self.violated(f"{identity!r} acknowledged at offset {offset}")
