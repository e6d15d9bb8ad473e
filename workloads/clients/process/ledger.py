"""Which records of a client have no outcome yet, and where the outcome of the others was told. Arrays only, because a
fast client has a million of them a second. Pure. Shown by tests/workloads/test_workloads_process_ledger.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

SLOTS: Final = 131_072  # a power of two; as many as the ring of sends in flight of a load has
_LAST: Final = SLOTS - 1
_Seqs = NDArray[np.int64]


class Ledger:
    """A slot keeps a record until another seq needs the slot. One that is still open then is kept aside."""

    def __init__(self) -> None:
        self.open_count = 0
        # By slot: the seq and 1, or 0 if nobody had the slot yet; when it was written; the line with its outcome, or 0.
        self._owners, self._written_us, self._told_at = (np.zeros(SLOTS, dtype=np.int64) for _ in range(3))
        self._of_one = (self._owners.data, self._written_us.data, self._told_at.data)  # faster for one record
        self._order = np.zeros(SLOTS, dtype=np.int64)  # of the call of `take` under way
        self._aside: dict[int, int] = {}  # seq -> when it was written, of open records
        self._highest = -1

    def give(self, seqs: _Seqs, now_us: int) -> None:
        """Records that are handed to the client now, none of which is open. They lie within SLOTS of one another."""
        highest = int(seqs.max())
        assert highest - int(seqs.min()) < SLOTS
        slots = seqs & _LAST
        is_open = (self._told_at[slots] == 0) & (self._owners[slots] > 0)
        if is_open.any():
            kept = slots[is_open]
            owners = self._owners[kept] - 1
            assert not np.isin(owners, seqs).any()
            self._aside.update(zip(owners.tolist(), self._written_us[kept].tolist(), strict=True))
        self._owners[slots] = seqs + 1
        self._written_us[slots] = now_us
        self._told_at[slots] = 0
        self.open_count += len(seqs)
        self._highest = max(self._highest, highest)

    def take_one(self, seq: int, told_at: int) -> int:
        """The record has its outcome now, by the line `told_at` (from 1). When it was written; -1 if it is not open."""
        owners, written, told = self._of_one
        slot = seq & _LAST
        if owners[slot] == seq + 1 and not told[slot] and seq >= 0:
            told[slot] = told_at
            written_us: int = written[slot]
        else:
            written_us = self._aside.pop(seq, -1)
        self.open_count -= written_us >= 0
        return written_us

    def take(self, seqs: _Seqs, told_at: int) -> _Seqs:
        """`take_one` for many: of a seq that stands twice among them, the second place has -1."""
        slots = seqs & _LAST
        is_open = (self._owners[slots] == seqs + 1) & (self._told_at[slots] == 0) & (seqs >= 0)
        order = np.arange(len(seqs))
        self._order[slots[::-1]] = order[::-1]  # of one that stands twice, the first place is kept
        is_open &= self._order[slots] == order
        self._told_at[slots[is_open]] = told_at
        written_us = np.where(is_open, self._written_us[slots], -1)
        if self._aside:
            for index in np.flatnonzero(~is_open).tolist():
                written_us[index] = self._aside.pop(int(seqs[index]), -1)
        self.open_count -= int(np.count_nonzero(written_us >= 0))
        return written_us

    def told_at(self, seq: int) -> int:
        """The line with the outcome of this record; 0 if that is not known any more, or it has none."""
        slot = seq & _LAST
        return int(self._told_at[slot]) if self._owners[slot] == seq + 1 else 0

    def was_given(self, seq: int) -> bool:
        """As far as is known: of records long ago only the highest seq."""
        return 0 <= seq <= self._highest

    def open_seqs(self, written_until_us: int | None = None) -> list[int]:
        """The open records in order: all, or those written until then."""
        is_open = (self._told_at == 0) & (self._owners > 0)
        if written_until_us is not None:
            is_open &= self._written_us <= written_until_us
        aside = [seq for seq, at_us in self._aside.items() if written_until_us is None or at_us <= written_until_us]
        return sorted([*(self._owners[is_open] - 1).tolist(), *aside])
