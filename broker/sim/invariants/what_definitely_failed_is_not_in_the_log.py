from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class WhatDefinitelyFailedIsNotInTheLog(Invariant):
    """A record whose send definitely failed is not in the log."""

    NAME = "what definitely failed is not in the log"
    GROUP = Group.END

    def check(self, identity: bytes, failed: set[bytes], *, found: list[int]) -> None:
        if identity in failed:
            self.violated(f"{identity!r} at {found}")
