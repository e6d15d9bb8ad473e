from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class AcknowledgedMeansCommitted(Invariant):
    """A record that was acknowledged with acks=all is committed."""

    NAME = "acknowledged means committed"
    GROUP = Group.CLIENTS

    def check(self, where: str, offset: int, *, committed_end: int) -> None:
        if offset >= committed_end:
            self.violated(f"{where} offset {offset} acknowledged with acks=all, committed up to {committed_end}")
