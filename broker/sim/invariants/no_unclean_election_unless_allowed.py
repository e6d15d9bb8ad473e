from __future__ import annotations

from broker.controller.image import PartitionState
from broker.sim.invariants.invariant import Group, Invariant


class NoUncleanElectionUnlessAllowed(Invariant):
    """The controller elects a replica that may lack committed records only if the topic allows it."""

    NAME = "no unclean election unless allowed"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState, *, is_allowed: bool) -> None:
        """Check the election of a leader that was neither in the ISR, nor eligible, nor the last known leader."""
        if not is_allowed:
            self.violated(f"{where}: {now.leader} was not in the ISR {was.isr}, nor eligible {was.elr}")
