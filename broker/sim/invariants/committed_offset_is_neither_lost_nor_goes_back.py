from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CommittedOffsetIsNeitherLostNorGoesBack(Invariant):
    """A group that fetches its offsets gets the last acknowledged ones, also after a failure of its coordinator."""

    NAME = "a committed offset is neither lost nor goes back"
    GROUP = Group.GROUPS

    def fetched(self, group: str, index: int, offset: int, *, floor: int) -> bool:
        """`floor` is the offset that was acknowledged when the fetch began. Returns whether the invariant holds."""
        if offset >= floor:
            return True
        self.violated(f"{group} partition {index}: {offset} was fetched after {floor} was acknowledged")
        return False

    def goes_on(self, group: str, index: int, name: str, offset: int, *, floor: int) -> None:
        """A member begins to read at this offset."""
        if offset < floor:
            self.violated(f"{group} partition {index}: {name} goes on at {offset}, {floor} was acknowledged")
