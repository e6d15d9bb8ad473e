from __future__ import annotations

from broker.sim.invariants.invariant import Fail, Group, Invariant


class OneOwnerOfAPartitionPerGeneration(Invariant):
    """With the classic protocol a partition has one owner in a generation."""

    NAME = "one owner of a partition per generation"
    GROUP = Group.GROUPS

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        self._owners: dict[tuple[str, int, int], str] = {}  # (group, generation, partition) -> member

    def assigned(self, group: str, generation: int, member: str, index: int) -> None:
        other = self._owners.setdefault((group, generation, index), member)
        if other != member:
            self.violated(f"{group} generation {generation}: partition {index} is {other}'s and {member}'s")
