"""A new segment's file is synced, its entry in the directory is not: a loss of power takes the segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.partition_log import PartitionLog
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def _roll(self: PartitionLog, base_offset: int) -> None:
        original(self, base_offset)
        self._unsynced_directories.discard(self.directory)

    original = patch.set(PartitionLog, "_roll", _roll)


def is_reached(plan: SeedPlan) -> bool:
    return not plan.can_lose_power_unsynced and plan.segment_bytes < 10_000
