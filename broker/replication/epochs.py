"""Where two logs diverge: the rules of truncation by leader epoch. Pure functions over an epoch lookup.

A lookup returns the largest epoch <= e that the log knows, and the end offset of that epoch (OffsetForLeaderEpoch). It
returns None if the log knows no such epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    epoch: int
    end_offset: int


EpochLookup = Callable[[int], EpochEnd | None]


def diverging_epoch(
    *, lookup: EpochLookup, last_fetched_epoch: int, fetch_offset: int, log_start_offset: int
) -> EpochEnd | None:
    """The leader's part, in Fetch v12+. None if the follower's log is a prefix of ours. Otherwise the epoch and end
    offset that the follower must compare next.

    `last_fetched_epoch` is the epoch of the follower's record before `fetch_offset`. -1 means that it has none.
    """
    if last_fetched_epoch < 0 or fetch_offset <= log_start_offset:
        return None
    found = lookup(last_fetched_epoch)
    if found is None:
        return EpochEnd(epoch=-1, end_offset=log_start_offset)
    if found.epoch < last_fetched_epoch or found.end_offset < fetch_offset:
        return found
    return None


def truncation_offset(*, lookup: EpochLookup, diverging: EpochEnd, log_end_offset: int, high_watermark: int) -> int:
    """The follower's part: its new log end offset. The caller truncates there and fetches again, until nothing
    diverges.

    Each round either ends the search or removes at least one epoch, so the number of rounds is bounded by the epochs.
    """
    if diverging.epoch < 0:
        return min(high_watermark, log_end_offset)
    found = lookup(diverging.epoch)
    if found is None:
        return min(diverging.end_offset, log_end_offset)
    if found.epoch == diverging.epoch:
        return min(found.end_offset, diverging.end_offset, log_end_offset)
    return min(found.end_offset, log_end_offset)
