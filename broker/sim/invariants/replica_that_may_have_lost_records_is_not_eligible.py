from __future__ import annotations

from collections.abc import Set

from broker.controller.image import PartitionState
from broker.sim.invariants.invariant import Group, Invariant


class ReplicaThatMayHaveLostRecordsIsNotEligible(Invariant):
    """A broker that registered after an unclean shutdown is in no ISR and is not an eligible leader replica until a
    leader has brought it into the ISR again or it was elected itself (KIP-966).
    """

    NAME = "a replica that may have lost records is not eligible"
    GROUP = Group.QUORUM

    def check(self, where: str, now: PartitionState, *, doubtful: Set[int]) -> None:
        """`doubtful`: brokers that registered after an unclean shutdown, and that no leader has brought into the ISR
        since."""
        found = sorted(doubtful & {*now.isr, *now.elr})
        if found:
            self.violated(f"{where}: {found} shut down uncleanly; ISR {now.isr}, eligible {now.elr}")
