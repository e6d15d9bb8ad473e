from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class IdempotenceNoRecordTwice(Invariant):
    """A record of an idempotent producer is in the log once."""

    NAME = "idempotence: no record twice"
    GROUP = Group.END

    def check(self, identity: bytes, *, found: list[int]) -> None:
        if len(found) > 1:
            self.violated(f"{identity!r} at {found}")
