"""Invariants of consumer groups and share groups."""

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


class OneOwnerOfAPartitionAtATime(Invariant):
    """With the protocol of KIP-848 a partition has one owner at a time."""

    NAME = "one owner of a partition at a time"
    GROUP = Group.GROUPS

    def check(self, group: str, index: int, member: str, *, other: str | None) -> None:
        """`other` still owns the partition when `member` gets it. None if nobody owns it."""
        if other is not None:
            self.violated(f"{group}: partition {index} was given to {member} while it is {other}'s")


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


class OnlyWhatWasAskedForIsCommitted(Invariant):
    """A group has no committed offset beyond what a member asked to commit."""

    NAME = "only what was asked for is committed"
    GROUP = Group.GROUPS

    def check(self, group: str, index: int, offset: int, *, asked: int) -> None:
        if offset > asked:
            self.violated(f"{group} partition {index}: {offset} was fetched")


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


class OneHolderOfARecordAtATime(Invariant):
    """While a member of a share group holds the lock of a record, the same leader gives the record to nobody."""

    NAME = "one holder of a record at a time"
    GROUP = Group.SHARES

    def check(self, where: str, member: str, *, holder: str | None, left_ms: int) -> None:
        """`holder` has the lock for `left_ms` more when `member` gets the record. None: nobody has it."""
        if holder is not None and left_ms > 0:
            self.violated(f"{where}: given to {member} while {holder} holds it for {left_ms} ms more")


class DeliveryCountOnlyGrows(Invariant):
    """With each delivery of a record its delivery count grows by one, also after a fail-over from the count that was
    confirmed, and it never exceeds the limit."""

    NAME = "the delivery count only grows"
    GROUP = Group.SHARES

    def check(self, where: str, count: int, *, before: int, limit: int) -> None:
        """`before`: the count of the last delivery by this leader, else the count that it read from the state."""
        if count != before + 1:
            self.violated(f"{where}: delivered with count {count} after {before}")
        elif count > limit:
            self.violated(f"{where}: delivered {count} times, the limit is {limit}")


class ShareStartOffsetPassesFinalRecordsOnly(Invariant):
    """The start offset of a share partition never moves back, and passes only records that are acknowledged, archived,
    no longer in the log, or never delivered (markers of transactions)."""

    NAME = "the start offset passes final records only"
    GROUP = Group.SHARES

    def moved(self, where: str, start_offset: int, *, before: int, open_offset: int | None) -> None:
        """`open_offset`: a record between both that is not final, None if there is none."""
        if start_offset < before:
            self.violated(f"{where}: the start offset moved from {before} back to {start_offset}")
        elif open_offset is not None:
            self.violated(f"{where}: the start offset moved from {before} to {start_offset} over {open_offset}")


class ShareStateIsReadBackAsConfirmed(Invariant):
    """A new leader of a share partition reads everything from the state that was confirmed to earlier leaders, and
    nothing that no leader wrote."""

    NAME = "a share state is read back as confirmed"
    GROUP = Group.SHARES


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
