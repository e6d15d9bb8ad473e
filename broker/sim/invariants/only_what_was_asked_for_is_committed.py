from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class OnlyWhatWasAskedForIsCommitted(Invariant):
    """A group has no committed offset beyond what a member asked to commit."""

    NAME = "only what was asked for is committed"
    GROUP = Group.GROUPS

    def check(self, group: str, index: int, offset: int, *, asked: int) -> None:
        if offset > asked:
            self.violated(f"{group} partition {index}: {offset} was fetched")
