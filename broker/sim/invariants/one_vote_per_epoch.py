from __future__ import annotations

from broker.sim.invariants.invariant import Fail, Group, Invariant


class OneVotePerEpoch(Invariant):
    """A voter gives only one vote in an epoch, whether the vote is on its disk or only in memory."""

    NAME = "one vote per epoch"
    GROUP = Group.QUORUM

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        self._votes: dict[tuple[int, int], int] = {}  # (voter, epoch) -> candidate

    def voted(self, voter: int, epoch: int, candidate: int) -> bool:
        """True if this vote was not seen before."""
        earlier = self._votes.get((voter, epoch))
        if earlier is None:
            self._votes[(voter, epoch)] = candidate
        elif earlier != candidate:
            self.violated(f"voter {voter} voted for {earlier} and for {candidate} in epoch {epoch}")
        return earlier is None
