from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class MemberGetsTheRecordsThatItAcquires(Invariant):
    """An answer to a ShareFetch has the record batches of all offsets that it acquires for the member."""

    NAME = "a member gets the records that it acquires"
    GROUP = Group.SHARES

    def check(self, where: str, member: str, first: int, last: int, *, batches: list[tuple[int, int]]) -> None:
        """`batches`: (first, last offset) of each batch in the answer, ascending."""
        position = first
        for low, high in batches:
            if low <= position <= high:
                position = high + 1
        if position <= last:
            self.violated(f"{where}: {member} acquires {first} to {last}, the answer has {batches}")
