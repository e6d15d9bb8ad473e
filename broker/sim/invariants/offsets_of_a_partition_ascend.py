from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class OffsetsOfAPartitionAscend(Invariant):
    """A consumer gets the records of a partition in the order of their offsets."""

    NAME = "offsets of a partition ascend"
    GROUP = Group.CLIENTS

    def check(self, name: str, index: int, offset: int, *, next_offset: int) -> None:
        if offset < next_offset:
            self.violated(f"{name}: {index} at {offset} after {next_offset}")
