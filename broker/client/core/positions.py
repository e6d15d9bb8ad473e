"""The position of a consumer in a partition, and the leader epochs of the records that it read before (KIP-320).

Owns: the chain of epochs before a position, and the judgement of a leader's answer to OffsetForLeaderEpoch: does the
log still contain the records that were read? It knows neither requests nor the reset policy. Shown by
tests/broker_client/test_client_positions.py.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_EPOCH = -1
_EPOCHS_MAX = 16  # older epochs only help to find a rare double truncation sooner; an epoch usually lasts minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """From `divergent_offset` on, the records that were read are no longer in the leader's log. None: the leader cannot
    tell the offset."""

    divergent_offset: int | None
    leader_epoch: int  # leader epoch of the record before the divergent offset, -1 if not known


class EpochChain:
    """Invariant: epochs and first offsets grow strictly. An entry applies from its offset up to the offset of the next
    entry."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []  # (leader epoch, first offset that was read in it)

    def restart(self, offset: int, leader_epoch: int) -> None:
        """The position is `offset` now. `leader_epoch` is the epoch of the record before it, or UNKNOWN_EPOCH."""
        self._entries = [] if leader_epoch == UNKNOWN_EPOCH else [(leader_epoch, offset - 1)]

    def read(self, first_offset: int, leader_epoch: int) -> None:
        """A batch was read that begins at this offset."""
        if leader_epoch == UNKNOWN_EPOCH or (self._entries and self._entries[-1][0] >= leader_epoch):
            return  # the batch has the same epoch, or the epochs of the log are not in order: there is nothing to add
        self._entries.append((leader_epoch, first_offset))
        del self._entries[:-_EPOCHS_MAX]

    def cut(self, offset: int, leader_epoch: int) -> None:
        """The records that were read from `offset` on are gone. In the leader's log, the record before `offset` has the
        epoch `leader_epoch`."""
        self._entries = [entry for entry in self._entries if entry[1] < offset]
        if not self._entries:
            self.restart(offset, leader_epoch)

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record before `offset`. UNKNOWN_EPOCH if this consumer did not read that record and
        nobody told its epoch."""
        for leader_epoch, first_offset in reversed(self._entries):
            if first_offset < offset:
                return leader_epoch
        return UNKNOWN_EPOCH

    def judge(self, position: int, end_epoch: int, end_offset: int) -> Truncation | None:
        """Returns None if the records that were read are still there.

        The leader was asked about the epoch before `position`. It answers with its largest epoch that is not above that
        one, and with the end offset of that epoch. If the leader does not have the consumer's epoch at all, every
        record that the consumer read in later epochs than the answer is gone too. This is so even if the older epoch
        ends after the consumer's position in the leader's log. (Java's consumer compares only the offset.) After a
        `cut` the question must be asked again, for the epoch that is then the last one.
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
