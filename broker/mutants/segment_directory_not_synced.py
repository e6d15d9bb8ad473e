"""A new segment's file is synced, its entry in the directory is not: a loss of power takes the segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.segments import Segments
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def begin(self: Segments, base_offset: int) -> None:
        original(self, base_offset)
        self._unsynced_directories.discard(self._directory)

    original = patch.set(Segments, "begin", begin)


def is_reached(plan: SeedPlan) -> bool:
    return not plan.can_lose_power_unsynced and plan.segment_bytes < 10_000
