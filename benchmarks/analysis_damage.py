"""What is damaged in a made run log, batch by batch, and how many records each damage must mark. Pure.

A batch is known by its number. It goes to the producer and the partition of that number in turn, and its *slot* is its
turn among the batches of its partition. Shown by tests/benchmarks/test_benchmarks_analysis.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

BATCH: Final = 50
PRODUCERS: Final = 4
PARTITIONS: Final = 12
DAMAGE_EVERY: Final = 5_003  # batches; three kinds take turns
HOLE_EVERY: Final = 10  # records
HOLE_AT: Final = 7
LATER_SLOTS: Final = 4  # a batch is polled again after so many more of its partition
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Amount(StrEnum):
    LIGHT = "light"  # one batch in five thousand
    HEAVY = "heavy"  # seven batches of ten, and half of the log is never delivered


class Kind(IntEnum):
    NONE = -1
    LOST = 0  # acknowledged, and not in the log
    TWICE = 1  # in the log once more, behind all others
    SWAPPED = 2  # in the place of the next batch of its producer and partition, which has its place
    HOLED = 3  # a tenth of its records is acknowledged and delivered, and not in the log
    REVERSED = 4  # its last record comes first: acknowledgements name the places of other records
    UNKNOWN = 5  # in the log, and the client was told nothing
    AGAIN = 6  # delivered once more, later


# By slot. No two neighbours need one another but SWAPPED and the batch after it.
_HEAVY_KINDS: Final = np.array(
    [
        Kind.HOLED, Kind.TWICE, Kind.SWAPPED, Kind.NONE, Kind.LOST, Kind.REVERSED, Kind.NONE, Kind.UNKNOWN, Kind.AGAIN,
        Kind.NONE,
    ]
)  # fmt: skip
_CALM_SLOT: Final = len(_HEAVY_KINDS) - 1
_PASSED_OVER_EVERY: Final = 3  # slots; three has no factor with the ten kinds, so each kind is read and passed over


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """`batches` is how many there are. `every` is how rare light damage is."""

    amount: Amount
    batches: int
    every: int = DAMAGE_EVERY

    def kinds(self, batch: Numbers) -> Numbers:
        if self.amount is Amount.LIGHT:
            turn = batch // self.every % 3
            return np.where(batch % self.every == self.every // 2, turn, np.int64(Kind.NONE))
        return _HEAVY_KINDS[batch // PARTITIONS % len(_HEAVY_KINDS)].astype(np.int64)

    @property
    def last_slot_read(self) -> int:
        """The readers stop behind it. Nothing is damaged in it, so its last record is the last one delivered."""
        slots = self.batches // PARTITIONS
        if self.amount is Amount.LIGHT:
            return 2 * slots  # copies too
        fit = [slot for slot in range(slots * 3 // 4) if slot % len(_HEAVY_KINDS) == _CALM_SLOT and _is_read(slot)]
        assert fit, f"{slots} batches a partition are too few for heavy damage"
        return fit[-1]

    def is_delivered(self, slot: Numbers) -> Flags:
        """Whether readers get what is at these slots of the log. Of a log with heavy damage they get a half."""
        if self.amount is Amount.LIGHT:
            return np.ones(len(slot), dtype=np.bool_)
        delivered: Flags = (slot <= self.last_slot_read) & (slot % _PASSED_OVER_EVERY != 1)
        return delivered


def _is_read(slot: int) -> bool:
    return slot % _PASSED_OVER_EVERY != 1


def is_hole(within: Numbers) -> Flags:
    """Of a batch that is HOLED, by the place of a record in it."""
    found: Flags = within % HOLE_EVERY == HOLE_AT
    return found


HOLES: Final = int(is_hole(np.arange(BATCH)).sum())


def marked(damage: Damage, kind: Numbers, slot: Numbers, is_swapped: Flags) -> dict[str, int]:
    """Records that each anomaly must mark in batches of these kinds at these slots. `is_swapped`: really swapped; where
    a part of the log ends, there may be no next batch."""
    delivered = damage.is_delivered(slot)
    stored = np.where(kind == Kind.LOST, 0, np.where(kind == Kind.HOLED, BATCH - HOLES, BATCH))
    twice = kind == Kind.TWICE
    is_heavy = damage.amount is Amount.HEAVY
    behind = (slot > damage.last_slot_read) | (twice & is_heavy)  # readers stop before the copies
    passed = ~delivered & (slot <= damage.last_slot_read)

    def records(chosen: Flags) -> int:
        return int(chosen.sum()) * BATCH

    return {
        "lost": int((BATCH - stored).sum()),
        "duplicated": records(twice),
        "reordered": records(is_swapped) + int((kind == Kind.REVERSED).sum()) * (BATCH - 1),
        "unknown": records(kind == Kind.UNKNOWN),
        "offset_reused": records(kind == Kind.REVERSED),
        "unseen_pending": int(stored[behind].sum()),
        "lost_in_delivery": int(stored[passed].sum()),
        "read_above_hw": int(((kind == Kind.HOLED) & delivered).sum()) * HOLES,
        "redelivered": records((kind == Kind.AGAIN) & delivered),
    }
