from __future__ import annotations

from broker.sim.invariants.invariant import Fail, Group, Invariant


class OneControllerPerEpoch(Invariant):
    """An epoch of the metadata quorum has at most one leader."""

    NAME = "one controller per epoch"
    GROUP = Group.QUORUM

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        self._leaders: dict[int, int] = {}  # epoch -> node

    def leads(self, node_id: int, epoch: int) -> bool:
        """True if no leader of this epoch was seen before."""
        if epoch not in self._leaders:
            self._leaders[epoch] = node_id
            return True
        known = self._leaders[epoch]
        if known != node_id:
            self.violated(f"nodes {known} and {node_id} both lead epoch {epoch}")
        return False
