from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class OneHolderOfARecordAtATime(Invariant):
    """While a member of a share group holds the lock of a record, the same leader gives the record to nobody."""

    NAME = "one holder of a record at a time"
    GROUP = Group.SHARES

    def check(self, where: str, member: str, *, holder: str | None, left_ms: int) -> None:
        """`holder` has the lock for `left_ms` more when `member` gets the record. None: nobody has it."""
        if holder is not None and left_ms > 0:
            self.violated(f"{where}: given to {member} while {holder} holds it for {left_ms} ms more")
