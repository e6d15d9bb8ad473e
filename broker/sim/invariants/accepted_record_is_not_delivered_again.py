from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class AcceptedRecordIsNotDeliveredAgain(Invariant):
    """A record whose acceptance or rejection was confirmed is delivered again only by leaders that are already
    replaced, or after the group's offsets were set anew."""

    NAME = "an accepted record is not delivered again"
    GROUP = Group.SHARES

    def check(self, where: str, member: str, *, confirmed: tuple[int, int] | None, epochs: tuple[int, int]) -> None:
        """`confirmed`: the state epoch and leader epoch in which it was confirmed, None if it was not. `epochs`: those
        of the delivery."""
        if confirmed is not None and confirmed[0] == epochs[0] and confirmed[1] <= epochs[1]:
            self.violated(
                f"{where}: delivered to {member} in leader epoch {epochs[1]}, but confirmed in leader epoch "
                f"{confirmed[1]} of state epoch {epochs[0]}"
            )
