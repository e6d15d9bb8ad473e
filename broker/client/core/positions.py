"""Where a consumer stands in a partition, and in which leader epochs it read what lies before (KIP-320).

Owns: the chain of epochs behind a position, and the judgement of a leader's answer to OffsetForLeaderEpoch: is what was
read still in the log? Knows neither requests nor the reset policy. Shown by
tests/broker_client/test_client_positions.py.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_EPOCH = -1
_EPOCHS_MAX = 16  # older ones only help to find a rare double truncation sooner; an epoch usually lasts minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What was read is not in the leader's log any more, from `divergent_offset` on. None: the leader cannot tell the
    offset."""

    divergent_offset: int | None
    leader_epoch: int  # of the record before the divergent offset, -1 if not known


class EpochChain:
    """Invariant: epochs and first offsets grow strictly. An entry holds from its offset to that of the next entry."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []  # (leader epoch, first offset that was read in it)

    def restart(self, offset: int, leader_epoch: int) -> None:
        """The position is `offset` now, and the record before it, if it is known, is of `leader_epoch`."""
        self._entries = [] if leader_epoch == UNKNOWN_EPOCH else [(leader_epoch, offset - 1)]

    def read(self, first_offset: int, leader_epoch: int) -> None:
        """A batch was taken in, from this offset on."""
        if leader_epoch == UNKNOWN_EPOCH or (self._entries and self._entries[-1][0] >= leader_epoch):
            return  # within an epoch, or from a log whose epochs are not in order: nothing new
        self._entries.append((leader_epoch, first_offset))
        del self._entries[:-_EPOCHS_MAX]

    def cut(self, offset: int, leader_epoch: int) -> None:
        """What was read from `offset` on is gone; the leader's record before it is of `leader_epoch`."""
        self._entries = [entry for entry in self._entries if entry[1] < offset]
        if not self._entries:
            self.restart(offset, leader_epoch)

    def epoch_before(self, offset: int) -> int:
        """Of the record before `offset`; UNKNOWN_EPOCH if it was not read by us and nobody said."""
        for leader_epoch, first_offset in reversed(self._entries):
            if first_offset < offset:
                return leader_epoch
        return UNKNOWN_EPOCH

    def judge(self, position: int, end_epoch: int, end_offset: int) -> Truncation | None:
        """None if what was read is still there.

        The leader was asked about the epoch before `position`. It answers with its largest epoch that is not above that
        one, and with its end. If it does not have our epoch at all, everything that we read in epochs later than its
        answer is gone too, even if an older epoch is longer there than our position. (Java's consumer looks at the
        offset alone.) After a `cut` the question must be asked again, for the epoch that is then the last one.
        """
        if end_epoch == UNKNOWN_EPOCH or end_offset < 0:
            return Truncation(divergent_offset=None, leader_epoch=UNKNOWN_EPOCH)
        gone = [first_offset for leader_epoch, first_offset in self._entries if leader_epoch > end_epoch]
        divergent_offset = min([position, end_offset, *gone])
        if divergent_offset >= position:
            return None
        return Truncation(divergent_offset=max(0, divergent_offset), leader_epoch=end_epoch)

    def check_invariants(self) -> None:
        assert len(self._entries) <= _EPOCHS_MAX
        for before, after in zip(self._entries, self._entries[1:], strict=False):
            assert before[0] < after[0]
            assert before[1] < after[1] + 1
